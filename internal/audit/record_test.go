package audit_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// How something ended that somebody had asked for is found by his request, whoever ended it.
func TestHowItEnded(t *testing.T) {
	begun := operation.Start("create", ledger.Object{Ref: ledger.Ref{Kind: "instance", ID: "i1"}, Name: "rex"}, ledger.ByRequest("r7")).Object
	ended := func(phase string) ledger.Object {
		put, err := operation.Finish(begun, phase, "there is no room", time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		return put.Object
	}
	command := func(phase string) ledger.Object {
		return ledger.Object{Ref: ledger.Ref{Kind: "command", ID: "c1"}, Phase: phase, Spec: []byte(`{"type":"instance.create"}`)}
	}
	for reason, c := range map[string]struct {
		object  ledger.Object
		op      string
		outcome string
		asked   bool
	}{
		"it is begun":              {begun, "create", "done", false},
		"it has failed":            {ended(operation.Failed), "failed", "failed", true},
		"it was made":              {ended(operation.Succeeded), "succeeded", "done", false},
		"long after it is removed": {ended(operation.Failed), "delete", "done", false},
		"a command is refused":     {command("rejected"), "rejected", "refused", false},
		"a command has failed":     {command("failed"), "failed", "failed", false},
		"a command is taken":       {command("accepted"), "accepted", "done", false},
	} {
		r := audit.RecordOf(&ledger.Change{Op: c.op, Actor: "system", Cause: ledger.BySchedule("x"), Object: c.object})
		if r.Outcome != c.outcome || (r.Request == "r7") != c.asked || (audit.Filter{Asked: true}).Picks(&r) != c.asked {
			t.Errorf("%s: %+v", reason, r)
		}
	}
	put, err := operation.Audit{User: "bus", Method: "COMMAND", Path: "unknown", Remote: "bus"}.Entry(operation.AuditRefused, 400, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	r := audit.RecordOf(&ledger.Change{Op: put.Op, Actor: "bus", Object: put.Object})
	if r.Actor != "bus" || r.From != "bus" || !(audit.Filter{Asked: true, Outcome: "refused"}).Picks(&r) {
		t.Errorf("a message without an id is %+v", r)
	}
}
