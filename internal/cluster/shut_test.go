package cluster_test

import (
	"testing"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Whoever chose a cluster before its end began, and was slow, is refused
// whenever it comes; one that is made anew under the same id is empty.
func TestNothingIsPlacedOnWhatIsGone(t *testing.T) {
	f := newFleet(t)
	make := func() {
		t.Helper()
		if _, err := f.Create(byOps(), cluster.Request{ID: "edge", Provider: local.Provider, Region: local.Region}); err != nil {
			t.Fatal(err)
		}
	}
	place := func(units int64) error {
		_, err := f.l.Commit(t.Context(), ledger.Set{
			Actor: "test", Cause: ledger.BySchedule("test"), Counts: []ledger.Count{{Name: cluster.CapacityCounter("edge"), Delta: units, Max: 9}},
		})
		return err
	}
	make()
	for range 2 {
		if err := place(9); err != nil {
			t.Fatalf("on a new cluster: %v", err)
		}
		if err := place(-9); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Delete(byOps(), "edge"); err != nil {
			t.Fatal(err)
		}
		f.rest(t, "edge")
		if _, err := f.Get(t.Context(), "edge"); !fault.Is(err, fault.NotFound) {
			t.Fatalf("it is not gone: %v", err)
		}
		if err := place(1); !fault.Is(err, fault.Exhausted) {
			t.Errorf("on a cluster that is gone: %v", err)
		}
		if n, err := f.l.Counter(t.Context(), cluster.CapacityCounter("edge")); err != nil || cluster.InUse(n) != 0 {
			t.Errorf("%d units are said to be in use, %v", cluster.InUse(n), err)
		}
		make()
	}
}

// Names are used again, and tokens of the one that is gone can be told by
// their age.
func TestAClusterTakesThePlaceOfOneThatIsGone(t *testing.T) {
	f := newFleet(t)
	first, err := f.Register(byOps(), "edge", local)
	if err != nil {
		t.Fatal(err)
	}
	if _, status, err := cluster.Decode(first); err != nil || !status.Anew.IsZero() {
		t.Errorf("the first of its name: %v, %v", status.Anew, err)
	}
	again, err := f.Register(byOps(), "edge", local)
	if err != nil || again.Version != first.Version {
		t.Errorf("registered twice: version %d, then %d, %v", first.Version, again.Version, err)
	}
	if _, err := f.Delete(byOps(), "edge"); err != nil {
		t.Fatal(err)
	}
	f.rest(t, "edge")
	second, err := f.Register(byOps(), "edge", local)
	if err != nil {
		t.Fatal(err)
	}
	_, status, err := cluster.Decode(second)
	if err != nil || status.Anew.IsZero() || second.Phase != cluster.Waiting || !second.Deleted.IsZero() {
		t.Errorf("the second of its name: %+v, %v", second, err)
	}
}
