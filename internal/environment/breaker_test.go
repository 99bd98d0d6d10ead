package environment_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// sick is a forge on which things named "bad" fail, for a reason.
type sick struct {
	*forge
	reason string
}

func (s sick) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if strings.HasPrefix(r.Address, "bad") {
		return executor.Result{}, fault.New(fault.Unavailable, "acme-only words and %s", secretOf(r)).Because(s.reason)
	}
	return s.forge.Apply(ctx, r)
}

// What fails for one organisation is read by no other, and stops the others only if
// it is the executor that does not answer.
func TestFailuresOfOthers(t *testing.T) {
	for _, c := range []struct {
		reason string
		stops  bool
	}{{"exit", false}, {"failed", false}, {"away", true}} {
		t.Run(c.reason, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.configs = append(w.configs, func(cfg *environment.Config) {
				cfg.Executors = map[string]executor.Executor{"forge": sick{w.forge, c.reason}}
			})
			w.open()
			t.Cleanup(func() { w.store.Close() })
			w.s.SetRest(time.Hour)
			w.add("1", shop("db", "bad1<db", "bad2<db"))
			w.up("staging", nil)
			w.add("2", shop("web"))
			mallory := access.With(context.Background(), access.Principal{User: "mallory", Org: "other"})
			o, _, err := w.s.Create(mallory, environment.PlanOrder{Environment: "theirs", Template: "shop"})
			w.must(err)
			w.work(10 * time.Minute)
			e := w.env(o.ID)
			if stopped := e.Phase != environment.OK; stopped != c.stops {
				t.Errorf("it is %s: %s", e.Phase, e.Status.Message)
			}
			if strings.Contains(e.Status.Message, "acme-only") || strings.Contains(e.Status.Message, "canary") {
				t.Errorf("another organisation reads %q", e.Status.Message)
			}
			w.hidesSecrets()
		})
	}
}
