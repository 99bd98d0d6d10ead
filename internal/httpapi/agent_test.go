package httpapi_test

import (
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

func (w *world) cluster(id string) (ledger.Object, cluster.Status) {
	w.Helper()
	o, err := w.clusters.Get(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	_, status, err := cluster.Decode(o)
	if err != nil {
		w.Fatal(err)
	}
	return o, status
}

func TestSync(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	w.register("c2")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	other := w.place(w.create("bob", "rob").ID, "c2")
	w.create("alice", "unplaced")

	a := w.agent("c1")
	out := a.sync()
	head := w.head()
	if d := cmp.Diff([]string{rex.ID}, a.ids()); d != "" || out.Ledger != head.Ledger || out.Epoch != head.Epoch || out.Interval != 10 {
		t.Fatalf("the first answer is %+v", out)
	}
	if it := a.told[rex.ID]; it.Digest != v1.BodyDigest(it.Body) || it.Generation != 1 || it.Token != 1 || it.Delete {
		t.Errorf("its item is %+v", it)
	}
	a.settled()
	if o := w.observed(rex.ID); o == nil || o.State != "ready" || o.Versions["dinosaur"] != "1.0.0" || len(o.Conditions) != 1 {
		t.Errorf("what is known of rex is %+v", o)
	}
	if o, status := w.cluster("c1"); o.Phase != cluster.Ready || status.Protocol != v1.Protocol || status.Platform.Kind != "simulated" || status.Version != "test" {
		t.Errorf("the cluster is %s, %+v", o.Phase, status)
	}
	changes, err := w.ledger.Changes(t.Context(), ledger.ChangeQuery{Kind: "instance", ID: rex.ID, Reverse: true, Limit: 1})
	if err != nil || changes[0].Actor != "agent:c1" || !strings.HasPrefix(string(changes[0].Cause), "report:c1@") {
		t.Errorf("the log says %+v, %v", changes[0], err)
	}

	rita := w.place(w.create("alice", "rita").ID, "c1")
	a.until("of rita", func() bool { return a.told[rita.ID].Body != nil })
	w.edit(rita.ID, func(in *instance.Instance) { in.Phase, in.Spec.Deleted = instance.Deprovision, true })
	a.until("to delete rita", func() bool { return a.told[rita.ID].Delete })
	a.settled()
	if o := w.observed(rita.ID); o.State != "deleted" {
		t.Errorf("what is known of rita is %+v", o)
	}
	w.edit(rita.ID, func(in *instance.Instance) { in.Phase, in.Deleted = instance.Deleting, time.Now() })
	a.until("that rita is gone", func() bool { return len(a.told) == 1 })
	a.settled()
	if len(a.seen) != 1 || !a.runs[rex.ID] {
		t.Errorf("what is left is %v, %v", a.seen, a.runs)
	}

	w.edit(rex.ID, func(in *instance.Instance) { in.Status.Cluster, in.Status.Placement = "c2", "p-c2" })
	b := w.agent("c2")
	b.until("of rex on c2", func() bool { return b.runs[rex.ID] && b.runs[other.ID] })
	a.until("that rex has left c1", func() bool { return len(a.told) == 0 })
	a.settled()
	if !a.runs[rex.ID] {
		t.Error("what is not listed was not left alone")
	}
	if _, status := w.cluster("c1"); !cmp.Equal(status.Strays, []string{rex.ID}) {
		t.Errorf("strays of c1 are %v", status.Strays)
	}
}

func TestAnIdleSyncWritesNothingAndReadsNothing(t *testing.T) {
	for _, many := range []int{1, 40} {
		w := newWorld(t)
		w.register("c1")
		for i := range many {
			w.place(w.create("alice", fmt.Sprintf("d%d", i)).ID, "c1")
		}
		a := w.agent("c1")
		a.sync()
		a.settled()
		before, reads := w.head().Seq, w.reads.Load()
		for range 5 {
			if out := a.sync(); len(out.Desired)+len(out.Bodies)+len(out.Observed) > 0 {
				t.Fatalf("news at rest: %+v", out)
			}
		}
		if after := w.head().Seq; after != before {
			t.Errorf("%d items: heartbeats wrote %d changes", many, after-before)
		}
		if n := w.reads.Load() - reads; n != 0 {
			t.Errorf("%d items: heartbeats read the ledger %d times", many, n)
		}
	}
}

func TestStatusReportsAreNoNewsForTheAgent(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	a := w.agent("c1")
	a.sync()
	a.settled()
	held := a.hold()
	for i := range 5 {
		w.edit(rex.ID, func(in *instance.Instance) { in.Status.Message = fmt.Sprint("step ", i) })
	}
	rita := w.place(w.create("alice", "rita").ID, "c1")
	out := held()
	if len(out.Desired) != 1 || out.Desired[0].Index != v1.BucketOf(rita.ID) {
		t.Errorf("the next answer is not about rita: %+v", out)
	}
}

func TestSyncsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	w.register("c2")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	a, b := w.agent("c1"), w.agent("c2")
	a.number = 4
	a.sync()
	b.sync()
	before := w.head()
	failed := []v1.ObservedItem{{ID: rex.ID, Generation: 1, State: "error", Message: "boom"}}
	cases := map[string]struct {
		reason, who, cluster string
		change               func(*v1.Sync)
		want                 int
		word                 string
	}{
		"other cluster":  {"An agent speaks for its own cluster.", "agent-c2", "c1", func(*v1.Sync) {}, 404, ""},
		"user":           {"A user is no agent.", "alice", "c1", func(*v1.Sync) {}, 404, ""},
		"no cluster":     {"A cluster must be known.", "root", "c9", func(*v1.Sync) {}, 404, ""},
		"nobody":         {"A token is needed.", "", "c1", func(*v1.Sync) {}, 401, ""},
		"second agent":   {"Two agents of one cluster are a mix-up.", "agent-c1", "c1", func(q *v1.Sync) { q.Agent, q.Number = "a2", 9 }, 409, "agent"},
		"late":           {"A late message is older than what is known.", "agent-c1", "c1", func(q *v1.Sync) { q.Number = 4 }, 409, "late"},
		"repeated":       {"So is a repeated one.", "agent-c1", "c1", func(q *v1.Sync) { q.Number = 5 }, 409, "late"},
		"other ledger":   {"Another control plane.", "agent-c1", "c1", func(q *v1.Sync) { q.Ledger = "elsewhere" }, 409, "epoch"},
		"higher epoch":   {"This ledger is an old copy.", "agent-c1", "c1", func(q *v1.Sync) { q.Epoch++ }, 409, "epoch"},
		"future":         {"The ledger has not got that far.", "agent-c1", "c1", func(q *v1.Sync) { q.Seq += 1000 }, 409, "epoch"},
		"old":            {"Its words may mean something else.", "agent-c1", "c1", func(q *v1.Sync) { q.Protocol = v1.Protocol - 2 }, 409, "protocol"},
		"nameless agent": {"A message names its agent.", "agent-c1", "c1", func(q *v1.Sync) { q.Agent = "" }, 400, ""},
		"installation":   {"An installation is a name.", "agent-c1", "c1", func(q *v1.Sync) { q.Installation = "a b" }, 400, ""},
		"negative":       {"No cluster holds less than nothing.", "agent-c1", "c1", func(q *v1.Sync) { q.Capacity = -1 }, 400, ""},
		"negative units": {"No type has less than nothing.", "agent-c1", "c1", func(q *v1.Sync) { q.Units = map[string]v1.Units{"a/b": {Max: -1}} }, 400, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := a.message()
			q.Number, q.Items = 6, failed
			c.change(&q)
			var e v1.Error
			resp := w.want(c.want, c.who, http.MethodPost, "/api/v1/clusters/"+c.cluster+"/sync", text(t, q), &e)
			if e.Kind != "Error" || e.Reason == "" || resp.Header.Get("Drover-Reason") != c.word {
				t.Errorf("%s: the answer is %+v, in a word %q", c.reason, e, resp.Header.Get("Drover-Reason"))
			}
		})
	}
	for _, body := range []string{"", "{", "[]", "\xff", `"sync"`, "null", `{"protocol": 1, "agent": "agent-c1", "items": "all"}`, `{"protocol": 1, "agent": "x", "number": "6"}`, `{"protocol": 1, "agent": "agent-c1", "desired": "AAAA"}`} {
		if resp := w.request("agent-c1", "POST", "/api/v1/clusters/c1/sync", body, nil); resp.StatusCode != 400 {
			t.Errorf("a body of %q answers %d", body, resp.StatusCode)
		}
	}
	if after := w.head(); after.Seq != before.Seq {
		t.Errorf("refused messages wrote %d changes", after.Seq-before.Seq)
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
	a := w.agent("c1")
	a.sync()
	q := text(t, a.message())
	items := []any{
		7, "text", nil, []any{}, map[string]any{},
		map[string]any{"id": 5, "state": "ready"},
		map[string]any{"id": "no-such-instance", "generation": 1, "state": "deleted"},
		map[string]any{"id": far.ID, "generation": 1, "state": "deleted"},
		map[string]any{"id": "gen-" + rex.ID, "generation": 99, "state": "deleted"},
		map[string]any{"id": "a\x00b", "generation": 1, "state": "ready"},
		map[string]any{"id": strings.Repeat("x", 100000), "generation": 1, "state": "ready"},
		map[string]any{"id": rex.ID, "generation": 1, "state": "installing", "message": strings.Repeat("wait", 1000)},
		map[string]any{"id": rex.ID, "generation": 1, "state": "deleted"},
	}
	q = strings.TrimSuffix(q, "}") + `,"items":` + text(t, items) + "}"
	w.want(200, "agent-c1", http.MethodPost, "/api/v1/clusters/c1/sync", q, nil)
	if o := w.observed(rex.ID); o == nil || o.State != "installing" || o.Generation != 1 || len(o.Message) != 1024 {
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
	first := w.agent("c1")
	first.sync()
	leave := first.leave()
	second := w.agent("c1")
	second.process = "another"
	if status := second.try(); status != 409 { // it would run everything twice
		t.Fatalf("a second process is answered %d", status)
	}
	leave()
	for late := time.Now().Add(20 * time.Second); second.try() != 200; { // the server hears of it in its own time
		if time.Now().After(late) {
			t.Fatal("its successor is refused")
		}
	}
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
