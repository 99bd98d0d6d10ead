package agent_test

import (
	"os"
	"path/filepath"
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
		s.say(desired(7, item("a", 1), item("b", 1)))
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
		if s.conns[0] != [2]string{r.Agent, r.Installation} {
			t.Errorf("agent %q connects, %q of %q reports", s.conns[0], r.Agent, r.Installation)
		}
		for i, r := range s.reports {
			if r.Number != int64(i+1) || r.Agent != s.reports[0].Agent {
				t.Errorf("report %d has number %d of agent %s", i, r.Number, r.Agent)
			}
		}
		update := item("a", 2)
		b := item("b", 1)
		b.Body = nil // sent before
		s.say(desired(8, update, b))
		settle(100 * time.Millisecond)
		if got := s.known(); got["a"].Versions["app"] != "2" || got["b"].Generation != 1 {
			t.Errorf("after the update: %+v", got)
		}
	})
}

func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newServer(), simulated.New(simulated.Config{})
		stop := start(t, s, rt, t.TempDir())
		defer stop()
		s.say(desired(1, item("a", 1)))
		settle(time.Second)
		before, _ := s.count()
		settle(60 * time.Second)
		after, _ := s.count()
		if after-before != 6 {
			t.Errorf("%d reports in a quiet minute, want 6", after-before)
		}
		full := 0
		for _, r := range s.reports[before:] {
			full += len(r.Items)
		}
		if full != 1 {
			t.Errorf("an unchanged item was told %d times in a minute, want once", full)
		}
	})
}

func TestAbsenceRemovesNothing(t *testing.T) {
	cases := map[string]struct {
		reason string
		then   v1.Desired
	}{
		"empty":        {"An empty list removes nothing.", desired(2)},
		"missing":      {"An item that is not listed stays.", desired(2, item("b", 1))},
		"wrong digest": {"A message that was cut short is not followed.", func() v1.Desired { d := desired(2, removal("a", 2), item("b", 1)); d.Items = d.Items[:1]; return d }()},
		"wrong body": {"A body that is not the one of its digest is not followed.", func() v1.Desired {
			x := removal("a", 2)
			x.Body = []byte(`{}`)
			return desired(2, x, item("b", 1))
		}()},
		"no ledger": {"A message of nobody is not followed.", func() v1.Desired { d := desired(2, removal("a", 2)); d.Ledger = ""; return d }()},
		"disorder": {"A list that names an item twice is not followed.", func() v1.Desired {
			d := desired(2, removal("a", 2))
			d.Items = append(d.Items, item("a", 3))
			d.Digest = d.ComputeDigest()
			return d
		}()},
		"older":       {"A state that is older than the present one is not followed.", desired(0, removal("a", 2), item("b", 1))},
		"old epoch":   {"An old copy of the ledger is not followed.", func() v1.Desired { d := desired(2, removal("a", 2)); d.Epoch = 2; return d }()},
		"other":       {"Another ledger is not followed.", func() v1.Desired { d := desired(2, removal("a", 2)); d.Ledger = "M"; return d }()},
		"fenced":      {"A removal of an older lease is refused by the runtime.", func() v1.Desired { x := removal("a", 2); x.Token = 0; return desired(2, x) }()},
		"garbage ids": {"An item without an id is not followed.", desired(2, v1.Item{}, removal("a", 2))},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rt := newServer(), simulated.New(simulated.Config{})
				stop := start(t, s, rt, t.TempDir())
				defer stop()
				s.say(desired(1, item("a", 1), item("b", 1)))
				settle(time.Second)
				before := observed(t, rt)
				if before["a"].State != runtime.Ready {
					t.Fatalf("not ready: %v", before)
				}
				s.say(c.then)
				settle(20 * time.Second)
				if diff := cmp.Diff(before, observed(t, rt)); diff != "" {
					t.Errorf("%s %s", c.reason, diff)
				}
				// And the next good one is followed.
				s.say(desired(9, item("a", 5), item("b", 1)))
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
		s.say(desired(1, item("a", 1), item("b", 1)))
		settle(time.Second)
		s.say(desired(2, removal("a", 2), item("b", 1)))
		settle(time.Second)
		if got := s.known()["a"]; got.State != "deleted" || got.Generation != 2 {
			t.Fatalf("the server knows %+v", got)
		}
		if got := observed(t, rt)["a"].State; got != runtime.Deleted {
			t.Errorf("forgotten while the server lists it: %q", got)
		}
		s.say(desired(3, item("b", 1)))
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
		s.say(desired(1, item("a", 1)))
		settle(5 * time.Second)
		s.say(desired(2, removal("a", 2)))
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
		s.say(desired(1, item("a", 1)))
		settle(time.Second)
		before := observed(t, rt)
		s.goDown(true)
		_, connsBefore := s.count()
		settle(10 * time.Minute)
		if diff := cmp.Diff(before, observed(t, rt)); diff != "" {
			t.Errorf("the outage changed what runs: %s", diff)
		}
		_, conns := s.count()
		if n := conns - connsBefore; n < 100 || n > 300 {
			t.Errorf("%d attempts in ten minutes, want one every 2.5 to 5 s", n)
		}
		rt.Set("a", runtime.Error, "it fell over")
		settle(time.Minute)
		s.say(desired(2, item("a", 2)))
		s.goDown(false)
		settle(11 * time.Second)
		if got := s.known()["a"]; got.Generation != 2 || got.State != "ready" {
			t.Errorf("after the outage the server knows %+v", got)
		}
	})
}

func TestUnknownBodyAsksForEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newServer(), simulated.New(simulated.Config{})
		stop := start(t, s, rt, t.TempDir())
		defer stop()
		s.say(desired(1, item("a", 1)))
		settle(time.Second)
		_, before := s.count()
		bare := item("b", 1)
		bare.Body = nil
		s.say(desired(2, item("a", 1), bare))
		settle(50 * time.Millisecond)
		if _, ok := observed(t, rt)["b"]; ok {
			t.Error("an item was applied without its body")
		}
		s.say(desired(2, item("a", 1), item("b", 1)))
		settle(10 * time.Second)
		if _, conns := s.count(); conns <= before {
			t.Error("it did not connect again")
		}
		if got := observed(t, rt)["b"].State; got != runtime.Ready {
			t.Errorf("with the body: %q", got)
		}
	})
}

func TestEpochIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt, dir := newServer(), simulated.New(simulated.Config{}), t.TempDir()
		stop := start(t, s, rt, dir)
		d := desired(5, item("a", 1))
		s.say(d)
		settle(time.Second)
		stop()
		d = desired(9, item("a", 2), item("b", 1))
		d.Epoch = 2
		s.say(d)
		stop = start(t, s, rt, dir)
		defer stop()
		settle(time.Minute)
		seen := observed(t, rt)
		if _, ok := seen["b"]; ok || seen["a"].Generation != 1 {
			t.Errorf("a frozen agent applied: %v", seen)
		}
		if r := s.newest(); r.Ready || len(r.Items) != 0 || r.Epoch != 3 {
			t.Errorf("a frozen agent reports %+v", r)
		}
		d.Epoch, d.Seq = 4, 1 // restored: a new life begins at a lower sequence
		s.say(d)
		settle(time.Minute)
		if got := observed(t, rt); got["a"].Generation != 2 || got["b"].State != runtime.Ready {
			t.Errorf("a higher epoch was not followed: %v", got)
		}
		if r := s.newest(); !r.Ready || r.Epoch != 4 {
			t.Errorf("after it the agent reports %+v", r)
		}
	})
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
