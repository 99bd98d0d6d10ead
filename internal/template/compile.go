package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/schema"
)

// place is what expressions may refer to where they stand, besides params, env
// and files.
type place struct {
	what      string // for people: "count"
	resources bool
	index     bool
	args      map[string]schema.Shape
	plain     string // why secrets cannot stand here; empty: they can
}

// compile makes the schema and the expressions.
func (f *file) compile() {
	spec := []any{"spec"}
	var shape schema.Shape
	f.t.parameters, shape = f.schema(f.t.Spec.Parameters, under(spec, "parameters"))
	f.world(shape)
	if f.t.env == nil {
		return
	}
	for _, r := range f.t.resources {
		f.compileResource(r)
	}
	for _, g := range f.t.groups {
		f.compileGroup(g)
	}
	for i := range f.t.Spec.Outputs {
		o, at := &f.t.Spec.Outputs[i], under(spec, "outputs", i)
		rule := place{what: "an output", resources: true}
		if o.Entry {
			rule.plain = "an entry point is shown to everybody"
		}
		value := f.template(o.Value, under(at, "value"), rule)
		if value == nil {
			continue
		}
		if o.Entry && !value.Type().IsAssignableType(expr.String) {
			f.At(under(at, "value"), "an entry point is a URL, not a %s", value.Type())
		}
		f.t.outputs = append(f.t.outputs, &output{Output: o, value: value, secret: o.Secret || f.secretUse(value) != ""})
	}
	f.t.checks = f.compileChecks(f.t.Spec.Checks, under(spec, "checks"), false)
	f.t.links = f.compileLinks(f.t.Spec.Links, under(spec, "links"), false)
	f.compileActions(under(spec, "actions"))
	f.compilePolicies(under(spec, "policies"))
	f.cycles()
}

func (f *file) compileResource(r *resource) {
	counted := r.Count != nil
	if counted {
		if _, number := r.Count.(int64); !number {
			if text, ok := r.Count.(string); !ok || !strings.HasPrefix(text, "${") {
				f.At(under(r.path, "count"), "must be a whole number, or an expression such as ${params.count}")
			}
		}
		r.count = f.typed(r.Count, under(r.path, "count"), place{what: "count"}, expr.Int, "a whole number")
	}
	if r.When != "" {
		r.when = f.condition(r.When, under(r.path, "when"), place{what: "when"})
	}
	r.needs = f.compileNeeds(r.Needs, under(r.path, "needs"), counted)
	if r.With != nil {
		r.with = f.template(r.With, under(r.path, "with"), place{what: "an input", resources: true, index: counted})
	}
	r.checks = f.compileChecks(r.Checks, under(r.path, "checks"), counted)
	r.links = f.compileLinks(r.Links, under(r.path, "links"), counted)
	f.constantInputs(r)
}

func (f *file) compileGroup(g *group) {
	if g.When != "" {
		g.when = f.condition(g.When, under(g.path, "when"), place{what: "when"})
	}
	g.needs = f.compileNeeds(g.Needs, under(g.path, "needs"), false)
	if g.nested == nil {
		return
	}
	doc := map[string]any{}
	for k, v := range g.With {
		doc[k] = v
	}
	if g.with = f.template(doc, under(g.path, "with"), place{what: "a parameter", resources: true}); g.with == nil {
		return
	}
	for _, p := range f.constant(g.with, g.nested.fits) {
		f.At(under(under(g.path, "with"), steps(p.Path)...), "%s", p.Message)
	}
}

func (f *file) compileNeeds(needs []string, path []any, counted bool) []*expr.Template {
	var out []*expr.Template
	for i, need := range needs {
		at := under(path, i)
		t := f.template(need, at, place{what: "needs", index: counted})
		if t == nil {
			continue
		}
		if !strings.Contains(need, "${") {
			if _, err := f.t.parseNeed(need); err != nil {
				f.At(at, "%v", err)
				continue
			}
		}
		out = append(out, t)
	}
	return out
}

// condition compiles text that is an expression, with or without ${}.
func (f *file) condition(text string, path []any, rule place) *expr.Template {
	shift := 0
	if !strings.HasPrefix(strings.TrimSpace(text), "${") {
		text, shift = "${"+text+"}", 2
	}
	return f.typedShifted(strings.TrimSpace(text), path, rule, expr.Bool, "true or false", shift)
}

func (f *file) typed(doc any, path []any, rule place, want expr.Type, words string) *expr.Template {
	return f.typedShifted(doc, path, rule, want, words, 0)
}

func (f *file) typedShifted(doc any, path []any, rule place, want expr.Type, words string, shift int) *expr.Template {
	t := f.shifted(doc, path, rule, shift)
	if t != nil && !want.IsAssignableType(t.Type()) && !t.Type().IsExactType(expr.Dyn) {
		f.At(path, "must be %s, not %s", words, t.Type())
		return nil
	}
	return t
}

func (f *file) template(doc any, path []any, rule place) *expr.Template {
	return f.shifted(doc, path, rule, 0)
}

// shifted compiles a document and checks what it refers to. The text of the file
// begins some bytes into the document's.
func (f *file) shifted(doc any, path []any, rule place, shift int) *expr.Template {
	t, err := expr.Compile(doc, f.t.env)
	var problems expr.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			f.Inside(under(path, p.Path...), max(p.Offset-shift, 0), f.reword(p.Message, textAt(doc, p.Path), p.Offset, rule))
		}
		f.rest(doc, path, rule)
		return nil
	}
	if err != nil {
		f.At(path, "%v", err)
		return nil
	}
	before := f.Found()
	f.misuses(t, path, rule, shift)
	if f.Found() > before {
		return nil
	}
	return t
}

func (f *file) misuses(t *expr.Template, path []any, rule place, shift int) {
	for _, u := range t.Uses() {
		if message := f.misuse(u, rule); message != "" {
			f.Inside(under(path, u.Path...), max(u.At-shift, 0), message)
		}
	}
}

// rest looks at the texts of a document that are in order, though others are not.
func (f *file) rest(doc any, path []any, rule place) {
	switch x := doc.(type) {
	case string:
		if t, err := expr.Compile(x, f.t.env); err == nil {
			f.misuses(t, path, rule, 0)
		}
	case map[string]any:
		for k, v := range x {
			f.rest(v, under(path, k), rule)
		}
	case []any:
		for i, v := range x {
			f.rest(v, under(path, i), rule)
		}
	}
}

// misuse tells what is wrong with a reference where it stands.
func (f *file) misuse(u expr.Use, rule place) string {
	switch u.Root {
	case "params", "env":
		return ""
	case "files":
		if len(u.Steps) == 1 && u.Steps[0].Key != "" && !u.Test {
			if _, there := f.t.files[u.Steps[0].Key]; !there {
				return fmt.Sprintf("there is no file %.64q beside the template; %s", u.Steps[0].Key, near(u.Steps[0].Key, f.t.files, "files["+`"path"`+"] reads files of up to 256 KiB"))
			}
		}
		return ""
	case "index":
		if !rule.index {
			return "index is there only in resources that have a count"
		}
		return ""
	case "args":
		if rule.args == nil {
			return "args is there only in actions"
		}
		if len(u.Steps) > 0 && u.Steps[0].Key != "" {
			if _, there := rule.args[u.Steps[0].Key]; !there {
				return fmt.Sprintf("the action has no parameter %.64q; %s", u.Steps[0].Key, near(u.Steps[0].Key, rule.args, "name it under parameters"))
			}
		}
		return ""
	}
	if f.t.names[u.Root] == nil {
		return "" // a type, such as int
	}
	if !rule.resources {
		return fmt.Sprintf("%s is decided before anything is made: it can refer to params and env, not to %s", rule.what, u.Root)
	}
	if rule.plain != "" {
		if name := f.t.secretOf(u); name != "" {
			return name + " is secret: " + rule.plain
		}
	}
	return ""
}

// secretUse names a secret that a document refers to; empty: none that is known.
func (f *file) secretUse(t *expr.Template) string {
	for _, u := range t.Uses() {
		if name := f.t.secretOf(u); name != "" {
			return name
		}
	}
	return ""
}

// secretOf names the secret output that a reference reaches; empty: none that is
// known before there are outputs.
func (t *Template) secretOf(u expr.Use) string {
	e := t.names[u.Root]
	if e == nil {
		return ""
	}
	rest, name := u.Steps, u.Root
	if u.Over && len(rest) == 0 && e.resource != nil {
		return "" // how many there are
	}
	r := e.resource
	if e.group != nil && e.group.nested == nil {
		if len(rest) == 0 {
			for _, inner := range e.group.Resources {
				if found := t.secretOf(expr.Use{Root: u.Root, Steps: []expr.Step{{Key: inner.Name, Index: -1}}}); found != "" {
					return found
				}
			}
			return ""
		}
		r, name, rest = e.group.resources[rest[0].Key], name+"."+rest[0].Key, rest[1:]
	}
	secret := map[string]bool{}
	if e.group != nil && e.group.nested != nil {
		for _, o := range e.group.nested.outputs {
			secret[o.Name] = o.secret
		}
	} else if r != nil {
		secret = r.secret
	}
	for i, s := range rest { // the index of a list comes before the outputs
		if s.Key == "address" || u.Test && s.Key == "outputs" && i+1 == len(rest) {
			return ""
		}
		if s.Key == "outputs" && i+1 < len(rest) && rest[i+1].Key != "" {
			if secret[rest[i+1].Key] {
				return name + ".outputs." + rest[i+1].Key
			}
			return ""
		}
	}
	for _, o := range sortedTrue(secret) {
		return name + ".outputs." + o
	}
	return ""
}

func sortedTrue(m map[string]bool) []string {
	var out []string
	for k, v := range m {
		if v {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// steps turns a schema's path into one of a document.
func steps(path []string) []any {
	out := make([]any, len(path))
	for i, s := range path {
		out[i] = s
	}
	return out
}

// at tells a mistake that was found later, in a layout.
func (t *Template) mistake(at document.Place, address, message string) document.Mistake {
	return document.Mistake{Source: t.where, Line: at.Line, Column: at.Column, Path: address, Message: message}
}
