package template

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/droverhq/drover/internal/expr"
)

func address(base string, index int) string { return base + "[" + strconv.Itoa(index) + "]" }

// need is what one entry of needs names.
type need struct {
	resource *resource
	group    *group // a whole group, if resource is nil
	index    int    // -1: all of them
}

var needForm = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_]*)(?:\.([A-Za-z][A-Za-z0-9_]*))?(?:\[([0-9]{1,6})\])?$`)

// parseNeed finds what an entry of needs names.
func (t *Template) parseNeed(text string) (need, error) {
	m := needForm.FindStringSubmatch(text)
	if m == nil {
		return need{}, fmt.Errorf("must name a resource or group: db, web[0], front, front.api")
	}
	out := need{index: -1}
	e := t.names[m[1]]
	if e == nil {
		for _, name := range slices.Sorted(maps.Keys(t.names)) {
			if g := t.names[name].group; g != nil && g.resources[m[1]] != nil {
				return need{}, fmt.Errorf("there is no %s here; did you mean %s.%s?", m[1], name, m[1])
			}
		}
		return need{}, fmt.Errorf("there is no resource or group %s; %s", m[1], near(m[1], t.names, "it must be one of this file"))
	}
	out.resource, out.group = e.resource, e.group
	if m[2] != "" {
		switch {
		case e.group == nil:
			return need{}, fmt.Errorf("%s is no group", m[1])
		case e.group.nested != nil || e.group.Template != "":
			return need{}, fmt.Errorf("what is in %s is its template's: name the group as a whole", m[1])
		case e.group.resources[m[2]] == nil:
			return need{}, fmt.Errorf("group %s has no resource %s; %s", m[1], m[2], near(m[2], e.group.resources, "it must be one of the group"))
		}
		out.resource, out.group = e.group.resources[m[2]], nil
	}
	if m[3] != "" {
		if out.resource == nil || out.resource.Count == nil {
			return need{}, fmt.Errorf("%s has no count, so it has no index", strings.TrimSuffix(text, "["+m[3]+"]"))
		}
		out.index, _ = strconv.Atoi(m[3])
	}
	return out, nil
}

// needs adds what a node needs besides its references: its own, those of its
// group, and those of the groups that its template is in.
func (x *expansion) needs(n *Node, of map[string][]string, into map[string]bool) {
	s := n.scope
	x.needsOf(s, n.resource.needs, n, n.Index, of, into)
	if n.resource.group != nil {
		x.needsOf(s, n.resource.group.needs, n, -1, of, into)
	}
	for ; s.parent != nil; s = s.parent {
		x.needsOf(s.parent, s.group.needs, n, -1, of, into)
	}
}

func (x *expansion) needsOf(s *scope, needs []*expr.Template, n *Node, index int, of map[string][]string, into map[string]bool) {
	at := n.resource.places["needs"]
	for _, t := range needs {
		v, err := s.evaluate(x.ctx, t, index, nil, nil)
		if err != nil {
			x.report(n.scope.t, at, n.Address, "needs: %v", err)
			continue
		}
		var names []any
		switch y := v.(type) {
		case nil:
		case string:
			names = []any{y}
		case []any:
			names = y
		default:
			x.report(n.scope.t, at, n.Address, "needs: must be a name or a list of names, known from parameters")
		}
		for _, name := range names {
			text, ok := name.(string)
			if text == "" && ok {
				continue
			}
			found, err := s.t.parseNeed(text)
			if err != nil {
				x.report(n.scope.t, at, n.Address, "needs: %.64q: %v", text, err)
				continue
			}
			if found.resource == nil {
				for _, a := range of[s.prefix+found.group.Name] {
					into[a] = true
				}
				continue
			}
			count := s.there[found.resource.key]
			if found.index >= 0 && count >= 0 && found.index >= count {
				x.report(n.scope.t, at, n.Address, "needs: there is no %s: the count is %d", text, count)
				continue
			}
			s.addresses(found.resource, found.index, func(a string) { into[a] = true })
		}
	}
}

// addresses of a resource: of one index, or all of them.
func (s *scope) addresses(r *resource, index int, add func(string)) {
	base := s.prefix + r.key
	switch n := s.there[r.key]; {
	case n == single:
		add(base)
	case n >= 0 && index >= 0:
		if index < n {
			add(address(base, index))
		}
	default:
		for i := range max(n, 0) {
			add(address(base, i))
		}
	}
}

// reach adds the addresses that references lead to: through the outputs of
// templates within, and through the parameters of the one around.
func (s *scope) reach(ctx context.Context, uses []expr.Use, index int, add func(string)) {
	for _, u := range uses {
		if u.Root == "params" {
			if s.parent == nil || !s.open {
				continue
			}
			outer := s.group.with.Uses()
			if len(u.Steps) > 0 && u.Steps[0].Key != "" {
				outer = slices.DeleteFunc(slices.Clone(outer), func(o expr.Use) bool { return len(o.Path) > 0 && o.Path[0] != u.Steps[0].Key })
			}
			s.parent.reach(ctx, outer, -1, add)
			continue
		}
		e := s.t.names[u.Root]
		switch {
		case e == nil:
		case e.resource != nil:
			s.reachOne(ctx, e.resource, u.Steps, index, add)
		case e.group.nested != nil:
			inner := s.inner[u.Root]
			if inner == nil {
				continue // it is not there
			}
			for _, o := range e.group.nested.outputs {
				if len(u.Steps) < 2 || u.Steps[1].Key == o.Name || u.Steps[1].Key == "" {
					inner.reach(ctx, o.value.Uses(), -1, add)
				}
			}
		default:
			for name, r := range e.group.resources {
				if len(u.Steps) == 0 {
					s.addresses(r, -1, add)
				} else if u.Steps[0].Key == name {
					s.reachOne(ctx, r, u.Steps[1:], index, add)
				}
			}
		}
	}
}

func (s *scope) reachOne(ctx context.Context, r *resource, steps []expr.Step, index int, add func(string)) {
	if len(steps) > 0 && steps[0].Key == "address" && r.Count == nil {
		return // it is known before anything is made
	}
	s.addresses(r, s.pick(ctx, r, steps, index), add)
}

// pick decides which of a list a reference means; -1: it may be any. An index
// that is beyond the list is returned as it is.
func (s *scope) pick(ctx context.Context, r *resource, steps []expr.Step, index int) int {
	if r.Count == nil || len(steps) == 0 {
		return -1
	}
	first := steps[0]
	if first.Index >= 0 {
		return int(min(first.Index, maxNodes+1))
	}
	if first.Computed == nil {
		return -1
	}
	for _, u := range first.Computed.Uses() {
		if s.t.names[u.Root] != nil {
			return -1 // it depends on outputs
		}
	}
	v, err := s.evaluate(ctx, first.Computed, index, nil, nil)
	i, ok := v.(int64)
	switch {
	case err != nil || !ok:
		return -1
	case i < 0:
		return maxNodes + 1 // web[index - 1] of the first: there is none
	}
	return int(min(i, maxNodes+1))
}

// explain adds what is not there to an error of an evaluation that refers to it.
func (s *scope) explain(err error, t *expr.Template, index int) error {
	for _, u := range t.Uses() {
		e := s.t.names[u.Root]
		if e == nil {
			continue
		}
		r, rest, name := e.resource, u.Steps, u.Root
		if e.group != nil {
			if e.group.nested == nil && len(rest) > 0 {
				r, name, rest = e.group.resources[rest[0].Key], name+"."+rest[0].Key, rest[1:]
			} else if s.there[u.Root] == absent {
				return fmt.Errorf("%w: %s; guard it with has(%s.outputs) ? ... : ..., or with the same condition", err, missing(name, absent), name)
			}
		}
		if r == nil {
			continue
		}
		n := s.there[r.key]
		i := s.pick(context.Background(), r, rest, index)
		switch {
		case n == absent && r.Count == nil:
			return fmt.Errorf("%w: %s; guard it with has(%s.outputs) ? ... : ..., or with the same condition", err, missing(name, n), name)
		case n == absent || n == 0:
			return fmt.Errorf("%w: %s; guard it with size(%s) > 0 ? ... : ..., or with the same condition", err, missing(name, n), name)
		case n > 0 && i >= n:
			return fmt.Errorf("%w: there is no %s: the count is %d", err, address(name, i), n)
		}
	}
	return err
}
