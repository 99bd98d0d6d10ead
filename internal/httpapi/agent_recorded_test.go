package httpapi_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// record writes the life anew, for a new protocol: those of old ones stay as
// they were said.
var record = flag.Bool("record", false, "record the messages of an agent's life in the present protocol")

// turn is one exchange of a recorded life.
type turn struct {
	Does  string         `json:"does,omitempty"` // what happens before, at the control plane
	Says  map[string]any `json:"says"`           // as the agent sent it
	Hears v1.Synced      `json:"hears"`          // without what is of one server alone
}

// lifeOf is a life that every protocol knows: an instance is ordered, becomes
// ready, is changed, and goes.
var lifeOf = []string{"", "order", "", "", "change", "", "", "remove", "", "forget", ""}

const (
	lifeFile = "testdata/protocol1/life/recorded.json"
	oldRex   = "03e6ljtc00o4vm8e6q3an000"
)

// do is what happens at the control plane.
func (w *world) do(what string) {
	w.Helper()
	switch what {
	case "order":
		made := w.create("alice", "old-rex")
		made.Ref.ID, made.Name, made.Version = oldRex, "recorded", 0
		if _, err := w.ledger.Commit(w.Context(), ledger.Set{Actor: "system", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: made, Op: "create"}}}); err != nil {
			w.Fatal(err)
		}
		w.place(oldRex, "c1")
	case "change":
		w.edit(oldRex, func(in *instance.Instance) {
			in.Spec.Parameters = map[string]any{"colour": "green"}
			in.Status.Rendered = in.Generation + 1 // which the ledger makes of it
			in.Status.Token++
			in.Status.Desired = []byte(strings.Replace(string(in.Status.Desired), `"x"`, `"y"`, 1))
		})
	case "remove":
		w.edit(oldRex, func(in *instance.Instance) { in.Phase, in.Spec.Deleted = instance.Deprovision, true })
	case "forget":
		w.edit(oldRex, func(in *instance.Instance) { in.Phase, in.Deleted = instance.Deleting, time.Now() })
	}
}

// bare is an answer without what is of one server alone: whoever wrote the life
// down had another.
func bare(t *testing.T, a v1.Synced) v1.Synced {
	t.Helper()
	a.Ledger, a.Epoch, a.Seq, a.Keys, a.Token = "", 0, 0, "", ""
	for i := range a.Desired {
		for j := range a.Desired[i].Items {
			it := &a.Desired[i].Items[j]
			if (len(it.Body) > 0 || it.Delete) && it.Proof == "" {
				t.Errorf("%s is not signed", it.ID)
			}
			it.Proof, it.Cause, it.Org = "", "", "" // of the last two such an agent knows nothing
		}
	}
	return a
}

// An agent of the oldest protocol that is served lives a whole life with this
// control plane, by the messages that such an agent sent when it was new: the
// trees in them tell whether items, digests and buckets still mean the same.
// Fields that nobody knows are in all of them.
func TestALifeInTheOldestProtocol(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	w.register("c2")
	bystander := w.agent("c2")
	bystander.reached()
	if *record {
		write(t, w)
		return
	}
	text, err := os.ReadFile(lifeFile)
	if err != nil {
		t.Fatal(err)
	}
	var life []turn
	if err := json.Unmarshal(text, &life); err != nil || len(life) < len(lifeOf) {
		t.Fatalf("%d turns: %v", len(life), err)
	}
	last := v1.Synced{}
	for i, turn := range life {
		w.do(turn.Does)
		bystander.reached()                                                                           // the change comes before the message that hears of it
		turn.Says["ledger"], turn.Says["epoch"], turn.Says["seq"] = last.Ledger, last.Epoch, last.Seq // what agents repeat
		turn.Says["hereafter"] = map[string]any{"what": []string{"nobody", "knows"}}
		for _, it := range turn.Says["items"].([]any) {
			it.(map[string]any)["mood"] = "good"
		}
		var got v1.Synced
		w.want(http.StatusOK, "agent-c1", http.MethodPost, "/api/v1/clusters/c1/sync", w.text(turn.Says), &got)
		if got.Protocol < 1 || got.Ledger == "" || got.Seq < last.Seq {
			t.Errorf("turn %d is answered %+v", i, got)
		}
		last = got
		if turn.Does == "forget" { // it was written down as the message came first; what nobody knows any more is asked for
			turn.Hears.Observed = []int{v1.BucketOf(oldRex)}
		}
		if d := cmp.Diff(turn.Hears, bare(t, got)); d != "" {
			t.Fatalf("turn %d (%s) is answered otherwise (-then +now): %s", i, turn.Does, d)
		}
		seen, want := w.observedOf(oldRex), map[int]string{2: "installing 1", 3: "ready 1", 6: "ready 2", 8: "deleted 2"}[i]
		if want != "" && seen != want {
			t.Errorf("after turn %d, %s is known, not %s", i, seen, want)
		}
	}
	if o, status := w.cluster("c1"); o.Phase != cluster.Ready || len(status.Strays) > 0 || status.Protocol != 1 {
		t.Errorf("in the end the cluster is %s: %+v", o.Phase, status)
	}
}

func (w *world) text(v any) string { w.Helper(); return text(w, v) }

// observedOf is what is known of an instance, in short.
func (w *world) observedOf(id string) string {
	w.Helper()
	o, err := w.ledger.Get(w.Context(), ledger.Ref{Kind: instance.Kind.Name, ID: id})
	if err != nil {
		return ""
	}
	in, err := instance.Decode(o)
	if err != nil || in.Status.Observed == nil {
		return ""
	}
	return in.Status.Observed.State + " " + w.text(in.Status.Observed.Generation)
}

// write records the life with the smallest agent that there is.
func write(t *testing.T, w *world) {
	a := w.agent("c1")
	var life []string
	for i, does := range lifeOf {
		w.do(does)
		q := a.message()
		if i == 2 { // it takes a while at first
			it := a.seen[oldRex]
			a.seen[oldRex] = v1.ObservedItem{ID: oldRex, Generation: it.Generation, State: "installing"}
			a.number--
			q = a.message()
			a.seen[oldRex] = it
		}
		q.Wait = does != ""
		status, out, err := a.post(t.Context(), q)
		if err != nil || status != http.StatusOK {
			t.Fatalf("turn %d: %d, %v", i, status, err)
		}
		a.take(q, out)
		if i == 2 {
			delete(a.acked, oldRex)
		}
		says := map[string]any{}
		if err := json.Unmarshal([]byte(text(t, q)), &says); err != nil {
			t.Fatal(err)
		}
		if says["items"] == nil {
			says["items"] = []any{}
		}
		delete(says, "keys") // of one server alone
		life = append(life, text(t, turn{does, says, bare(t, out)}))
	}
	err := os.MkdirAll("testdata/protocol1/life", 0o755)
	if err == nil {
		err = os.WriteFile(lifeFile, []byte("[\n"+strings.Join(life, ",\n")+"\n]\n"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
