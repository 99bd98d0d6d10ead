package environment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
)

// What waits for an approval is told of the environment, once, until it is decided.
func TestWaitingIsTold(t *testing.T) {
	w := begin(t)
	st := shop("db")
	st.judge = func(changes []environment.PlannedChange) (out []environment.Verdict) {
		for _, c := range changes {
			if c.Action == "destroy" {
				out = append(out, environment.Verdict{Policy: "data", Address: c.Address, Effect: "approve", Message: "data would be lost"})
			}
		}
		return out
	}
	w.add("1", st)
	e := w.up("staging", nil)
	_, op, err := w.s.Destroy(alice, e.ID, "")
	w.must(err)
	w.work(time.Minute)
	e = w.env(e.ID)
	if e.Phase != environment.OK || !strings.Contains(e.Status.Message, "its destruction waits") || !strings.Contains(e.Status.Message, "drover approve") {
		t.Fatalf("%s %q", e.Phase, e.Status.Message)
	}
	version := e.Version
	w.work(3 * time.Hour)
	if e = w.env(e.ID); e.Version != version {
		t.Errorf("it is told again and again: %d times", e.Version-version)
	}
	if phase, _ := w.operation(op); phase != "running" {
		t.Errorf("the operation is %s", phase)
	}
}
