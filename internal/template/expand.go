package template

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/graph"
)

// expansion is a layout in the making.
type expansion struct {
	ctx      context.Context
	layout   *Layout
	mistakes document.Mistakes
	edges    int
	wrong    map[*resource]bool // whose inputs were complained about: the next index says the same
}

// maxTold bounds the mistakes of a layout: thousands say no more than a few.
const maxTold = 50

// Expand lays the template out: counts and conditions are decided, names become
// addresses, references become edges. The same gives the same. The error is
// fault.Invalid (reason "layout") and wraps document.Mistakes: all of them.
func (t *Template) Expand(ctx context.Context, given Given) (*Layout, error) {
	limited, stop := context.WithTimeout(ctx, maxExpand)
	defer stop()
	x := &expansion{ctx: limited, wrong: map[*resource]bool{}, layout: &Layout{Template: t, index: map[string]int{}, scopes: map[string]*scope{}}}
	tags := make([]any, len(given.Env.Tags))
	for i, tag := range given.Env.Tags {
		tags[i] = tag
	}
	e := given.Env
	env := map[string]any{"name": e.Name, "org": e.Org, "owner": e.Owner, "description": e.Description, "tags": tags, "id": any(e.ID)}
	if e.ID == "" {
		env["id"] = expr.Unknown{}
	}
	params, _ := expr.Normal(given.Params).(map[string]any)
	root := &scope{t: t, env: env, params: params}
	x.layout.root = root
	x.lay(root)
	if len(x.mistakes) == 0 {
		x.connect()
	}
	if len(x.mistakes) == 0 {
		x.order()
	}
	if err := ctx.Err(); err != nil {
		return nil, fault.New(fault.Unavailable, "the layout was stopped: %w", err)
	}
	if limited.Err() != nil {
		x.mistakes = document.Mistakes{t.mistake(document.Place{Line: 1, Column: 1}, "", fmt.Sprintf("its expressions take longer than %s", maxExpand))}
	}
	if len(x.mistakes) > 0 {
		return nil, fault.New(fault.Invalid, "%w", x.mistakes).Because("layout")
	}
	return x.layout, nil
}

func (x *expansion) report(t *Template, at document.Place, address, format string, args ...any) {
	if len(x.mistakes) < maxTold {
		x.mistakes = append(x.mistakes, t.mistake(at, address, fmt.Sprintf(format, args...)))
	}
}

// lay decides what there is in a scope, and in those within it.
func (x *expansion) lay(s *scope) {
	s.there, s.inner = map[string]int{}, map[string]*scope{}
	off := map[*group]bool{}
	for _, g := range s.t.groups {
		off[g] = !x.holds(s, g.when, g.place, s.prefix+g.Name)
		if g.nested != nil {
			s.there[g.Name] = single
			if off[g] {
				s.there[g.Name] = absent
			}
		}
	}
	total := len(x.layout.Nodes)
	for _, r := range s.t.resources {
		n := single
		address := s.prefix + r.key
		if r.group != nil && off[r.group] || !x.holds(s, r.when, r.places["when"], address) {
			n = absent
		} else if r.count != nil {
			n = x.count(s, r, address)
		}
		s.there[r.key] = n
		if total += max(n, 0); n == single {
			total++
		}
		if total > maxNodes {
			x.report(s.t, r.places[""], address, "there would be more than %d resources", maxNodes)
			return
		}
		x.nodes(s, r, n)
	}
	for _, g := range s.t.groups {
		if !off[g] {
			x.part(s, g)
		}
	}
}

// nodes adds those of one resource.
func (x *expansion) nodes(s *scope, r *resource, n int) {
	node := Node{Resource: *r.Resource, Address: s.prefix + r.key, Index: -1, Template: s.t.Ref(), scope: s, resource: r}
	node.Group = strings.TrimSuffix(s.prefix, ".")
	if r.group != nil {
		node.Group = s.prefix + r.group.Name
	}
	if n == single {
		x.layout.Nodes = append(x.layout.Nodes, node)
		return
	}
	base := node.Address
	for i := range max(n, 0) {
		node.Index, node.Address = i, address(base, i)
		x.layout.Nodes = append(x.layout.Nodes, node)
	}
}

// part adds a group, with the template that it is.
func (x *expansion) part(s *scope, g *group) {
	part := Part{Address: s.prefix + g.Name, Name: g.Name, Description: g.Description, Tags: g.Tags, Template: s.t.Ref()}
	at := len(x.layout.Groups)
	x.layout.Groups = append(x.layout.Groups, part)
	if g.nested == nil {
		return
	}
	x.layout.Groups[at].Template = g.nested.Ref()
	inner := &scope{t: g.nested, prefix: part.Address + ".", parent: s, group: g, env: s.env}
	v, err := s.evaluate(x.ctx, g.with, -1, nil, nil)
	if err != nil {
		x.report(s.t, g.place, part.Address, "with: %v", s.explain(err, g.with, -1))
		return
	}
	params, _ := v.(map[string]any)
	for _, p := range g.nested.fits(params) {
		x.report(s.t, g.place, part.Address, "with: %v", p)
	}
	if inner.params = g.nested.filled(params); !executor.Whole(inner.params) {
		inner.open = true
	}
	s.inner[g.Name] = inner
	x.layout.scopes[part.Address] = inner
	if len(x.mistakes) == 0 {
		x.lay(inner)
	}
}

// filled adds defaults to parameters of which some are not known.
func (t *Template) filled(params map[string]any) map[string]any {
	if t.parameters == nil {
		return params
	}
	var open [][]string
	plain, _ := fillIn(params, nil, &open).(map[string]any)
	out, err := t.parameters.Validate(plain)
	if err != nil { // because of what is not known: the defaults of the top level are still known
		out = maps.Clone(params)
		if out == nil {
			out = map[string]any{}
		}
		properties, _ := t.Spec.Parameters["properties"].(map[string]any)
		for name, p := range properties {
			described, _ := p.(map[string]any)
			if d, ok := described["default"]; ok && out[name] == nil {
				out[name] = expr.Normal(d)
			}
		}
		return out
	}
	for k, v := range params {
		if !executor.Whole(v) || !plainTree(v) {
			out[k] = v
		}
	}
	return out
}

// plainTree reports that there is no Secret in a tree.
func plainTree(v any) bool {
	switch x := v.(type) {
	case executor.Secret:
		return false
	case map[string]any:
		for _, v := range x {
			if !plainTree(v) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(x, func(v any) bool { return !plainTree(v) })
	}
	return true
}

// holds decides a condition; none holds.
func (x *expansion) holds(s *scope, when *expr.Template, at document.Place, address string) bool {
	if when == nil {
		return true
	}
	v, err := s.evaluate(x.ctx, when, -1, nil, nil)
	switch b, ok := v.(bool); {
	case err != nil:
		x.report(s.t, at, address, "when: %v", err)
	case v == any(expr.Unknown{}):
		x.report(s.t, at, address, "when depends on what is known only after something was made: use parameters that are given")
	case !ok:
		x.report(s.t, at, address, "when must be true or false")
	default:
		return b
	}
	return false
}

// count decides how many there are.
func (x *expansion) count(s *scope, r *resource, address string) int {
	v, err := s.evaluate(x.ctx, r.count, -1, nil, nil)
	switch n, ok := v.(int64); {
	case err != nil:
		x.report(s.t, r.places["count"], address, "count: %v", err)
	case v == any(expr.Unknown{}):
		x.report(s.t, r.places["count"], address, "count depends on what is known only after something was made: use parameters that are given")
	case !ok:
		x.report(s.t, r.places["count"], address, "count must be a whole number")
	case n < 0 || n > maxNodes:
		x.report(s.t, r.places["count"], address, "count is %d, and must be from 0 to %d", n, maxNodes)
	default:
		return int(n)
	}
	return 0
}

// connect finds what each node needs, and whether its inputs can be evaluated.
func (x *expansion) connect() {
	of := map[string][]string{} // nodes by group
	for i := range x.layout.Nodes {
		x.layout.index[x.layout.Nodes[i].Address] = i
		for g := x.layout.Nodes[i].Group; g != ""; g, _, _ = cutLast(g) {
			of[g] = append(of[g], x.layout.Nodes[i].Address)
		}
	}
	for i := range x.layout.Groups {
		x.layout.Groups[i].Nodes = of[x.layout.Groups[i].Address]
	}
	for i := range x.layout.Nodes {
		n := &x.layout.Nodes[i]
		needs := map[string]bool{}
		x.needs(n, of, needs)
		if n.resource.with != nil {
			n.scope.reach(x.ctx, n.resource.with.Uses(), n.Index, func(a string) { needs[a] = true })
			x.inputs(n)
		}
		n.Needs = slices.Sorted(maps.Keys(needs))
		if x.edges += len(n.Needs); x.edges > maxEdges {
			x.report(n.scope.t, n.resource.places[""], n.Address, "there would be more than %d edges: refer to single ones such as web[0] instead of whole lists", maxEdges)
			return
		}
		if x.ctx.Err() != nil || len(x.mistakes) == maxTold {
			return
		}
	}
}

// inputs looks at what is known of a node's inputs already.
func (x *expansion) inputs(n *Node) {
	if x.wrong[n.resource] {
		return
	}
	before := len(x.mistakes)
	defer func() { x.wrong[n.resource] = len(x.mistakes) > before }()
	v, err := n.scope.evaluate(x.ctx, n.resource.with, n.Index, nil, nil)
	if err != nil {
		x.report(n.scope.t, n.resource.places["with"], n.Address, "with: %v", n.scope.explain(err, n.resource.with, n.Index))
		return
	}
	doc, ok := v.(map[string]any)
	if !ok {
		if v != any(expr.Unknown{}) {
			x.report(n.scope.t, n.resource.places["with"], n.Address, "with: must be a map")
		}
		return
	}
	if n.resource.inputs == nil {
		return
	}
	for _, p := range fit(n.resource.inputs, doc) {
		where := "with"
		if len(p.Path) > 0 {
			where += "." + p.Where()
		}
		x.report(n.scope.t, n.resource.places["with"], n.Address, "%s: %s", where, n.resource.words(p))
	}
}

// order makes the graph.
func (x *expansion) order() {
	nodes := make([]graph.Node, len(x.layout.Nodes))
	for i, n := range x.layout.Nodes {
		nodes[i] = graph.Node{Name: n.Address, Needs: n.Needs}
	}
	g, err := graph.New(nodes)
	var problems graph.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			n := x.layout.Nodes[x.layout.index[p.Node]]
			x.report(n.scope.t, n.resource.places[""], n.Address, "%s", p.Message)
		}
		return
	}
	sorted := make([]Node, 0, len(nodes))
	for _, name := range g.Order() {
		sorted = append(sorted, x.layout.Nodes[x.layout.index[name]])
	}
	for i := range sorted {
		x.layout.index[sorted[i].Address] = i
	}
	x.layout.Graph, x.layout.Nodes = g, sorted
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}
