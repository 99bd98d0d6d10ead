package instance_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
)

// The data plane is told who owns an instance, so it must hear of a new owner.
func TestHandoverReachesTheDataPlane(t *testing.T) {
	w, off := newWorld(t, nil)
	o, err := w.service.Create(alice, off, instance.Create{Name: "rex"})
	w.must(err)
	w.rounds()
	before := w.one()

	owner := "alice"
	_, err = w.service.Update(alice, "dinosaur", "rex", instance.Update{Owner: &owner})
	w.must(err)
	if same := w.one(); same.Version != before.Version {
		t.Errorf("version %d after it was handed to its owner, want %d as before", same.Version, before.Version)
	}

	owner = "bob"
	_, err = w.service.Update(alice, "dinosaur", "rex", instance.Update{Owner: &owner})
	w.must(err)
	w.rounds()
	in := w.one()
	if in.Owner != "bob" || in.Phase != instance.Ready || in.Generation != before.Generation+1 || in.Status.Operation != "" {
		t.Errorf("owner %s, phase %s, generation %d, operation %q; want bob, ready, %d, none running",
			in.Owner, in.Phase, in.Generation, in.Status.Operation, before.Generation+1)
	}
	var told struct {
		Spec struct{ Owners []string }
	}
	w.must(json.Unmarshal(w.plane[o.ID].Body, &told))
	if diff := cmp.Diff([]string{"bob"}, told.Spec.Owners); diff != "" {
		t.Errorf("owners that the data plane knows (-want +got):\n%s", diff)
	}
}

// What no process or document could be given, and what is no user's name, is
// refused at the door.
func TestOddTextIsRefused(t *testing.T) {
	w, off := newWorld(t, nil)
	_, err := w.service.Create(alice, off, instance.Create{Name: "rex", Parameters: map[string]any{"species": "a\x00b"}})
	if fault.Reason(err) != "parameters" {
		t.Errorf("a parameter with a zero byte: %v", err)
	}
	_, err = w.service.Create(alice, off, instance.Create{Name: "rex"})
	w.must(err)
	for _, owner := range []string{"", "a\nb", "a\x1b[31m", strings.Repeat("x", 257)} {
		if _, err := w.service.Update(alice, "dinosaur", "rex", instance.Update{Owner: &owner}); fault.Reason(err) != "field" {
			t.Errorf("owner %.20q: %v", owner, err)
		}
	}
	if got := w.one().Owner; got != "alice" {
		t.Errorf("it belongs to %q", got)
	}
}
