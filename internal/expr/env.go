package expr

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
)

// Bounds of every evaluation.
const (
	maxSource  = 8 << 10     // bytes of one expression
	maxCost    = 100_000     // units of CEL's cost of one expression
	maxTime    = time.Second // of one document; the cost limit is normally met long before
	maxValue   = 256 << 10   // bytes of any value on the way and of a document
	maxNesting = 64          // of an expression and of a document
	checkEvery = 100         // loop steps between two looks at the clock
)

// Env is what expressions can see. It is immutable and safe for concurrent use.
type Env struct {
	env     *cel.Env
	secrets []string // that expressions may name
}

// NewEnv makes an environment with one variable per object, and one per value
// of another type.
func NewEnv(vars map[string]*Object, values map[string]Type) (*Env, error) {
	p := &provider{objects: map[string]*Object{}}
	options := []cel.EnvOption{
		cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(maxSource), cel.ParserRecursionLimit(maxNesting),
		ext.Strings(ext.StringsMaxPrecision(100)), ext.Encoders(), ext.Math(), ext.Sets(), ext.Bindings(),
		ext.Lists(ext.ListsMaxRangeSize(10_000)), ext.TwoVarComprehensions(),
		boundedReplace(), quantities(),
	}
	options = append(options, func(env *cel.Env) (*cel.Env, error) {
		p.Provider = env.CELTypeProvider() // which the options before this one have filled
		return cel.CustomTypeProvider(p)(env)
	})
	for name, o := range vars {
		p.add(o)
		options = append(options, cel.Variable(name, o.celType()))
	}
	for name, typ := range values {
		options = append(options, cel.Variable(name, typ))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("cannot make an expression environment: %w", err)
	}
	return &Env{env: env}, nil
}

func (p *provider) add(o *Object) {
	if p.objects[o.Name] != nil {
		return
	}
	p.objects[o.Name] = o
	o.celType() // made now: an Object must not change once expressions use it
	for _, f := range o.Fields {
		if f.Object != nil {
			p.add(f.Object)
		}
	}
}

// boundedReplace refuses before it builds: the library's own replace multiplies
// lengths in one step that nothing can interrupt.
func boundedReplace() cel.EnvOption {
	replace := func(args ...ref.Val) ref.Val {
		s, old, with, n := string(args[0].(types.String)), string(args[1].(types.String)), string(args[2].(types.String)), -1
		if len(args) == 4 {
			n = int(args[3].(types.Int))
		}
		hits := strings.Count(s, old)
		if n >= 0 {
			hits = min(hits, n)
		}
		if len(s)+hits*len(with) > maxValue {
			return errTooLarge
		}
		return types.String(strings.Replace(s, old, with, n))
	}
	s := cel.StringType
	return cel.Function("replace",
		cel.MemberOverload("string_replace_string_string", []*cel.Type{s, s, s}, s, cel.FunctionBinding(replace)),
		cel.MemberOverload("string_replace_string_string_int", []*cel.Type{s, s, s, cel.IntType}, s, cel.FunctionBinding(replace)))
}
