package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// An operator takes a content out of the log, others do not; who did it and why is on
// record, and the ledger holds.
func TestErase(t *testing.T) {
	o := newAnnals(t)
	changes, err := o.room.Store.Changes(t.Context(), ledger.ChangeQuery{Kind: instance.Kind.Name, Limit: 1})
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	a1 := changes[0].Object
	path := "/api/v1/ledger/changes/1/erase"
	if changes[0].Seq != 1 {
		t.Fatalf("the first change is %d", changes[0].Seq)
	}
	const why = `{"reason": "a card number"}`
	if w := o.do("root", "POST", path, why); w.Code != 409 || !strings.Contains(w.Body.String(), "change it first, before it is deleted") {
		t.Errorf("what an instance is now is erased with %d %s", w.Code, w.Body)
	}
	a1.Phase = "ready"
	if _, err := o.room.Store.Commit(t.Context(), ledger.Set{Actor: "alice", Cause: ledger.ByRequest("r"), Puts: []ledger.Put{{Object: a1, Expect: a1.Version, Op: "update"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.room.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reason, who, path, body string
		status                  int
	}{
		{"a user", "alice", path, why, 403},
		{"an organisation's administrator", "arthur", path, why, 403},
		{"nobody", "", path, why, 401},
		{"without a reason", "root", path, `{"reason": " "}`, 400},
		{"without a word", "root", path, `{}`, 400},
		{"what is not there", "root", "/api/v1/ledger/changes/4711/erase", why, 404},
		{"no change", "root", "/api/v1/ledger/changes/x/erase", why, 400},
		{"an operator", "root", path, why, 200},
	} {
		if w := o.do(c.who, "POST", c.path, c.body); w.Code != c.status {
			t.Errorf("%s: %d %s", c.reason, w.Code, w.Body)
		}
	}
	got := o.verified(o.do("root", "POST", "/api/v1/ledger/verify", ""))
	if got.Flaw != nil || got.Erased != 1 || len(got.Erasures) != 1 || got.Erasures[0] != (v1.Erasure{Seq: 1, Of: "instance/a1"}) {
		t.Errorf("it is %+v", got)
	}
	// The rig has its operators' calls in a ledger of its own.
	calls, err := o.ledger.List(t.Context(), ledger.Query{Kind: operation.AuditKind.Name, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, c := range calls {
		var call operation.Audit
		var end operation.AuditStatus
		if json.Unmarshal(c.Spec, &call) == nil && json.Unmarshal(c.Status, &end) == nil && call.Path == path && c.Phase == operation.AuditDone {
			before, err := o.ledger.Changes(t.Context(), ledger.ChangeQuery{Kind: c.Kind, ID: c.ID, Limit: 10})
			var begun operation.AuditStatus
			if err != nil || len(before) != 3 || before[1].Op != operation.AuditStarted || json.Unmarshal(before[1].Object.Status, &begun) != nil || begun.About != "change 1: a card number" {
				t.Errorf("on record before is %+v, %+v, %v", begun, before, err)
			}
			if told++; call.User != "root" || end.About != "change 1 of instance/a1: a card number" {
				t.Errorf("on record is %+v %+v", call, end)
			}
		}
	}
	if told != 1 {
		t.Errorf("%d erasures are on record", told)
	}
}

// What an object was when it was deleted cannot be erased, and whoever tries is told so.
func TestEraseWhatIsDeleted(t *testing.T) {
	o := newAnnals(t)
	changes, err := o.room.Store.Changes(t.Context(), ledger.ChangeQuery{Kind: instance.Kind.Name, Limit: 1})
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	a1 := changes[0].Object
	a1.Deleted = changes[0].At
	done, err := o.room.Store.Commit(t.Context(), ledger.Set{Actor: "alice", Cause: ledger.ByRequest("r"), Puts: []ledger.Put{{Object: a1, Expect: a1.Version, Op: "delete"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.room.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reason string
		seq    int64
		status int
		says   string
	}{
		{"its last change", done.Seq, 409, "it is deleted"},
		{"the one before", 1, 200, "instance/a1"},
	} {
		w := o.do("root", "POST", fmt.Sprintf("/api/v1/ledger/changes/%d/erase", c.seq), `{"reason": "a card number"}`)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s", c.reason, w.Code, w.Body)
		}
	}
}
