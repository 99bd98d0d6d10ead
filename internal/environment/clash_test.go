package environment_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/template"
)

// shelves is a forge whose things lie on shelves, each on the one that its resource's
// name has in front of a hyphen.
type shelves struct {
	*forge
	held map[string]string // id by shelf
}

func rack(r executor.Resource) string {
	name, _, _ := strings.Cut(r.Address, "-")
	return "the shelf " + name
}

func (s *shelves) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	if by := s.held[rack(r)]; by != "" && by != r.ID {
		return executor.Change{}, executor.NotOurs(rack(r))
	}
	c, err := s.forge.Plan(ctx, r)
	c.Takes = []string{rack(r)}
	return c, err
}

func (s *shelves) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	s.held[rack(r)] = r.ID
	return s.forge.Apply(ctx, r)
}

// What two resources would make is told by the plan, with both; what another one has
// made is told with what to do about it.
func TestClashes(t *testing.T) {
	cases := []struct {
		reason         string
		before, wanted []string
		want           []string // of the message; nil: it can be planned
	}{
		{"two new ones take one place", nil, []string{"a-1", "a-2"}, []string{"a-1", "a-2", "the shelf a", "another name"}},
		{"a new one takes the place of one that stays", []string{"a-1"}, []string{"a-1", "a-2"}, []string{"a-2: the shelf a", "a-1 has made it", "another name"}},
		{"one is called otherwise", []string{"a-1", "b"}, []string{"a-2", "b"}, []string{"a-2: the shelf a", "a-1 has made it", "without a-2 first", "call it a-1 as before"}},
		{"each has its own", []string{"a-1"}, []string{"a-1", "b"}, nil},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.configs = append(w.configs, func(c *environment.Config) {
				c.Executors["forge"] = &shelves{w.forge, map[string]string{}}
			})
			w.open()
			defer w.store.Close()
			nodes := c.before
			w.add("1", &stencil{nodes: func(map[string]any) []template.Node { return chain(nodes...) }})
			if nodes != nil {
				w.up("staging", nil)
			}
			nodes = c.wanted
			o, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Template: "shop", Parameters: map[string]any{"size": "other"}})
			w.must(err)
			w.work(time.Minute)
			p := w.plan(o)
			if (p.Phase == environment.Planned) != (c.want == nil) {
				t.Fatalf("%s: %s", p.Phase, p.Status.Message)
			}
			for _, part := range c.want {
				if !strings.Contains(p.Status.Message, part) {
					t.Errorf("%q is not in %q", part, p.Status.Message)
				}
			}
			if strings.Contains(p.Status.Message, "remove it") {
				t.Errorf("it advises to remove what the environment has: %q", p.Status.Message)
			}
		})
	}
}
