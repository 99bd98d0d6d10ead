package environment_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/template"
)

// lookedAfter is a forge of whose things somebody else knows whether they work.
type lookedAfter struct {
	executor.Executor
	why  string
	err  error
	asks atomic.Int32
}

func (*lookedAfter) Follows(inputs map[string]any) bool { return inputs["service"] != nil }

func (*lookedAfter) Followed(outputs map[string]any) string {
	if url, ok := outputs["url"].(string); ok {
		return "catalogue://" + url
	}
	return ""
}

func (f *lookedAfter) Health(_ context.Context, c executor.Connection, _ string) (string, error) {
	if f.asks.Add(1); c["token"] != "canary-token" {
		return "", fault.New(fault.Denied, "whose connection is this?")
	}
	return f.why, f.err
}

// What others say of a resource is the environment's, without a check in the template. Who
// cannot be asked, or knows nothing, has said nothing.
func TestWhatOthersLookAfter(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.add("1", &stencil{nodes: func(map[string]any) []template.Node {
		nodes := chain("db", "web<db", "quiet", "plain")
		for i := range nodes {
			nodes[i].With = map[string]any{"service": nodes[i].Name}
		}
		nodes[2].Drift = "ignore" // nobody wants to hear of it
		nodes[3].With = map[string]any{"key": "x"}
		return nodes
	}})
	f := &lookedAfter{Executor: w.forge}
	w.configs = append(w.configs, func(c *environment.Config) {
		c.Executors, c.Connections = map[string]executor.Executor{"forge": f}, anyConnection{}
	})
	w.open()
	defer w.store.Close()
	o, _, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop"})
	w.must(err)
	is := func(reason, phase string, says ...string) {
		t.Helper()
		e := w.env(o.ID)
		if e.Phase != phase || phase == environment.OK && e.Status.Message != "" {
			t.Fatalf("%s: %s %q %+v", reason, e.Phase, e.Status.Message, e.Status.Checks)
		}
		for _, s := range says {
			if !strings.Contains(e.Status.Message, s) {
				t.Errorf("%s: %q does not say %q", reason, e.Status.Message, s)
			}
		}
	}
	w.work(time.Minute)
	is("all is well", environment.OK)
	if e := w.env(o.ID); len(e.Status.Checks) != 2 || e.Status.Checks[0].Of != "db" || e.Status.Checks[1].Of != "web" || e.Status.Checks[0].Name != "registered" {
		t.Fatalf("followed are %+v", e.Status.Checks)
	}
	f.why = `check "alive" is critical`
	w.work(15 * time.Second)
	is("it is critical", environment.Fail, "web/registered", `check "alive" is critical`)
	for reason, err := range map[string]error{"nobody can be asked": fault.New(fault.Unavailable, "away"), "it is not known there": fault.New(fault.NotFound, "none"), "it may not be asked": fault.New(fault.Denied, "no")} {
		f.why, f.err = "", err
		w.work(10 * time.Minute)
		is(reason+", of one that was critical", environment.Fail, "is critical")
	}
	f.err = nil
	w.work(15 * time.Second)
	is("it passes", environment.OK)
	f.why, f.err = "nonsense", fault.New(fault.Unavailable, "away")
	f.asks.Store(0)
	w.work(10 * time.Minute)
	is("nobody can be asked, of one that was well", environment.OK)
	if f.asks.Load() == 0 {
		t.Error("nobody was asked")
	}
	w.start() // another process goes on where this one was
	f.why, f.err = `check "alive" is critical`, nil
	w.work(time.Minute)
	is("it is critical, for another process", environment.Fail, "is critical")
	w.hidesSecrets()
}
