package environment_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/template"
)

// The process is killed before and after each commit and each effect of a life: it
// is created, changed so that one goes, one comes and one changes, and destroyed.
func TestKilledAtEveryStep(t *testing.T) {
	var last *world
	for at := 0; ; at++ {
		w := newWorld(t, t.TempDir())
		w.org = fmt.Sprint("org", at)
		who := access.With(context.Background(), access.Principal{User: "alice", Org: w.org})
		w.add("1", &stencil{nodes: func(p map[string]any) []template.Node {
			return chain(slices.Concat([]string{"db"}, []string{"web[0]<db", "web[1]<db"}[:number(p["count"])], []string{"lb<db"})...)
		}})
		if last == nil {
			w.open()
			t.Cleanup(func() { w.store.Close() })
		} else {
			w.clock, w.store.Ledger, w.now = last.clock, last.store.Ledger, last.now
			*w.now = func() time.Time { return w.clock }
			w.start()
		}
		last = w
		o, _, err := w.s.Create(who, environment.PlanOrder{Environment: "x", Template: "shop", Parameters: map[string]any{"count": 2, "size": "small"}})
		w.must(err)
		w.store.at = []int{at}
		life := func(verb func() error) {
			t.Helper()
			w.work(time.Minute)
			w.atRest()
			w.asWanted()
			rest := w.store.at // whoever asks is not killed
			w.store.at = nil
			w.must(verb())
			w.store.at = rest
		}
		life(func() error {
			_, _, err := w.s.Change(who, environment.PlanOrder{Environment: "x", Parameters: map[string]any{"count": 1, "size": "large"}})
			return err
		})
		life(func() error { _, _, err := w.s.Destroy(who, "x", ""); return err })
		w.work(time.Minute)
		if e := w.env(o.ID); e.Phase != environment.Destroyed || len(w.forge.made) > 0 {
			t.Fatalf("killed at step %d: %s, %v is left", at, e.Phase, w.forge.made)
		}
		w.operationsEnded()
		if w.store.crashes == 0 {
			if at < 50 {
				t.Errorf("only %d steps: this shows little", at)
			}
			t.Logf("%d steps", at)
			return
		}
	}
}
