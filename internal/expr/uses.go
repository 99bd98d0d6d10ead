package expr

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
)

// Use is one place of a document that refers to a variable.
type Use struct {
	Root  string // the variable
	Steps []Step // as far as they are written out: db.outputs.url has two
	Path  []any  // of the text in the document
	At    int    // offset in bytes of the expression in that text
	// Test: it is only asked whether the last step is there.
	Test bool
}

// Step leads from a value to one of its members.
type Step struct {
	Key   string // of a select, or of an index that is constant text; else empty
	Index int64  // of a constant index; -1: it is none, or it is computed
	// Computed is the index as a document of its own, nil if it is constant or if
	// it depends on a variable of a loop.
	Computed *Template
}

// Constant reports whether the step is known from the expression alone.
func (s Step) Constant() bool { return s.Key != "" || s.Index >= 0 }

// Uses lists all that the document refers to, in the order of its keys. What an
// expression looks at only under a condition is in it too.
func (t *Template) Uses() []Use { return t.uses }

// usesOf finds what an expression refers to.
func (e *Env) usesOf(checked *cel.Ast) []Use {
	w := walker{env: e, info: checked.NativeRep().SourceInfo()}
	w.walk(checked.NativeRep().Expr(), nil)
	return w.uses
}

type walker struct {
	env  *Env
	info *ast.SourceInfo
	uses []Use
}

// walk visits an expression in which these names belong to loops.
func (w *walker) walk(x ast.Expr, local map[string]bool) {
	switch x.Kind() {
	case ast.IdentKind, ast.SelectKind:
		w.chain(x, local)
	case ast.ListKind:
		w.all(x.AsList().Elements(), local)
	case ast.MapKind:
		for _, entry := range x.AsMap().Entries() {
			w.walk(entry.AsMapEntry().Key(), local)
			w.walk(entry.AsMapEntry().Value(), local)
		}
	case ast.StructKind:
		for _, field := range x.AsStruct().Fields() {
			w.walk(field.AsStructField().Value(), local)
		}
	case ast.CallKind:
		if _, _, ok := stepOf(x); ok {
			w.chain(x, local)
			return
		}
		if c := x.AsCall(); c.IsMemberFunction() {
			w.walk(c.Target(), local)
		}
		w.all(x.AsCall().Args(), local)
	case ast.ComprehensionKind:
		c := x.AsComprehension()
		w.walk(c.IterRange(), local)
		w.walk(c.AccuInit(), local)
		inner := maps.Clone(local)
		if inner == nil {
			inner = map[string]bool{}
		}
		inner[c.AccuVar()] = true
		w.walk(c.Result(), inner)
		inner = maps.Clone(inner)
		inner[c.IterVar()] = true
		if c.HasIterVar2() {
			inner[c.IterVar2()] = true
		}
		w.walk(c.LoopCondition(), inner)
		w.walk(c.LoopStep(), inner)
	}
}

func (w *walker) all(xs []ast.Expr, local map[string]bool) {
	for _, x := range xs {
		w.walk(x, local)
	}
}

// chain follows selects and indexes down to what they begin with.
func (w *walker) chain(x ast.Expr, local map[string]bool) {
	var steps []Step
	test := x.Kind() == ast.SelectKind && x.AsSelect().IsTestOnly()
	for {
		operand, index, ok := stepOf(x)
		if !ok {
			break
		}
		if index == nil {
			steps = append(steps, Step{Key: x.AsSelect().FieldName(), Index: -1})
		} else {
			steps = append(steps, w.index(index, local))
		}
		x = operand
	}
	if x.Kind() != ast.IdentKind {
		w.walk(x, local)
		return
	}
	if local[x.AsIdent()] {
		return
	}
	slices.Reverse(steps)
	w.uses = append(w.uses, Use{Root: x.AsIdent(), Steps: steps, Test: test})
}

// stepOf takes a select or an index apart; of a select the index is nil.
func stepOf(x ast.Expr) (operand, index ast.Expr, ok bool) {
	switch x.Kind() {
	case ast.SelectKind:
		return x.AsSelect().Operand(), nil, true
	case ast.CallKind:
		switch c := x.AsCall(); c.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			return c.Args()[0], c.Args()[1], true
		}
	}
	return nil, nil, false
}

func (w *walker) index(x ast.Expr, local map[string]bool) Step {
	if x.Kind() == ast.LiteralKind {
		switch v := x.AsLiteral().Value().(type) {
		case string:
			if v != "" {
				return Step{Key: v, Index: -1}
			}
		case int64:
			if v >= 0 {
				return Step{Index: v}
			}
		}
		return Step{Index: -1}
	}
	before := len(w.uses)
	w.walk(x, local)
	if usesLocal(x, local) {
		return Step{Index: -1}
	}
	source, err := parser.Unparse(x, w.info)
	if err != nil {
		return Step{Index: -1}
	}
	p, _ := w.env.compile(source)
	if p == nil {
		return Step{Index: -1}
	}
	return Step{Index: -1, Computed: &Template{root: single{p, nil}, tracked: p.tracked, uses: slices.Clone(w.uses[before:])}}
}

func usesLocal(x ast.Expr, local map[string]bool) bool {
	found := false
	ast.PostOrderVisit(x, ast.NewExprVisitor(func(x ast.Expr) {
		found = found || x.Kind() == ast.IdentKind && local[x.AsIdent()]
	}))
	return found
}
