package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

func TestAppliesAndReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newServer(), simulated.New(simulated.Config{Delay: func(runtime.Item) time.Duration { return 50 * time.Millisecond }})
		stop := start(t, s, rt, t.TempDir())
		defer stop()
		s.say(7, item("a", 1), item("b", 1))
		settle(10 * time.Millisecond)
		if got := s.known()["a"]; got.State != "installing" || got.Generation != 1 {
			t.Errorf("10 ms after the desired state the server knows %+v", got)
		}
		settle(50 * time.Millisecond)
		want := v1.ObservedItem{ID: "a", Generation: 1, State: "ready", Versions: map[string]string{"app": "1"}, Routes: map[string]string{"a.test": "simulated"}}
		if diff := cmp.Diff(want, s.known()["a"]); diff != "" {
			t.Errorf("a few ms after it was ready: %s", diff)
		}
		r := s.newest()
		if r.Epoch != 3 || r.Seq != 7 || r.Agent == "" || !r.Ready || r.Capacity != 1_000_000 {
			t.Errorf("report %+v", r)
		}
		if r.Ledger != "L" || r.Protocol != v1.Protocol || r.Installation == "" || r.Platform == nil || r.Platform.Kind != "simulated" {
			t.Errorf("message %+v", r)
		}
		for i, r := range s.messages {
			if r.Number != int64(i+1) || r.Agent != s.messages[0].Agent {
				t.Errorf("message %d has number %d of agent %s", i, r.Number, r.Agent)
			}
		}
		s.say(8, item("a", 2), item("b", 1))
		settle(100 * time.Millisecond)
		if got := s.known(); got["a"].Versions["app"] != "2" || got["b"].Generation != 1 {
			t.Errorf("after the update: %+v", got)
		}
	})
}

// At rest there is one message per interval, of one size, and it is held.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt, dir := newServer(), simulated.New(simulated.Config{}), t.TempDir()
		stop := start(t, s, rt, dir)
		s.say(1, item("a", 1))
		settle(time.Second)
		quiet := func(when string) {
			before := s.count()
			settle(60 * time.Second)
			after := s.count()
			if after-before != 6 {
				t.Errorf("%s: %d messages in a quiet minute, want 6", when, after-before)
			}
			for _, m := range s.messages[len(s.messages)-6:] {
				if len(m.Items) != 0 || len(m.Bodies) != 0 || !m.Wait || !m.Ready {
					t.Errorf("%s: at rest the agent says %+v", when, m)
				}
			}
		}
		quiet("idle")
		stop()
		before := s.count()
		stop = start(t, s, rt, dir)
		defer func() { stop() }()
		settle(time.Second)
		for _, m := range s.messages[before:] {
			if len(m.Items) != 0 || len(m.Bodies) != 0 {
				t.Errorf("both sides agree, and after a restart it says %+v", m)
			}
		}
		if n := s.count() - before; n > 2 {
			t.Errorf("%d messages after a restart", n)
		}
		quiet("after a restart")
		s.goDown(true)
		settle(7 * 24 * time.Hour)
		s.goDown(false)
		settle(10 * time.Second)
		quiet("after a week apart")
	})
}

func TestAbsenceRemovesNothing(t *testing.T) {
	says := func(items ...v1.Item) func(*server) {
		return func(s *server) { s.say(2, items...) }
	}
	// spoilt turns a removal of a into something that must not be followed.
	spoilt := func(f func(*v1.Synced)) func(*server) {
		return func(s *server) {
			s.do(func() { s.spoil = f })
			s.say(2, removal("a", 2), item("b", 1))
		}
	}
	first := func(a *v1.Synced, f func(*v1.Item)) {
		for i := range a.Desired {
			for j := range a.Desired[i].Items {
				if a.Desired[i].Items[j].ID == "a" {
					f(&a.Desired[i].Items[j])
				}
			}
		}
		for i := range a.Bodies {
			f(&a.Bodies[i])
		}
	}
	cases := map[string]struct {
		reason string
		then   func(*server)
	}{
		"empty":   {"An empty list removes nothing.", says()},
		"missing": {"An item that is not listed stays.", says(item("b", 1))},
		"fenced": {"A removal of an older lease is refused by the runtime.", func(s *server) {
			x := removal("a", 2)
			x.Token = 0
			s.say(2, x, item("b", 1))
		}},
		"older": {"A state that is older than the present one is not followed.", func(s *server) { s.say(0, removal("a", 2), item("b", 1)) }},
		"old epoch": {"An old copy of the ledger is not followed.", func(s *server) {
			s.do(func() { s.epoch = 2 })
			s.say(2, removal("a", 2))
		}},
		"other ledger": {"Another ledger is not followed.", func(s *server) {
			s.do(func() { s.ledger = "M" })
			s.say(2, removal("a", 2))
		}},
		"no ledger":   {"An answer of nobody is not followed.", spoilt(func(a *v1.Synced) { a.Ledger = "" })},
		"cut buckets": {"An answer whose items were cut off is not a removal.", spoilt(func(a *v1.Synced) { clear(a.Desired) })},
		"wrong bucket": {"An item in a bucket that is not its own is not followed.", spoilt(func(a *v1.Synced) {
			for i := range a.Desired {
				a.Desired[i].Index = 63 - a.Desired[i].Index
			}
		})},
		"no bucket": {"A bucket that does not exist is not followed.", spoilt(func(a *v1.Synced) {
			for i := range a.Desired {
				a.Desired[i].Index = 64
			}
		})},
		"twice": {"A list that names an item twice is not followed.", spoilt(func(a *v1.Synced) {
			for i := range a.Desired {
				a.Desired[i].Items = append(a.Desired[i].Items, a.Desired[i].Items...)
			}
		})},
		"garbage ids":   {"An item without an id is not followed.", spoilt(func(a *v1.Synced) { first(a, func(it *v1.Item) { it.ID = "" }) })},
		"wrong body":    {"A body that is not the one of its digest is not followed.", spoilt(func(a *v1.Synced) { first(a, func(it *v1.Item) { it.Body = []byte(`{}`) }) })},
		"not signed":    {"What nobody has signed is not followed.", spoilt(func(a *v1.Synced) { first(a, func(it *v1.Item) { it.Proof = "" }) })},
		"another's":     {"A signature of another item is not followed.", spoilt(func(a *v1.Synced) { first(a, func(it *v1.Item) { it.Generation++ }) })},
		"garbage proof": {"What is no signature is not followed.", spoilt(func(a *v1.Synced) { first(a, func(it *v1.Item) { it.Proof = "e30..AAAA" }) })},
		"garbage keys":  {"Keys that are none are not followed, nor what comes with them.", spoilt(func(a *v1.Synced) { a.Keys = `{"keys":[]}` })},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rt := newServer(), simulated.New(simulated.Config{})
				stop := start(t, s, rt, t.TempDir())
				defer stop()
				s.say(1, item("a", 1), item("b", 1))
				settle(time.Second)
				before := observed(t, rt)
				if before["a"].State != runtime.Ready {
					t.Fatalf("not ready: %v", before)
				}
				c.then(s)
				said := s.count()
				settle(60 * time.Second)
				if diff := cmp.Diff(before, observed(t, rt)); diff != "" {
					t.Errorf("%s %s", c.reason, diff)
				}
				if n := s.count() - said; n > 30 {
					t.Errorf("%d messages in a minute: it spins", n)
				}
				// And the next good one is followed.
				s.do(func() { s.spoil, s.epoch, s.ledger = nil, 3, "L" })
				s.say(9, item("a", 5), item("b", 1))
				settle(20 * time.Second)
				if got := observed(t, rt)["a"]; got.Generation != 5 {
					t.Errorf("after it, a good state is not followed: %+v", got)
				}
			})
		})
	}
}

func TestRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newServer(), simulated.New(simulated.Config{})
		stop := start(t, s, rt, t.TempDir())
		defer stop()
		s.say(1, item("a", 1), item("b", 1))
		settle(time.Second)
		s.say(2, removal("a", 2), item("b", 1))
		settle(time.Second)
		if got := s.known()["a"]; got.State != "deleted" || got.Generation != 2 {
			t.Fatalf("the server knows %+v", got)
		}
		if got := observed(t, rt)["a"].State; got != runtime.Deleted {
			t.Errorf("forgotten while the server lists it: %q", got)
		}
		s.say(3, item("b", 1))
		settle(time.Second)
		seen := observed(t, rt)
		if _, ok := seen["a"]; ok || seen["b"].State != runtime.Ready {
			t.Errorf("after the server has let go: %v", seen)
		}
	})
}

func TestRemovalIsReportedAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newServer(), simulated.New(simulated.Config{Delay: func(runtime.Item) time.Duration { return time.Second }})
		dir := t.TempDir()
		stop := start(t, s, rt, dir)
		s.say(1, item("a", 1))
		settle(5 * time.Second)
		s.say(2, removal("a", 2))
		settle(10 * time.Millisecond)
		s.goDown(true)
		settle(30 * time.Second)
		stop()
		stop = start(t, s, rt, dir) // another life: nothing but the runtime remembers
		defer stop()
		settle(30 * time.Second)
		if got := observed(t, rt)["a"].State; got != runtime.Deleted {
			t.Fatalf("unacknowledged removal: %q", got)
		}
		s.goDown(false)
		settle(30 * time.Second)
		if got := s.known()["a"].State; got != "deleted" {
			t.Errorf("the server knows %q", got)
		}
	})
}

func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newServer(), simulated.New(simulated.Config{})
		stop := start(t, s, rt, t.TempDir())
		defer stop()
		s.say(1, item("a", 1))
		settle(time.Second)
		before := observed(t, rt)
		s.goDown(true)
		said := s.count()
		settle(10 * time.Minute)
		if diff := cmp.Diff(before, observed(t, rt)); diff != "" {
			t.Errorf("the outage changed what runs: %s", diff)
		}
		if n := s.count() - said; n < 100 || n > 300 {
			t.Errorf("%d attempts in ten minutes, want one every 2.5 to 5 s", n)
		}
		rt.Set("a", runtime.Error, "it fell over")
		settle(time.Minute)
		s.say(2, item("a", 2))
		s.goDown(false)
		settle(11 * time.Second)
		if got := s.known()["a"]; got.Generation != 2 || got.State != "ready" {
			t.Errorf("after the outage the server knows %+v", got)
		}
	})
}

func TestLackingBodyIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newServer(), simulated.New(simulated.Config{})
		stop := start(t, s, rt, t.TempDir())
		defer stop()
		s.say(5, item("a", 1))
		settle(time.Second)
		s.say(6, item("a", 1), item("b", 1))
		s.do(func() { s.changed["b"] = 0; delete(s.items, "b") }) // it came before anybody looked
		settle(time.Second)
		s.do(func() { s.items["b"] = item("b", 1) })
		settle(time.Second)
		if got := observed(t, rt)["b"].State; got != runtime.Ready {
			t.Errorf("with the body: %q", got)
		}
		asked := false
		for _, m := range s.messages {
			asked = asked || cmp.Equal(m.Bodies, []string{"b"})
		}
		if !asked {
			t.Error("it asked for no body")
		}
		if m := s.newest(); len(m.Bodies) != 0 {
			t.Errorf("it still asks for %v", m.Bodies)
		}
	})
}

func TestEpochIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt, dir := newServer(), simulated.New(simulated.Config{}), t.TempDir()
		stop := start(t, s, rt, dir)
		s.say(5, item("a", 1))
		settle(time.Second)
		stop()
		s.do(func() { s.epoch = 2 })
		s.say(9, item("a", 2), item("b", 1))
		stop = start(t, s, rt, dir)
		defer func() { stop() }()
		settle(time.Minute)
		seen := observed(t, rt)
		if _, ok := seen["b"]; ok || seen["a"].Generation != 1 {
			t.Errorf("a frozen agent applied: %v", seen)
		}
		if r := s.newest(); r.Ready || len(r.Items) != 0 || r.Epoch != 3 || !strings.Contains(r.Message, "epoch 2") {
			t.Errorf("a frozen agent reports %+v", r)
		}
		s.do(func() { s.epoch, s.changed["a"], s.changed["b"] = 4, 1, 1 })
		s.say(1, item("a", 2), item("b", 1)) // restored: a new life begins at a lower sequence
		settle(time.Minute)
		if got := observed(t, rt); got["a"].Generation != 2 || got["b"].State != runtime.Ready {
			t.Errorf("a higher epoch was not followed: %v", got)
		}
		if r := s.newest(); !r.Ready || r.Epoch != 4 || r.Message != "" {
			t.Errorf("after it the agent reports %+v", r)
		}
	})
}

// A ledger that was restored is shorter. An agent that follows it, and that has
// nothing to keep of it, does not come back with a sequence of the life before:
// the control plane would take itself for an old copy, and refuse it.
func TestSequencesAreOfTheirEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt, dir := newServer(), simulated.New(simulated.Config{}), t.TempDir()
		stop := start(t, s, rt, dir)
		s.say(900, item("a", 1))
		settle(time.Minute)
		s.say(901, removal("a", 2))
		settle(time.Minute)
		s.say(902)
		settle(time.Minute)
		s.do(func() { s.epoch++; clear(s.changed) })
		s.say(5)
		settle(time.Minute)
		stop()
		var first v1.Sync
		stop = start(t, clientFunc(func(ctx context.Context, cluster string, m v1.Sync) (v1.Synced, error) {
			if first.Number == 0 {
				first = m
			}
			return s.Sync(ctx, cluster, m)
		}), rt, dir)
		defer func() { stop() }()
		settle(time.Second)
		if first.Epoch != s.epoch || first.Seq > 5 {
			t.Errorf("it comes back with sequence %d of epoch %d", first.Seq, first.Epoch)
		}
	})
}

type clientFunc func(ctx context.Context, cluster string, m v1.Sync) (v1.Synced, error)

func (f clientFunc) Sync(ctx context.Context, cluster string, m v1.Sync) (v1.Synced, error) {
	return f(ctx, cluster, m)
}

func TestBrokenEpochFileIsNotGuessed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "epoch.json"), []byte(`{"led`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.New(agent.Config{Client: newServer(), Cluster: "c", Runtime: simulated.New(simulated.Config{}), Dir: dir}); err == nil {
		t.Error("an agent that cannot tell its epoch starts")
	}
}
