package expr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/droverhq/drover/internal/fault"
)

// program is one compiled expression.
type program struct {
	source  string
	out     *cel.Type
	prg     cel.Program
	tracked bool // cost and clock are watched
	uses    []Use

	// What the program for unknown values is made of, when it is first needed.
	env     *cel.Env
	checked *cel.Ast
	options []cel.ProgramOption
	once    sync.Once
	partial cel.Program
	broken  error
}

func (e *Env) compile(source string) (*program, []Problem) {
	if len(source) > maxSource {
		return nil, []Problem{{Message: fmt.Sprintf("an expression has at most %d bytes", maxSource)}}
	}
	if strings.TrimSpace(source) == "" {
		return nil, []Problem{{Message: "the expression is empty"}}
	}
	checked, issues := e.env.Compile(source)
	if issues != nil && issues.Err() != nil {
		var problems []Problem
		for _, err := range issues.Errors() {
			problems = append(problems, Problem{
				Offset: byteOffset(source, err.Location.Line(), err.Location.Column()), Message: shorten(err.Message, 300),
			})
		}
		return nil, problems
	}
	if problems := e.misnamed(source, checked); len(problems) > 0 {
		return nil, problems
	}
	p := &program{source: source, out: checked.OutputType(), env: e.env, checked: checked, uses: e.usesOf(checked)}
	options := []cel.ProgramOption{}
	if p.tracked = !simple(checked.NativeRep().Expr()); p.tracked {
		options = append(options, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(checkEvery), cel.CustomDecoratorV2(guard))
	}
	p.options = slices.Clip(options)
	prg, err := e.env.Program(checked, append(p.options, cel.EvalOptions(p.mode()))...)
	if err != nil {
		return nil, []Problem{{Message: err.Error()}}
	}
	p.prg = prg
	return p, nil
}

// byteOffset turns CEL's line (from 1) and column (in characters) into bytes.
func byteOffset(source string, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		next := strings.IndexByte(source[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	for i := range source[at:] {
		if column <= 0 {
			return at + i
		}
		column--
	}
	return len(source)
}

// eval runs the program and returns plain Go values.
func (p *program) eval(r *run) (any, error) {
	out, err := p.run(r)
	if err != nil {
		return nil, p.fault(r.ctx, err)
	}
	v, err := native(out, &r.budget, maxNesting)
	if err != nil {
		return nil, p.fault(r.ctx, err)
	}
	return v, nil
}

func (p *program) run(r *run) (out ref.Val, err error) {
	prg := p.prg
	if r.partial {
		if prg, err = p.partly(); err != nil {
			return nil, err
		}
	}
	if p.tracked {
		out, _, err = prg.ContextEval(r.ctx, r.vars)
	} else {
		out, _, err = prg.Eval(r.vars)
	}
	if r.partial && err != nil && strings.Contains(err.Error(), errUnknown.Error()) {
		return &types.Unknown{}, nil
	}
	return out, err
}

// fault says what went wrong in words that hold no values: these may be secret.
func (p *program) fault(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errTime) {
		return fault.New(fault.Unavailable, "evaluation was stopped: %w", cause)
	}
	text, reason := err.Error(), "it cannot be evaluated with these values"
	for _, known := range []struct{ part, reason string }{
		{"cost limit exceeded", "it does too much work"},
		{"interrupted", "it takes too long"},
		{errLarge.Error(), "its value is too large"},
		{"no such key", "it reads a key that is not there (test with has(), or read it as .?key.orValue(...))"},
		{"no such overload", "a value has the wrong type"},
		{"not a quantity", "a text is no quantity such as 50Mi"},
		{"by zero", "it divides by zero"},
		{"index out of bounds", "an index is out of bounds"},
	} {
		if strings.Contains(text, known.part) {
			reason = known.reason
			break
		}
	}
	return fault.New(fault.Invalid, "${%s}: %s", abbreviate(p.source), reason)
}

func abbreviate(source string) string { return shorten(source, 120) }

func shorten(source string, most int) string {
	source = strings.Join(strings.Fields(source), " ")
	if runes := []rune(source); len(runes) > most {
		return string(runes[:most-3]) + "..."
	}
	return source
}

// simple reports whether the work is bounded by the length of the expression
// and of its inputs: no loops, and no function that makes long out of short.
func simple(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind, ast.IdentKind:
		return true
	case ast.SelectKind:
		return simple(e.AsSelect().Operand())
	case ast.ListKind:
		return all(e.AsList().Elements())
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			if m := entry.AsMapEntry(); !simple(m.Key()) || !simple(m.Value()) {
				return false
			}
		}
		return true
	case ast.CallKind:
		c := e.AsCall()
		return plainCalls[c.FunctionName()] && (!c.IsMemberFunction() || simple(c.Target())) && all(c.Args())
	}
	return false
}

func all(es []ast.Expr) bool {
	for _, e := range es {
		if !simple(e) {
			return false
		}
	}
	return true
}

var plainCalls = map[string]bool{
	operators.Conditional: true, operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true,
	operators.Equals: true, operators.NotEquals: true, operators.Less: true, operators.LessEquals: true,
	operators.Greater: true, operators.GreaterEquals: true, operators.Add: true, operators.Subtract: true,
	operators.Multiply: true, operators.Divide: true, operators.Modulo: true, operators.Negate: true,
	operators.Index: true, operators.OptIndex: true, operators.OptSelect: true, operators.In: true,
	"string": true, "int": true, "double": true, "size": true, "orValue": true, "or": true, "hasValue": true,
	"lowerAscii": true, "getSeconds": true, "secret": true, "quantity": true, "isQuantity": true,
	"optional.of": true, "optional.none": true, "upperAscii": true, "startsWith": true, "endsWith": true,
}

// textual reports whether a value of the type can stand in the middle of text.
func textual(t *cel.Type) bool {
	switch t.Kind() {
	case types.StringKind, types.IntKind, types.UintKind, types.DoubleKind, types.BoolKind,
		types.TimestampKind, types.DurationKind, types.DynKind, types.AnyKind:
		return true
	}
	return false
}
