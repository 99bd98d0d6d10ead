package environment_test

import (
	"context"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
)

// fickle is a forge that tells what differs in another order each time.
type fickle struct {
	*forge
	turned *bool
}

func (f fickle) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	c, err := f.forge.Plan(ctx, r)
	c.Fields = []executor.Field{{Path: "a", After: 1}, {Path: "b", After: 2}}
	if *f.turned = !*f.turned; *f.turned {
		c.Fields[0], c.Fields[1] = c.Fields[1], c.Fields[0]
	}
	return c, err
}

// The order in which differences are told is no difference.
func TestOrderOfFields(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.configs = append(w.configs, func(c *environment.Config) {
		c.Executors = map[string]executor.Executor{"forge": fickle{w.forge, new(bool)}}
	})
	w.open()
	t.Cleanup(func() { w.store.Close() })
	w.add("1", shop("db"))
	p, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Template: "shop"})
	w.must(err)
	w.work(time.Second)
	_, op, err := w.s.Apply(alice, environment.ApplyOrder{Plan: p.ID})
	w.must(err)
	w.work(time.Minute)
	if phase, reason := w.operation(op); phase != "succeeded" {
		t.Errorf("%s %s", phase, reason)
	}
}
