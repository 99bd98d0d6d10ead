package cluster_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
)

func owner(t *testing.T, s *cluster.Service) string {
	t.Helper()
	o, err := s.Get(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	var status cluster.Status
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &status); err != nil {
			t.Fatal(err)
		}
	}
	return status.Installation
}

// Two replicas share nothing but the ledger.
func TestAClusterBelongsToOneInstallation(t *testing.T) {
	one, l := open(t)
	two := cluster.NewService(l)
	if err := one.Admit(t.Context(), "edge", cluster.Caller{Agent: "a", Installation: "home"}); err != nil {
		t.Fatal(err)
	}
	if got := owner(t, two); got != "home" {
		t.Fatalf("the cluster belongs to %q", got)
	}
	for _, c := range []struct {
		reason string
		try    func() error
		taken  bool
		writes int64
	}{
		{"another installation at the other replica", func() error { return two.Admit(t.Context(), "edge", cluster.Caller{Agent: "b", Installation: "away"}) }, true, 0},
		{"its report", func() error {
			return two.Report(t.Context(), "edge", cluster.Report{Agent: "b", Installation: "away", Number: 1})
		}, true, 0},
		{"one that tells no installation", func() error { return two.Admit(t.Context(), "edge", cluster.Caller{Agent: "c", Installation: ""}) }, true, 0},
		{"its report", func() error { return two.Report(t.Context(), "edge", cluster.Report{Agent: "c", Number: 1}) }, true, 0},
		{"a second process beside the first", func() error { return one.Admit(t.Context(), "edge", cluster.Caller{Agent: "d", Installation: "home"}) }, true, 0},
		{"the first one, over a new connection", func() error { return one.Admit(t.Context(), "edge", cluster.Caller{Agent: "a", Installation: "home"}) }, false, 0},
		{"the same installation at the other replica", func() error { return two.Admit(t.Context(), "edge", cluster.Caller{Agent: "a", Installation: "home"}) }, false, 1},
		{"its heartbeat", func() error {
			return two.Report(t.Context(), "edge", cluster.Report{Agent: "a", Installation: "home", Number: 1})
		}, false, 0},
	} {
		before := head(t, l)
		if err := c.try(); fault.Is(err, fault.Conflict) != c.taken || !c.taken && err != nil {
			t.Errorf("%s: %v", c.reason, err)
		}
		if written := head(t, l) - before; written != c.writes {
			t.Errorf("%s: %d changes were written", c.reason, written)
		}
	}
	one.Leave("edge", "a")
	before := head(t, l)
	if err := one.Admit(t.Context(), "edge", cluster.Caller{Agent: "b", Installation: "away"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("another installation after the first has left, which may be a restart: %v", err)
	}
	if written := head(t, l) - before; written != 0 {
		t.Errorf("%d changes were written without news", written)
	}
}

func TestOfManyInstallationsAtOnceOneIsAdmitted(t *testing.T) {
	_, l := open(t)
	const many = 16
	errs := make([]error, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			name := fmt.Sprint(i)
			errs[i] = cluster.NewService(l).Admit(t.Context(), "edge", cluster.Caller{Agent: "agent-" + name, Installation: "installation-" + name})
		})
	}
	wg.Wait()
	admitted := 0
	for _, err := range errs {
		if err == nil {
			admitted++
		} else if !fault.Is(err, fault.Conflict) {
			t.Error(err)
		}
	}
	if admitted != 1 {
		t.Errorf("%d were admitted", admitted)
	}
}

func TestHandOver(t *testing.T) {
	one, l := open(t)
	two := cluster.NewService(l)
	if err := one.Admit(t.Context(), "edge", cluster.Caller{Agent: "a", Installation: "home"}); err != nil {
		t.Fatal(err)
	}
	if _, err := two.HandOver(t.Context(), "edge", "away"); err != nil {
		t.Fatal(err)
	}
	if err := one.Belongs(t.Context(), "edge", "home"); !fault.Is(err, fault.Conflict) {
		t.Errorf("the old one still has it: %v", err)
	}
	if err := one.Report(t.Context(), "edge", cluster.Report{Agent: "a", Installation: "home", Number: 1, Ready: true}); !fault.Is(err, fault.Conflict) {
		t.Errorf("the old one is listened to: %v", err)
	}
	if err := one.Admit(t.Context(), "edge", cluster.Caller{Agent: "b", Installation: "away"}); err != nil {
		t.Errorf("the new one waits for the session of the old one: %v", err)
	}

	// Given up, it goes to the next one, but not while its agent still speaks.
	if _, err := one.HandOver(t.Context(), "edge", ""); err != nil {
		t.Fatal(err)
	}
	if err := one.Admit(t.Context(), "edge", cluster.Caller{Agent: "a", Installation: "home"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("beside an agent that still runs: %v", err)
	}
	one.Leave("edge", "b")
	if err := one.Admit(t.Context(), "edge", cluster.Caller{Agent: "a", Installation: "home"}); err != nil {
		t.Error(err)
	}
	if got := owner(t, two); got != "home" {
		t.Errorf("it belongs to %q", got)
	}
	before := head(t, l)
	if _, err := one.HandOver(t.Context(), "edge", "home"); err != nil || head(t, l) != before {
		t.Errorf("handing over to the owner: %v, %d changes", err, head(t, l)-before)
	}
	if _, err := one.HandOver(t.Context(), "nowhere", ""); !fault.Is(err, fault.NotFound) {
		t.Errorf("a cluster that nobody knows: %v", err)
	}
}
