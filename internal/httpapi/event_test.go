package httpapi_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/subscription"
)

// Whatever became of a change, operators are told of it, as the document says: of one whose
// content was erased, of one that cannot be written as JSON, and of the end of a record.
func TestEveryChangeIsTold(t *testing.T) {
	_, text := asyncAPI(t)
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("doc.json", parsed); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	encoder := httpapi.Events{Offerings: &shelf{}}
	for _, kind := range httpapi.EventKinds() {
		ref := ledger.Ref{Kind: kind, ID: "x"}
		op := "update"
		if kind == command.Kind.Name {
			op = command.Done
		}
		for _, tc := range []struct {
			reason string
			change ledger.Change
			data   bool
		}{
			{"erased", ledger.Change{Op: op, Object: ledger.Object{Ref: ref, Org: "acme", Version: 2, Updated: at}}, true},
			{"a time that nobody can write", ledger.Change{Op: op, Object: ledger.Object{Ref: ref, Org: "acme", Version: 2, Created: at.AddDate(9000, 0, 0), Fields: ledger.Fields{"use": "tenant"}}}, false},
			{"a field that nobody can write", ledger.Change{Op: op, Object: ledger.Object{Ref: ref, Org: "acme", Version: 2, Fields: ledger.Fields{"odd": func() {}}}}, false},
			{"deleted", ledger.Change{Op: "delete", Object: ledger.Object{Ref: ref, Org: "acme", Version: 3, Phase: "done", Spec: json.RawMessage(`{}`), Deleted: at}}, true},
		} {
			tc.change.Seq, tc.change.At, tc.change.Actor, tc.change.Cause = 7, at, "alice", ledger.ByRequest("r")
			if kind == "serviceaccount" && tc.change.Object.Fields["use"] == nil {
				continue // it may be an agent's, which is nobody's business
			}
			shown, ok := encoder.Encode(&tc.change, "", true)
			if !ok {
				t.Errorf("%s, %s: nobody is told", kind, tc.reason)
				continue
			}
			e := subscription.NewEvent(ledger.Head{Ledger: "l", Epoch: 1}, &tc.change, shown)
			m, err := subscription.Message(&e)
			if err != nil {
				t.Fatal(err)
			}
			sent, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.Body))
			if err != nil {
				t.Fatalf("%s, %s: %v: %s", kind, tc.reason, err, m.Body)
			}
			if err := payload(t, c, "event-"+kind).Validate(sent); err != nil {
				t.Errorf("%s, %s: %v", kind, tc.reason, err)
			}
			attributes := sent.(map[string]any)
			if _, of := attributes["dataschema"]; (attributes["data"] != nil) != tc.data || of != tc.data {
				t.Errorf("%s, %s: its data is %v, and a schema of it is named: %t", kind, tc.reason, attributes["data"], of)
			}
		}
	}
}
