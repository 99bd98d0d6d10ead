package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// removers move what is on a cluster, or cannot.
type removers struct {
	bereft
	stuck []string
	moved []string
	err   error
}

func (m *removers) Stuck(_ context.Context, _ string, limit int) ([]string, int64, error) {
	return m.stuck[:min(len(m.stuck), limit)], int64(len(m.stuck)), nil
}

func (m *removers) Evacuate(_ context.Context, id string, most int) error {
	m.moved = append(m.moved, fmt.Sprint(id, " ", most))
	return m.err
}

func TestADrainMovesWhatItCan(t *testing.T) {
	f := newFleet(t)
	m := &removers{stuck: []string{"kafka k: its offering cannot move instances"}}
	f.Tenants = m
	ready(t, f.Service, "edge", local)
	use := func(units int64) {
		t.Helper()
		set := ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Counts: []ledger.Count{{Name: cluster.CapacityCounter("edge"), Delta: units, Max: 9}}}
		if _, err := f.l.Commit(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	use(2)
	before := head(t, f.l)
	_, err := f.Drain(byOps(), "edge", false)
	if fault.Reason(err) != "not-empty" || !strings.Contains(err.Error(), "1 instance that cannot be moved to another cluster (kafka k: its offering cannot move instances)") || head(t, f.l) != before {
		t.Fatalf("what cannot move is in the way: %v", err)
	}
	for range 12 {
		m.stuck = append(m.stuck, "kafka x: it is failed")
	}
	if _, err = f.Drain(byOps(), "edge", false); !strings.Contains(err.Error(), "13 instances") || !strings.Contains(err.Error(), "and 3 more") {
		t.Errorf("of many: %v", err)
	}
	m.stuck = nil
	if _, err := f.Drain(byOps(), "edge", false); err != nil {
		t.Fatal(err)
	}
	running := f.see(t, "edge").Status.Operation
	m.err = errors.New("away")
	if _, err := runOn(t, f.Service, f.l, "edge"); err == nil {
		t.Error("nobody could move anything, and that is no trouble")
	}
	m.err = nil
	if r, err := runOn(t, f.Service, f.l, "edge"); err != nil || !r.Next || len(m.moved) != 2 || m.moved[1] != "edge 5" {
		t.Errorf("moved %v, %+v, %v", m.moved, r, err)
	}
	use(-2)
	f.rest(t, "edge")
	if op, err := f.l.Get(t.Context(), ledger.Ref{Kind: "operation", ID: running}); err != nil || op.Phase != operation.Succeeded {
		t.Errorf("once it is empty the drain is %s, %v", op.Phase, err)
	}
}

// An agent that removes what it is not told of cannot be told to remove anything.
func TestNothingMovesOffAnOutsideAgentsCluster(t *testing.T) {
	f := newFleet(t)
	f.Tenants, f.Hosted = &removers{}, guests{"dinosaur rex"}
	if _, err := f.Register(byOps(), "edge", local); err != nil {
		t.Fatal(err)
	}
	if err := f.Admit(t.Context(), "edge", cluster.Caller{Agent: "outside", Installation: "outside", Polls: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Drain(byOps(), "edge", false); fault.Reason(err) != "not-empty" || !strings.Contains(err.Error(), "1 instance (dinosaur rex), which cannot be moved") {
		t.Errorf("drained: %v", err)
	}
}
