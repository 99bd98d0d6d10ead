package expr

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

var (
	errLarge = errors.New("too large")
	errPlain = errors.New("no such overload: not a value of JSON")
	// errUnknown is no mistake: it ends an evaluation whose outcome is unknown.
	errUnknown = errors.New("drover: not known yet")
)

// native turns a CEL value into what JSON can hold, within the budget.
func native(v ref.Val, budget *int, depth int) (any, error) {
	if *budget -= 8; *budget < 0 || depth == 0 {
		return nil, errLarge
	}
	switch x := v.(type) {
	case types.String:
		return text(string(x), budget)
	case types.Int:
		return int64(x), nil
	case types.Bool:
		return bool(x), nil
	case types.Uint:
		if uint64(x) > math.MaxInt64 {
			return nil, errPlain
		}
		return int64(x), nil
	case types.Double:
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return nil, errPlain
		}
		return float64(x), nil
	case types.Null:
		return nil, nil
	case types.Bytes:
		return text(base64.StdEncoding.EncodeToString(x), budget)
	case types.Timestamp:
		return x.Time.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return x.Duration.String(), nil
	case *types.Optional:
		if !x.HasValue() {
			return nil, nil
		}
		return native(x.GetValue(), budget, depth-1)
	case *types.Unknown:
		return Unknown{}, nil
	case secretValue:
		return Secret(x), nil
	case value:
		return fields(x, budget, depth)
	case traits.Mapper:
		out := map[string]any{}
		for it := x.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			name, ok := k.(types.String)
			if !ok {
				return nil, errPlain
			}
			if *budget -= len(name); *budget < 0 {
				return nil, errLarge
			}
			member, err := native(x.Get(k), budget, depth-1)
			if err != nil {
				return nil, err
			}
			out[string(name)] = member
		}
		return out, nil
	case traits.Lister:
		out := []any{}
		for it := x.Iterator(); it.HasNext() == types.True; {
			member, err := native(it.Next(), budget, depth-1)
			if err != nil {
				return nil, err
			}
			out = append(out, member)
		}
		return out, nil
	case *types.Err:
		return nil, x
	}
	return nil, errPlain
}

func text(s string, budget *int) (any, error) {
	if *budget -= len(s); *budget < 0 {
		return nil, errLarge
	}
	return s, nil
}

func fields(v value, budget *int, depth int) (any, error) {
	out := map[string]any{}
	for name, f := range v.object.Fields {
		if f.Get(v.v) == nil {
			continue
		}
		member, err := native(v.Get(types.String(name)), budget, depth-1)
		if err != nil {
			return nil, err
		}
		out[name] = member
	}
	return out, nil
}

// Normal gives the numbers of a JSON tree the types that expressions expect:
// whole ones int64, others float64. It returns v itself where nothing changes.
func Normal(v any) any {
	switch x := v.(type) {
	case int:
		return int64(x)
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return int64(x)
		}
	case json.Number:
		if n, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			return n
		}
		if f, err := x.Float64(); err == nil {
			return Normal(f)
		}
	case map[string]any:
		if whole(x) {
			return x
		}
		out := make(map[string]any, len(x))
		for k, member := range x {
			out[k] = Normal(member)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, member := range x {
			out[i] = Normal(member)
		}
		return out
	}
	return v
}

// whole reports whether a map needs no change, without looking into lists.
func whole(m map[string]any) bool {
	for _, v := range m {
		switch v.(type) {
		case nil, string, bool, int64:
		default:
			return false
		}
	}
	return true
}
