package expr

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

var errTooLarge = types.WrapErr(errLarge)

// guard bounds every value that a call or a literal makes. Cost alone does not:
// values share parts, so that a short expression can name a value whose
// comparison would outlive us inside one step.
func guard(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch n := i.(type) {
	case interpreter.InterpretableCall:
		return guardedCall{n}, nil
	case interpreter.InterpretableConstructor:
		return guardedConstructor{n}, nil
	}
	return i, nil
}

type guardedCall struct{ interpreter.InterpretableCall }

func (g guardedCall) Exec(f *interpreter.ExecutionFrame) ref.Val {
	return bounded(g.InterpretableCall.Exec(f))
}

func (g guardedCall) Eval(a interpreter.Activation) ref.Val {
	return bounded(g.InterpretableCall.Eval(a))
}

type guardedConstructor struct {
	interpreter.InterpretableConstructor
}

func (g guardedConstructor) Exec(f *interpreter.ExecutionFrame) ref.Val {
	return bounded(g.InterpretableConstructor.Exec(f))
}

func (g guardedConstructor) Eval(a interpreter.Activation) ref.Val {
	return bounded(g.InterpretableConstructor.Eval(a))
}

func bounded(v ref.Val) ref.Val {
	budget := maxValue
	if !fits(v, &budget, maxNesting) {
		return errTooLarge
	}
	return v
}

// fits takes the size of a value from the budget.
func fits(v ref.Val, budget *int, depth int) bool {
	*budget -= 8
	if depth == 0 {
		return false
	}
	switch x := v.(type) {
	case types.String:
		*budget -= len(x)
	case types.Bytes:
		*budget -= len(x)
	case *types.Optional:
		return !x.HasValue() || fits(x.GetValue(), budget, depth-1)
	case traits.Mapper:
		for it := x.Iterator(); *budget >= 0 && it.HasNext() == types.True; {
			key := it.Next()
			if !fits(key, budget, depth-1) || !fits(x.Get(key), budget, depth-1) {
				return false
			}
		}
	case traits.Lister:
		for it := x.Iterator(); *budget >= 0 && it.HasNext() == types.True; {
			if !fits(it.Next(), budget, depth-1) {
				return false
			}
		}
	}
	return *budget >= 0
}
