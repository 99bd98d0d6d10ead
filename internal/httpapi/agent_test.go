package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// desired reads the next message of an agent's stream and checks its digest.
func (l *listener) desired() v1.Desired {
	l.t.Helper()
	e, ok := l.next()
	if !ok {
		l.t.Fatal("the stream ended")
	}
	var d v1.Desired
	if err := json.Unmarshal([]byte(e.data), &d); err != nil || e.name != "desired" {
		l.t.Fatalf("%v in event %q: %s", err, e.name, e.data)
	}
	if d.Digest != d.ComputeDigest() {
		l.t.Fatalf("the digest does not fit: %s", e.data)
	}
	return d
}

// until reads messages until one fits.
func (l *listener) until(what string, fits func(v1.Desired) bool) v1.Desired {
	l.t.Helper()
	for range 1000 {
		if d := l.desired(); fits(d) {
			return d
		}
	}
	l.t.Fatalf("the agent is never told %s", what)
	return v1.Desired{}
}

func ids(d v1.Desired) (out []string) {
	for _, it := range d.Items {
		out = append(out, it.ID)
	}
	return out
}

func TestDesiredStream(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	w.register("c2")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	other := w.place(w.create("bob", "rob").ID, "c2")
	w.create("alice", "unplaced")

	l := w.listen("agent-c1", "/api/v1/clusters/c1/desired", "")
	first := l.desired()
	head := w.head()
	if d := cmp.Diff([]string{rex.ID}, ids(first)); d != "" || first.Ledger != head.Ledger || first.Epoch != head.Epoch {
		t.Fatalf("the first message is %+v", first)
	}
	if it := first.Items[0]; it.Digest != v1.BodyDigest(it.Body) || it.Generation != 1 || it.Token != 1 || it.Delete {
		t.Errorf("its item is %+v", it)
	}

	rita := w.place(w.create("alice", "rita").ID, "c1")
	second := l.until("of rita", func(d v1.Desired) bool { return len(d.Items) == 2 })
	for _, it := range second.Items {
		if had := it.ID == rex.ID; had != (it.Body == nil) {
			t.Errorf("a body is sent once per connection: %+v", it)
		}
	}

	w.edit(rita.ID, func(in *instance.Instance) { in.Phase, in.Spec.Deleted = instance.Deprovision, true })
	third := l.until("to delete rita", func(d v1.Desired) bool { return d.Items[len(d.Items)-1].Delete })
	if len(third.Items) != 2 || third.Items[1].ID != rita.ID {
		t.Errorf("a deletion is an entry: %+v", third)
	}

	w.edit(rita.ID, func(in *instance.Instance) { in.Phase, in.Deleted = instance.Deleting, time.Now() })
	fourth := l.until("that rita is gone", func(d v1.Desired) bool { return len(d.Items) == 1 })
	if fourth.Items[0].ID != rex.ID || fourth.Items[0].Delete {
		t.Errorf("the rest is left alone: %+v", fourth)
	}

	w.edit(rex.ID, func(in *instance.Instance) { in.Status.Cluster, in.Status.Placement = "c2", "p-c2" })
	l2 := w.listen("agent-c2", "/api/v1/clusters/c2/desired", "")
	l2.until("of rex on c2", func(d v1.Desired) bool {
		return cmp.Equal(ids(d), []string{rex.ID, other.ID}) && d.Items[0].Body != nil
	})
	l.until("that rex has left c1", func(d v1.Desired) bool { return len(d.Items) == 0 })
}

func TestDesiredStreamTellsEverythingInTheEnd(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	// Changes before, during and after the load, on one connection and on one
	// that begins in the middle.
	place := func(i int) { w.place(w.create("alice", fmt.Sprintf("d%d", i)).ID, "c1") }
	for i := range 20 {
		place(i)
	}
	l := w.listen("agent-c1", "/api/v1/clusters/c1/desired", "")
	for i := 20; i < 60; i++ {
		place(i)
	}
	late := w.listen("root", "/api/v1/clusters/c1/desired", "")
	for i := 60; i < 80; i++ {
		place(i)
	}
	whole := func(d v1.Desired) bool { return len(d.Items) == 80 }
	a := l.until("of all", whole)
	b := late.until("of all", whole)
	if a.Digest != b.Digest {
		t.Error("two connections were told different things")
	}
}

func TestStatusReportsAreNoNewsForTheAgent(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	l := w.listen("agent-c1", "/api/v1/clusters/c1/desired", "")
	l.desired()
	for i := range 5 {
		w.edit(rex.ID, func(in *instance.Instance) { in.Status.Message = fmt.Sprint("step ", i) })
	}
	rita := w.place(w.create("alice", "rita").ID, "c1")
	if d := cmp.Diff([]string{rex.ID, rita.ID}, ids(l.desired())); d != "" {
		t.Errorf("the next message is not about rita: %s", d)
	}
}

// report sends an agent's report.
func (w *world) report(status int, who, clusterID string, r map[string]any) v1.Error {
	w.Helper()
	head := w.head()
	body := map[string]any{"epoch": head.Epoch, "seq": head.Seq, "agent": "a1", "number": 1, "ready": true, "capacity": 10}
	for k, v := range r {
		body[k] = v
	}
	data, err := json.Marshal(body)
	if err != nil {
		w.Fatal(err)
	}
	var e v1.Error
	w.want(status, who, "PUT", "/api/v1/clusters/"+clusterID+"/observed", string(data), &e)
	return e
}

func (w *world) observed(id string) *instance.Observed {
	w.Helper()
	o, err := w.ledger.Get(w.Context(), ledger.Ref{Kind: instance.Kind.Name, ID: id})
	if err != nil {
		w.Fatal(err)
	}
	in, err := instance.Decode(o)
	if err != nil {
		w.Fatal(err)
	}
	return in.Status.Observed
}

func TestReport(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	ready := []any{map[string]any{"id": rex.ID, "generation": 1, "state": "ready", "versions": map[string]any{"dinosaur": "1.0.0"}}}
	w.report(200, "agent-c1", "c1", map[string]any{"items": ready})
	if o := w.observed(rex.ID); o == nil || o.State != "ready" || o.Versions["dinosaur"] != "1.0.0" {
		t.Errorf("what is known of rex is %+v", o)
	}
	c, err := w.clusters.Get(t.Context(), "c1")
	if err != nil || c.Phase != cluster.Ready {
		t.Errorf("the cluster is %s, %v", c.Phase, err)
	}
	before := w.head().Seq
	for n := range 5 {
		w.report(200, "agent-c1", "c1", map[string]any{"number": 2 + n, "items": ready})
	}
	w.report(200, "agent-c1", "c1", map[string]any{"number": 10})
	if after := w.head().Seq; after != before {
		t.Errorf("heartbeats wrote %d changes", after-before)
	}
	changes, err := w.ledger.Changes(t.Context(), ledger.ChangeQuery{Kind: "instance", ID: rex.ID, Reverse: true, Limit: 1})
	if err != nil || changes[0].Actor != "agent:c1" || changes[0].Cause != "report:c1@1" {
		t.Errorf("the log says %+v, %v", changes[0], err)
	}
}

func TestReportsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	w.register("c2")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	w.report(200, "agent-c1", "c1", map[string]any{"number": 5})
	w.report(200, "agent-c2", "c2", map[string]any{"agent": "b1", "number": 5})
	before := w.head()
	failed := []any{map[string]any{"id": rex.ID, "generation": 1, "state": "error", "message": "boom"}}
	cases := map[string]struct {
		reason, who, cluster string
		report               map[string]any
		want                 int
	}{
		"other cluster":  {"An agent speaks for its own cluster.", "agent-c2", "c1", map[string]any{"items": failed}, 404},
		"user":           {"A user is no agent.", "alice", "c1", map[string]any{"items": failed}, 404},
		"no cluster":     {"A cluster must be known.", "root", "c9", map[string]any{"items": failed}, 404},
		"second agent":   {"Two agents of one cluster are a mix-up.", "agent-c1", "c1", map[string]any{"agent": "a2", "number": 9, "items": failed}, 409},
		"late":           {"A late report is older than what is known.", "agent-c1", "c1", map[string]any{"number": 4, "items": failed}, 409},
		"repeated":       {"So is a repeated one.", "agent-c1", "c1", map[string]any{"number": 5, "items": failed}, 409},
		"lower epoch":    {"Another life of the ledger.", "agent-c1", "c1", map[string]any{"number": 6, "epoch": before.Epoch - 1, "items": failed}, 409},
		"higher epoch":   {"This ledger is an old copy.", "agent-c1", "c1", map[string]any{"number": 6, "epoch": before.Epoch + 1, "items": failed}, 409},
		"future":         {"The ledger has not got that far.", "agent-c1", "c1", map[string]any{"number": 6, "seq": before.Seq + 1000, "items": failed}, 409},
		"nameless agent": {"A report names its agent.", "agent-c1", "c1", map[string]any{"agent": "", "items": failed}, 400},
		"negative":       {"No cluster holds less than nothing.", "agent-c1", "c1", map[string]any{"number": 6, "capacity": -1, "items": failed}, 400},
		"not a list":     {"Items are a list.", "agent-c1", "c1", map[string]any{"number": 6, "items": "all"}, 400},
		"wrong number":   {"A number is a number.", "agent-c1", "c1", map[string]any{"number": "6", "items": failed}, 400},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if e := w.report(c.want, c.who, c.cluster, c.report); e.Kind != "Error" || e.Reason == "" {
				t.Errorf("%s: the answer is %+v", c.reason, e)
			}
		})
	}
	for _, body := range []string{"", "{", "[]", "\xff", `"report"`, "null"} {
		if resp := w.request("agent-c1", "PUT", "/api/v1/clusters/c1/observed", body, nil); resp.StatusCode != 400 && resp.StatusCode != 409 {
			t.Errorf("a body of %q answers %d", body, resp.StatusCode)
		}
	}
	if after := w.head(); after.Seq != before.Seq {
		t.Errorf("refused reports wrote %d changes", after.Seq-before.Seq)
	}
	if o := w.observed(rex.ID); o != nil {
		t.Errorf("rex was harmed: %+v", o)
	}
}

func TestGarbageHarmsNobody(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	w.register("c2")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	far := w.place(w.create("alice", "far").ID, "c2")
	w.report(200, "agent-c1", "c1", map[string]any{"items": []any{
		7, "text", nil, []any{}, map[string]any{},
		map[string]any{"id": 5, "state": "ready"},
		map[string]any{"id": "no-such-instance", "generation": 1, "state": "deleted"},
		map[string]any{"id": far.ID, "generation": 1, "state": "deleted"},
		map[string]any{"id": rex.ID, "generation": 99, "state": "deleted"},
		map[string]any{"id": rex.ID, "generation": -1, "state": "deleted"},
		map[string]any{"id": rex.ID, "generation": 1, "state": "exploded"},
		map[string]any{"id": "a\x00b", "generation": 1, "state": "ready"},
		map[string]any{"id": strings.Repeat("x", 100000), "generation": 1, "state": "ready"},
		map[string]any{"id": rex.ID, "generation": 1, "state": "installing", "message": "wait"},
	}})
	if o := w.observed(rex.ID); o == nil || o.State != "installing" || o.Generation != 1 {
		t.Errorf("the one good item did not count: %+v", o)
	}
	if o := w.observed(far.ID); o != nil {
		t.Errorf("another cluster's instance was touched: %+v", o)
	}
	if !strings.Contains(w.logged(), "items of a report were refused") {
		t.Error("nothing was logged")
	}
}

func TestARestartedAgentNeedNotWait(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	first := w.listen("agent-c1", "/api/v1/clusters/c1/desired?agent=a1", "")
	first.desired()
	w.report(200, "agent-c1", "c1", map[string]any{"agent": "a1", "number": 50})
	w.want(409, "agent-c1", http.MethodGet, "/api/v1/clusters/c1/desired?agent=a2", "", nil) // it would run everything twice
	w.report(409, "agent-c1", "c1", map[string]any{"agent": "a2", "number": 1})
	first.close()
	w.awaitLog("path=/api/v1/clusters/c1/desired status=200")
	w.listen("agent-c1", "/api/v1/clusters/c1/desired?agent=a2", "").desired()
	w.report(200, "agent-c1", "c1", map[string]any{"agent": "a2", "number": 1})
}

func TestDesiredStreamIsTheAgentsAlone(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	for _, who := range []string{"agent-c2", "alice", "carol"} {
		w.want(404, who, http.MethodGet, "/api/v1/clusters/c1/desired", "", nil)
	}
	w.want(404, "agent-c2", http.MethodGet, "/api/v1/clusters/c2/desired", "", nil) // not registered
	w.want(401, "", http.MethodGet, "/api/v1/clusters/c1/desired", "", nil)
}

func TestOutsideAgent(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	rita := w.place(w.create("alice", "rita").ID, "c1")
	w.edit(rita.ID, func(in *instance.Instance) { in.Phase, in.Spec.Deleted = instance.Deprovision, true })
	const base = "/api/dinosaurs_mgmt/v1/agent-clusters/"
	w.want(404, "agent-c2", "GET", base+"c1/dinosaurs", "", nil)
	w.want(404, "alice", "GET", base+"c1", "", nil)
	w.want(400, "agent-c2", "GET", base+"c2", "", nil)
	w.want(405, "agent-c1", "POST", base+"c1/status", "{}", nil)
	w.want(404, "agent-c1", "GET", base+"c1/kafkas", "", nil)
	var config map[string]any
	w.want(200, "agent-c1", "GET", base+"c1", "", &config)
	if config["spec"] == nil {
		t.Errorf("the configuration is %v", config)
	}
	w.want(200, "agent-c1", "PUT", base+"c1/status", `{"conditions": [{"type": "Ready", "status": "True"}]}`, nil)
	if c, err := w.clusters.Get(t.Context(), "c1"); err != nil || c.Phase != cluster.Ready {
		t.Errorf("the cluster is %s, %v", c.Phase, err)
	}
	var list struct {
		Kind  string
		Items []struct {
			ID, Kind string
			Metadata struct{ Name string }
			Spec     struct{ Deleted bool }
		}
	}
	w.want(200, "agent-c1", "GET", base+"c1/dinosaurs", "", &list)
	if list.Kind != "ManagedDinosaurList" || len(list.Items) != 2 {
		t.Fatalf("the desired state is %+v", list)
	}
	for _, it := range list.Items {
		if it.Kind != "ManagedDinosaur" || it.Spec.Deleted != (it.ID == rita.ID) || it.Metadata.Name == "" {
			t.Errorf("an item is %+v", it)
		}
	}
	cases := map[string]struct{ reason, condition, want string }{
		"suspended":  {"Suspended is looked at first.", `{"type": "Ready", "status": "True", "reason": "Suspended"}`, "suspended"},
		"ready":      {"True is ready.", `{"type": "Ready", "status": "True"}`, "ready"},
		"unknown":    {"Unknown says nothing.", `{"type": "Ready", "status": "Unknown", "reason": "Error"}`, ""},
		"installing": {"Installing.", `{"type": "Ready", "status": "False", "reason": "Installing"}`, "installing"},
		"error":      {"Error.", `{"type": "Ready", "status": "False", "reason": "Error", "message": "boom"}`, "error"},
		"deleted":    {"Deleted.", `{"type": "Ready", "status": "False", "reason": "Deleted"}`, "deleted"},
		"rejected":   {"Rejected.", `{"type": "Ready", "status": "False", "reason": "Rejected", "message": "Cluster has insufficient resources"}`, "rejected"},
		"none":       {"Nothing said means that it is being installed.", ``, "installing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w.edit(rex.ID, func(in *instance.Instance) { in.Status.Observed = nil })
			body := fmt.Sprintf(`{%q: {"conditions": [%s], "versions": {"dinosaur": "1.0.0"}}, "nobody": {}, %q: 7}`, rex.ID, c.condition, rita.ID)
			w.want(200, "agent-c1", "PUT", base+"c1/dinosaurs/status", body, nil)
			got := ""
			if o := w.observed(rex.ID); o != nil {
				got = o.State
			}
			if got != c.want {
				t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
			}
		})
	}
	var e v1.Error
	w.want(400, "agent-c1", "PUT", base+"c1/dinosaurs/status", `[]`, &e)
	if e.Code != "DINOSAURS-MGMT-17" {
		t.Errorf("a report that is none answers %+v", e)
	}
}
