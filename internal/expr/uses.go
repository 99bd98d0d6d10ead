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
	// Over: a loop goes over it, or its size is asked for. What the loop reads of
	// its members are uses of their own, by a step that is not constant.
	Over bool
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

// names belong to loops. Those of members of what a loop goes over lead there.
type names map[string]*Use

// walk visits an expression in which these names belong to loops.
func (w *walker) walk(x ast.Expr, local names) {
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
		c := x.AsCall()
		switch {
		case c.IsMemberFunction() && c.FunctionName() == "size":
			w.over(c.Target(), local)
		case c.IsMemberFunction():
			w.walk(c.Target(), local)
		case c.FunctionName() == "size" && len(c.Args()) == 1:
			w.over(c.Args()[0], local)
			return
		}
		w.all(c.Args(), local)
	case ast.ComprehensionKind:
		w.loop(x.AsComprehension(), local)
	}
}

func (w *walker) loop(c ast.ComprehensionExpr, local names) {
	member := w.over(c.IterRange(), local)
	w.walk(c.AccuInit(), local)
	inner := names{c.AccuVar(): nil}
	for name, u := range local {
		if name != c.AccuVar() {
			inner[name] = u
		}
	}
	w.walk(c.Result(), inner)
	inner = maps.Clone(inner)
	inner[c.IterVar()] = member
	if c.HasIterVar2() {
		inner[c.IterVar()], inner[c.IterVar2()] = nil, member
	}
	w.walk(c.LoopCondition(), inner)
	w.walk(c.LoopStep(), inner)
}

// over visits what a loop goes over and returns what its members are; nil: no
// members of a variable.
func (w *walker) over(x ast.Expr, local names) *Use {
	before := len(w.uses)
	u := w.chain(x, local)
	if u == nil || len(w.uses) == before {
		return nil
	}
	w.uses[len(w.uses)-1].Over = true
	return &Use{Root: u.Root, Steps: append(slices.Clone(u.Steps), Step{Index: -1})}
}

func (w *walker) all(xs []ast.Expr, local names) {
	for _, x := range xs {
		w.walk(x, local)
	}
}

// chain follows selects and indexes down to what they begin with. It returns the
// use that it has found, if that is one of a variable.
func (w *walker) chain(x ast.Expr, local names) *Use {
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
		return nil
	}
	slices.Reverse(steps)
	u := Use{Root: x.AsIdent(), Steps: steps, Test: test}
	if of, loop := local[x.AsIdent()]; loop {
		if of == nil {
			return nil
		}
		u.Root, u.Steps = of.Root, slices.Concat(of.Steps, steps)
	}
	w.uses = append(w.uses, u)
	return &u
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

func (w *walker) index(x ast.Expr, local names) Step {
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

func usesLocal(x ast.Expr, local names) bool {
	found := false
	ast.PostOrderVisit(x, ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() == ast.IdentKind {
			_, loop := local[x.AsIdent()]
			found = found || loop
		}
	}))
	return found
}
