package operation_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

func spec(t *testing.T, o ledger.Object) (s operation.Spec) {
	t.Helper()
	if err := json.Unmarshal(o.Spec, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnOperationSaysWhatItIsAbout(t *testing.T) {
	subject := ledger.Object{Ref: ledger.Ref{Kind: "deployment", ID: "d"}, Org: "acme", Owner: "anna", Name: "shop"}
	plain := operation.Start("create", subject, "request:1").Object
	if s := spec(t, plain); s.Type != "deployment" || s.Instance != "" || plain.Fields["type"] != "deployment" {
		t.Errorf("without more to say: %+v, %v", s, plain.Fields)
	}
	op := operation.StartFor("update", subject, "request:2", operation.About{Type: "GitOpsDeployment", Owner: "w"}).Object
	want := operation.Spec{Verb: "update", Subject: subject.Ref, Name: "shop", Cause: "request:2", About: operation.About{Type: "GitOpsDeployment", Owner: "w"}}
	if d := cmp.Diff(want, spec(t, op)); d != "" {
		t.Error(d)
	}
	before := op.Fields["instance"]
	ended, err := operation.Finish(op, operation.Succeeded, "", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := operation.CarriedOut(&ended.Object, "edge"); err != nil {
			t.Fatal(err)
		}
	}
	if want.Instance = "edge"; cmp.Diff(want, spec(t, ended.Object)) != "" || ended.Object.Fields["instance"] != "edge" || op.Fields["instance"] != before {
		t.Errorf("carried out by edge: %+v, %v", spec(t, ended.Object), ended.Object.Fields)
	}
	if err := operation.CarriedOut(&ended.Object, ""); err != nil || ended.Object.Fields["instance"] != "edge" {
		t.Errorf("nobody else: %v, %v", ended.Object.Fields, err)
	}
	if _, err := operation.Finish(ended.Object, operation.Failed, "", time.Unix(0, 0)); !fault.Is(err, fault.Conflict) {
		t.Errorf("an end is an end: %v", err)
	}
}
