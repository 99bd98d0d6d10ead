package expr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/interpreter"

	"github.com/droverhq/drover/internal/fault"
)

// Problem is one mistake in a document.
type Problem struct {
	Path    []any // keys (string) and indexes (int) from the root
	Offset  int   // in bytes into the string at the path
	Message string
}

// Where writes a path for people: "spec.env[0]".
func Where(path []any) string {
	var sb strings.Builder
	for _, step := range path {
		if i, ok := step.(int); ok {
			fmt.Fprintf(&sb, "[%d]", i)
			continue
		}
		if sb.Len() > 0 {
			sb.WriteByte('.')
		}
		fmt.Fprint(&sb, step)
	}
	return sb.String()
}

// Problems is every mistake of a document, in the order of its keys.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = Where(p.Path) + ": " + p.Message
	}
	return strings.Join(lines, "\n")
}

// Template is a compiled document. It is immutable and safe for concurrent use.
type Template struct {
	root    node
	tracked bool // some expression may run long enough to be worth a timer
	uses    []Use
}

// node renders one place of the document.
type node interface {
	render(r *run) (any, error)
}

type run struct {
	ctx     context.Context
	vars    interpreter.Activation
	budget  int
	escape  func(string) string // of what expressions put into text; nil: as it is
	partial bool                // vars tell what is unknown
}

var errTime = errors.New("out of time")

// Compile checks a tree of map[string]any, []any and scalars. The error is
// fault.Invalid and wraps Problems, all of them.
func Compile(doc any, env *Env) (*Template, error) {
	c := compiler{env: env}
	root := c.node(doc, nil)
	if len(c.problems) > 0 {
		return nil, fault.New(fault.Invalid, "%w", c.problems)
	}
	return &Template{root: root, tracked: c.tracked, uses: c.uses}, nil
}

// Render evaluates the document: a string that is exactly one ${...} becomes
// the expression's value, all other strings become text. The result must not
// be changed: what holds no expression is shared.
func (t *Template) Render(ctx context.Context, vars map[string]any) (any, error) {
	return t.render(ctx, vars, nil)
}

// RenderText evaluates a document that is one string. What an expression
// yields goes through escape before it becomes part of the text.
func (t *Template) RenderText(ctx context.Context, vars map[string]any, escape func(string) string) (string, error) {
	root := t.root
	if n, ok := root.(single); ok {
		root = mixed{[]piece{{program: n.program}}, n.path}
	}
	v, err := (&Template{root: root, tracked: t.tracked}).render(ctx, vars, escape)
	s, _ := v.(string)
	return s, err
}

// Skeleton is a string with a mark in place of each of its ${...}, for those
// who must know what stands around them.
func Skeleton(s, mark string) string {
	parts, _ := split(s)
	var sb strings.Builder
	for _, p := range parts {
		if p.isExpr {
			p.text = mark
		}
		sb.WriteString(p.text)
	}
	return sb.String()
}

func (t *Template) render(ctx context.Context, vars map[string]any, escape func(string) string) (any, error) {
	activation, err := interpreter.NewActivation(vars)
	if err != nil {
		return nil, fmt.Errorf("cannot use the variables: %w", err)
	}
	if t.tracked {
		limited, stop := context.WithTimeoutCause(ctx, maxTime, errTime)
		defer stop()
		ctx = limited
	}
	return t.root.render(&run{ctx: ctx, vars: activation, budget: maxValue, escape: escape})
}

type compiler struct {
	env      *Env
	problems Problems
	tracked  bool
	uses     []Use
}

func (c *compiler) report(path []any, offset int, message string) {
	c.problems = append(c.problems, Problem{Path: slices.Clone(path), Offset: offset, Message: message})
}

func (c *compiler) node(doc any, path []any) node {
	if len(path) > maxNesting {
		c.report(path, 0, "nested too deeply")
		return static{}
	}
	switch x := doc.(type) {
	case string:
		return c.text(x, path)
	case map[string]any:
		m := object{keys: make([]string, 0, len(x))}
		constant := true
		for k := range x {
			m.keys = append(m.keys, k)
		}
		slices.Sort(m.keys)
		for _, k := range m.keys {
			at := append(path, k)
			if strings.Contains(k, "${") {
				c.report(at, 0, "keys cannot hold expressions; make the whole map one: ${{\"key\": value}}")
			}
			child := c.node(x[k], at)
			_, still := child.(static)
			constant = constant && still
			m.nodes = append(m.nodes, child)
		}
		return fold(m, constant)
	case []any:
		var l list
		constant := true
		for i, v := range x {
			child := c.node(v, append(path, i))
			_, still := child.(static)
			constant = constant && still
			l = append(l, child)
		}
		return fold(l, constant)
	}
	return static{doc}
}

// fold renders once what never changes.
func fold(n node, constant bool) node {
	if !constant {
		return n
	}
	v, _ := n.render(&run{})
	return static{v}
}

func (c *compiler) text(s string, path []any) node {
	parts, problem := split(s)
	if problem != nil {
		c.report(path, problem.Offset, problem.Message)
		return static{}
	}
	if len(parts) == 1 && !parts[0].isExpr {
		return static{parts[0].text}
	}
	var pieces []piece
	for _, part := range parts {
		if !part.isExpr {
			pieces = append(pieces, piece{literal: part.text})
			continue
		}
		p, problems := c.env.compile(part.text)
		for _, problem := range problems {
			c.report(path, part.offset+problem.Offset, problem.Message)
		}
		if p == nil {
			continue
		}
		c.tracked = c.tracked || p.tracked
		for _, u := range p.uses {
			u.Path, u.At = slices.Clone(path), part.offset
			c.uses = append(c.uses, u)
		}
		if len(parts) == 1 {
			return single{p, slices.Clone(path)}
		}
		if !textual(p.out) {
			hint := ""
			if strings.TrimSpace(s) == "${"+part.text+"}" {
				hint = "; to keep it as it is, have no space or line break around it (|- instead of |)"
			}
			c.report(path, part.offset, fmt.Sprintf("a %s cannot stand inside text%s", p.out, hint))
		}
		pieces = append(pieces, piece{program: p})
	}
	return mixed{pieces, slices.Clone(path)}
}

type static struct{ v any }

func (n static) render(*run) (any, error) { return n.v, nil }

type object struct {
	keys  []string
	nodes []node
}

func (n object) render(r *run) (any, error) {
	out := make(map[string]any, len(n.keys))
	for i, k := range n.keys {
		v, err := n.nodes[i].render(r)
		if err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, nil
}

type list []node

func (n list) render(r *run) (any, error) {
	out := make([]any, len(n))
	for i, child := range n {
		v, err := child.render(r)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

type single struct {
	*program
	path []any
}

func (n single) render(r *run) (any, error) {
	v, err := n.eval(r)
	if err != nil {
		return nil, located(n.path, err)
	}
	return v, nil
}

type piece struct {
	literal string
	program *program
}

type mixed struct {
	pieces []piece
	path   []any
}

func (n mixed) render(r *run) (any, error) {
	var sb strings.Builder
	unknown := false
	for _, p := range n.pieces {
		if p.program == nil {
			sb.WriteString(p.literal)
			continue
		}
		v, err := p.program.eval(r)
		if err != nil {
			return nil, located(n.path, err)
		}
		var text string
		switch x := v.(type) {
		case Unknown:
			unknown = true // and the rest is still to be evaluated: it may be wrong
		case string:
			text = x
		case int64:
			text = strconv.FormatInt(x, 10)
		case bool:
			text = strconv.FormatBool(x)
		case float64:
			text = strconv.FormatFloat(x, 'g', -1, 64)
		default:
			return nil, located(n.path, fault.New(fault.Invalid, "${%s}: its value cannot stand inside text", abbreviate(p.program.source)))
		}
		if r.escape != nil {
			text = r.escape(text)
		}
		sb.WriteString(text)
	}
	if unknown {
		return Unknown{}, nil
	}
	return sb.String(), nil
}

func located(path []any, err error) error {
	return fmt.Errorf("%s: %w", Where(path), err)
}
