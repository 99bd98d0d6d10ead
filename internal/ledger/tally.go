package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Tally lists what is counted in every commit. Its cost is that of the counters
// it returns, not that of the objects behind them.
type Tally interface {
	// Totals returns the totals of one scope that the kind declares, in the order
	// of its columns, sorted; those that are zero are left out. It reads all
	// totals of the kind whose scope begins with the same column.
	Totals(ctx context.Context, kind string, scope []string) ([]Total, error)
	// Counters returns the bounded counters whose names begin with a prefix, but
	// for those that are zero.
	Counters(ctx context.Context, prefix string) (map[string]int64, error)
	// CountersOf returns the bounded counters of these names at one moment, but
	// for those that are zero.
	CountersOf(ctx context.Context, names []string) (map[string]int64, error)
}

// Total is how many objects there are with these values.
type Total struct {
	// Values are in the order of the scope, as text: numbers in decimals, times
	// as in RFC 3339, and a null like the empty value, which is "".
	Values []string
	N      int64
}

// TotalKey names the counter of a scope's unfiltered total. Null and the empty
// value share a counter, as they compare alike.
func TotalKey(kind string, columns []string, value func(column string) any) string {
	key := append(make([]byte, 0, 128), "total/"+kind...)
	for _, c := range columns {
		key = append(append(append(key, '/'), c...), '=')
		key = strconv.AppendQuote(key, canonical(value(c)))
	}
	return string(key)
}

// TotalValues reads the values out of such a name; false if it is the name of
// another scope's total.
func TotalValues(key, kind string, columns []string) ([]string, bool) {
	rest, ok := strings.CutPrefix(key, "total/"+kind)
	values := make([]string, 0, len(columns))
	for _, c := range columns {
		if rest, ok = strings.CutPrefix(rest, "/"+c+"="); !ok {
			return nil, false
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, false
		}
		v, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, false
		}
		values, rest = append(values, v), rest[len(quoted):]
	}
	return values, ok && rest == ""
}

// canonical writes a value so that all spellings of it are one.
func canonical(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case float64:
		return canonical(int64(x))
	case time.Time:
		if x.IsZero() {
			return ""
		}
		return x.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
	case nil:
		return ""
	}
	if v == 0 || v == int64(0) || v == false {
		return ""
	}
	return fmt.Sprint(v)
}
