package expr

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/interpreter"

	"github.com/droverhq/drover/internal/fault"
)

// RenderPartial evaluates the document where some of what the variables hold is
// not known: each path of unknown begins with the name of a variable, followed by
// keys (string) and indexes (int), where nil stands for any of them. What depends
// on such a value is Unknown: the value of an expression as a whole, and the text
// that it stands in. Variables need not hold what is unknown.
func (t *Template) RenderPartial(ctx context.Context, vars map[string]any, unknown [][]any) (any, error) {
	if len(unknown) == 0 {
		return t.Render(ctx, vars)
	}
	patterns := make([]*interpreter.AttributePattern, 0, len(unknown))
	for _, path := range unknown {
		p, err := pattern(path)
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, p)
	}
	activation, err := interpreter.NewPartialActivation(vars, patterns...)
	if err != nil {
		return nil, fmt.Errorf("cannot use the variables: %w", err)
	}
	if t.tracked {
		limited, stop := context.WithTimeoutCause(ctx, maxTime, errTime)
		defer stop()
		ctx = limited
	}
	return t.root.render(&run{ctx: ctx, vars: activation, budget: maxValue, partial: true})
}

func pattern(path []any) (*interpreter.AttributePattern, error) {
	wrong := fault.New(fault.Internal, "not a path of an unknown value: %v", path)
	if len(path) == 0 {
		return nil, wrong
	}
	root, ok := path[0].(string)
	if !ok {
		return nil, wrong
	}
	p := interpreter.NewAttributePattern(root)
	for _, step := range path[1:] {
		switch x := step.(type) {
		case nil:
			p.Wildcard()
		case string:
			p.QualString(x)
		case int:
			p.QualInt(int64(x))
		default:
			return nil, wrong
		}
	}
	return p, nil
}

// partly is the program that expects unknown values. It is made when it is first
// needed, so that those who know everything do not pay for it.
func (p *program) partly() (cel.Program, error) {
	p.once.Do(func() {
		p.partial, p.broken = p.env.Program(p.checked, append(p.options, cel.EvalOptions(p.mode()|cel.OptPartialEval))...)
	})
	return p.partial, p.broken
}

func (p *program) mode() cel.EvalOption {
	if p.tracked {
		return cel.OptTrackCost
	}
	return 0
}

// Type of what the document becomes; Dyn for maps, lists, and what is only known
// when it is evaluated.
func (t *Template) Type() Type {
	switch n := t.root.(type) {
	case single:
		return n.out
	case mixed:
		return String
	case static:
		switch n.v.(type) {
		case string:
			return String
		case bool:
			return Bool
		case int, int64:
			return Int
		case float64:
			return Double
		}
	}
	return Dyn
}
