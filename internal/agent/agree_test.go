package agent_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// listener is a runtime that wants to know when it was told everything.
type listener struct {
	runtime.Runtime
	mu   sync.Mutex
	told [][]string
}

func (l *listener) Told(all []runtime.Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, it := range all {
		ids = append(ids, it.ID)
	}
	slices.Sort(ids)
	l.told = append(l.told, ids)
}

func (l *listener) heard() [][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

// A runtime is told once that it knows of everything, and not before that is so.
func TestToldOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newServer(), t.TempDir()
		s.say(1, item("a", 1), item("b", 1), item("c", 1))
		s.goDown(true)
		rt := &listener{Runtime: simulated.New(simulated.Config{})}
		stop := start(t, s, rt, dir)
		settle(time.Minute)
		if got := rt.heard(); got != nil {
			t.Fatalf("nobody has said anything, and it is told of %v", got)
		}
		s.goDown(false)
		settle(time.Minute)
		if d := cmp.Diff([][]string{{"a", "b", "c"}}, rt.heard()); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
		s.say(2, item("a", 1), item("d", 1))
		settle(time.Minute)
		if n := len(rt.heard()); n != 1 {
			t.Fatalf("it is told %d times", n)
		}
		stop()

		// Another life, that has kept what it was told and finds the control plane gone.
		s.goDown(true)
		rt = &listener{Runtime: simulated.New(simulated.Config{})}
		stop = start(t, s, rt, dir)
		settle(time.Hour)
		if got := rt.heard(); got != nil {
			t.Errorf("what was kept may be less than what there is: %v", got)
		}
		stop()
	})
}

// One item that is not signed by the control plane keeps the two from agreeing.
func TestToldOfNothingThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.say(1, item("a", 1), item("bad", 1))
		s.spoil = func(a *v1.Synced) {
			for _, list := range append([][]v1.Item{a.Bodies}, itemsOf(a)...) {
				for i := range list {
					if list[i].ID == "bad" {
						list[i].Proof = "forged"
					}
				}
			}
		}
		rt := &listener{Runtime: simulated.New(simulated.Config{})}
		stop := start(t, s, rt, t.TempDir())
		settle(time.Minute)
		if got := rt.heard(); got != nil {
			t.Errorf("told of %v", got)
		}
		stop()
	})
}

func itemsOf(a *v1.Synced) (out [][]v1.Item) {
	for _, b := range a.Desired {
		out = append(out, b.Items)
	}
	return out
}
