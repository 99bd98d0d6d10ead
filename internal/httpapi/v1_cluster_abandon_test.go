package httpapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// An agent that returns to a cluster that was given up is told to remove what was
// deleted meanwhile, even by a server that was started since; it leaves the rest
// alone, and is refused once there is nothing to remove.
func TestAnAgentThatReturnsToAnAbandonedCluster(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	keeps, goes := w.place(w.create("alice", "keeps").ID, "c1"), w.place(w.create("alice", "goes").ID, "c1")
	a := w.agent("c1")
	a.settled()
	abandon := `{"reason":"the site burnt down"}`
	var e v1.Error
	w.want(403, "alice", "POST", "/api/v1/clusters/c1/abandon", abandon, &e)
	w.want(403, "agent-c1", "POST", "/api/v1/clusters/c1/abandon", abandon, &e)
	w.want(404, "root", "POST", "/api/v1/clusters/nowhere/abandon", abandon, &e)
	if w.want(409, "root", "POST", "/api/v1/clusters/c1/abandon", abandon, &e); !strings.Contains(e.Reason, "connected") {
		t.Errorf("it is told: %s", e.Reason)
	}
	o, _ := w.cluster("c1")
	o.Phase, o.Status = cluster.Waiting, []byte(strings.Replace(string(o.Status), `"session"`, `"was"`, 1))
	if _, err := w.ledger.Commit(t.Context(), ledger.Set{Actor: "system", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "silent"}}}); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{}`, `{"reason":""}`, `{"reason":" "}`, `{"reason":"x","noodles":1}`, `[`} {
		if got := w.request("root", "POST", "/api/v1/clusters/c1/abandon", body, nil); got.StatusCode < 400 || got.StatusCode >= 500 {
			t.Errorf("%s: %d", body, got.StatusCode)
		}
	}
	var given v1.Object
	answer := w.want(202, "root", "POST", "/api/v1/clusters/c1/abandon", abandon, &given)
	if given.Phase != cluster.Abandoned || answer.Header.Get("Drover-Operation") == "" {
		t.Errorf("it is %s", given.Phase)
	}
	// What the loop does then.
	if err := w.instances.Lose(w.as("root"), "c1", "the site burnt down"); err != nil {
		t.Fatal(err)
	}
	w.edit(keeps.ID, func(in *instance.Instance) { in.Phase = instance.Failed })
	w.edit(goes.ID, func(in *instance.Instance) {
		in.Phase, in.Spec.Deleted, in.Object.Deleted = instance.Deleting, true, in.Updated
	})
	b := w.replica().agentAs(a)
	b.until("what to remove", func() bool { return b.removed[goes.ID] })
	if !b.runs[keeps.ID] || b.removed[keeps.ID] {
		t.Error("what nobody deleted is removed")
	}
	status := 200
	for range 200 {
		q := b.message()
		var out v1.Synced
		if status, out = b.patient(q); status != 200 {
			break
		}
		b.take(q, out)
	}
	if status != 409 {
		t.Errorf("once there is nothing to remove it is answered %d", status)
	}
	if stones, _, err := instance.Tombstones(t.Context(), w.ledger, "c1", "", 10); err != nil || len(stones) > 0 {
		t.Errorf("%d tombstones are left, %v", len(stones), err)
	}
	if in := w.observed(keeps.ID); in != nil && in.State != "ready" {
		t.Errorf("what it says of the other one is written down: %s", in.State)
	}
	if now, _ := w.cluster("c1"); now.Phase != cluster.Abandoned {
		t.Errorf("it is %s", now.Phase)
	}
	var audits v1.List
	w.want(200, "root", "GET", "/api/v1/audits", "", &audits)
	var calls []string
	for _, o := range audits.Items {
		if strings.Contains(string(o.Spec), "/abandon") {
			calls = append(calls, o.ID)
		}
	}
	if diff := cmp.Diff(true, len(calls) > 0); diff != "" {
		t.Error("nobody wrote down who gave it up")
	}
}
