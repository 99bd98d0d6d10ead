package ledgertest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/ledger"
)

// stored is the object as a store returns it: fields have their types, times
// are cut to microseconds, nulls are gone.
func stored(o ledger.Object) ledger.Object {
	fields := ledger.Fields{}
	for name, v := range o.Fields {
		switch x := v.(type) {
		case nil:
			continue
		case int:
			v = int64(x)
		case float64:
			v = int64(x)
		case time.Time:
			v = x.UTC().Truncate(time.Microsecond)
		case string:
			if at, err := time.Parse(time.RFC3339Nano, x); err == nil && name == "born" {
				v = at.UTC().Truncate(time.Microsecond)
			}
		}
		fields[name] = v
	}
	o.Fields = fields
	o.Deleted = o.Deleted.UTC().Truncate(time.Microsecond)
	return o
}

// lenient takes missing and empty maps and JSON for the same.
var lenient = cmp.Options{
	cmp.Transformer("fields", func(f ledger.Fields) map[string]any { return orEmpty(f) }),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Labels" },
		cmp.Comparer(func(a, b map[string]string) bool { return cmp.Equal(orEmpty(a), orEmpty(b)) })),
	cmp.Transformer("raw", func(m json.RawMessage) string { return string(m) }),
}

func orEmpty[M ~map[string]V, V any](m M) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// sameJSON takes JSON that means the same for the same: the log may re-encode it.
var sameJSON = cmp.FilterValues(func(a, b string) bool { return json.Valid([]byte(a)) && json.Valid([]byte(b)) },
	cmp.Comparer(func(a, b string) bool { return a == b || meaning(a) == meaning(b) }))

func meaning(s string) string {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return s
	}
	out, err := json.Marshal(v)
	if err != nil {
		return s
	}
	return string(out)
}
