package gitops_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

func (f *frail) Changes(ctx context.Context, q ledger.ChangeQuery) ([]ledger.Change, error) {
	if f.forgets {
		return nil, nil
	}
	return f.Ledger.Changes(ctx, q)
}

// garble writes a status that nobody can read.
func (y *yard) garble(ref ledger.Ref, wake bool) {
	y.t.Helper()
	o := y.object(ref)
	o.Status = json.RawMessage(`{"mirrored":7,"issued":"many","checked":[],"since":{}}`)
	set := ledger.Set{Actor: "somebody", Cause: "request:1", Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}}
	if wake {
		set.Wakes = []ledger.Wake{{Ref: ref, Org: o.Org}}
	}
	_, err := y.store.Commit(context.Background(), set)
	y.must(err)
}

// all that a namespace may hold, by kind, at work: what hands each over.
func (d *desk) everything() map[string]func() error {
	d.t.Helper()
	web, run := d.manual(), d.runIntent("run")
	web.Environment, web.ToNamespace = "prod", "live"
	hands := map[string]func() error{
		"deployment": func() error { return d.s.IntendDeployment(context.Background(), web) },
		"syncrun":    func() error { return d.s.IntendSyncRun(context.Background(), run) },
		"repository": func() error {
			return d.s.IntendRepository(context.Background(), d.credential("cred", 1, password("reader", "s3cr3t")))
		},
		"target": func() error {
			return d.s.IntendTarget(context.Background(), d.environment("env", 1, environmentSecret(withToken("t0k3n"))))
		},
	}
	for _, kind := range []string{"repository", "target", "deployment", "syncrun"} {
		d.mirror.there[everyID[kind]] = true
		d.must(hands[kind]())
		d.work(time.Second)
	}
	d.report("hub", "uid-1", runtime.Ready, fine("c1"))
	d.work(time.Second)
	if b := d.body("hub", "uid-1"); b.Credential == nil || b.Target == nil || b.Sync == nil {
		d.t.Fatalf("the agent is told %+v", b)
	}
	return hands
}

var everyID = map[string]string{"deployment": "uid-1", "syncrun": "run", "repository": "cred", "target": "env"}

// A status that cannot be read is found by the comparison and by whoever works on it, is as
// it was, from the log, and is told. What the agent must have stays as it is.
func TestGarbledStatusesArePutRight(t *testing.T) {
	for kind, id := range everyID {
		for _, by := range []string{"work", "the comparison", "a damaged status"} {
			d := newDesk(t)
			hand, ref := d.everything()[kind], ledger.Ref{Kind: kind, ID: id}
			right, item := d.object(ref), d.body("hub", "uid-1")
			d.garble(ref, by == "work")
			switch by {
			case "work":
				d.work(time.Second)
			case "the comparison":
				known, err := d.s.KnownOf(context.Background(), "main", kind, "", 10)
				d.must(err)
				if len(known) != 1 || known[0].Asks != "altered" {
					t.Errorf("%s: nobody sees it: %+v", kind, known)
				}
				d.must(hand())
			default:
				d.must(d.s.Resync(context.Background(), kind, id))
			}
			d.work(time.Second)
			got := d.object(ref)
			if diff := cmp.Diff(plainStatus(t, right), plainStatus(t, got)); diff != "" || got.Phase != right.Phase || !got.Deleted.IsZero() {
				t.Errorf("%s, by %s: it is %s: %s", kind, by, got.Phase, diff)
			}
			if diff := cmp.Diff([]string{id}, d.mirror.mended); diff != "" {
				t.Errorf("%s, by %s: it is told: %s", kind, by, diff)
			}
			if diff := cmp.Diff(item, d.body("hub", "uid-1")); diff != "" {
				t.Errorf("%s, by %s: the agent is told: %s", kind, by, diff)
			}
			calls := d.store.commits
			if d.must(hand()); d.store.commits != calls {
				t.Errorf("%s, by %s: the same intent has written", kind, by)
			}
		}
	}
}

// plainStatus is a status without what says when it was looked at.
func plainStatus(t *testing.T, o ledger.Object) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal(o.Status, &out); err != nil {
		t.Errorf("%s: %v", o.Ref, err)
	}
	delete(out, "checked")
	return out
}

// Whoever needs a row that somebody has garbled puts it right, and goes on: a deployment
// loses neither its credential nor its target, nor its turn.
func TestAGarbledRowHoldsUpNobody(t *testing.T) {
	d := newDesk(t)
	d.everything()
	for kind, id := range everyID {
		if kind != "deployment" {
			d.garble(ledger.Ref{Kind: kind, ID: id}, false)
		}
	}
	in := d.manual()
	in.Environment, in.ToNamespace, in.Path, in.Generation = "prod", "live", "other", 2
	d.must(d.s.IntendDeployment(context.Background(), in))
	d.work(time.Second)
	if b := d.body("hub", "uid-1"); b.Path != "other" || b.Credential == nil || b.Target == nil || b.Sync == nil || b.Sync.ID != "run" {
		t.Errorf("the agent is told %+v", b)
	}
	for kind, id := range everyID {
		if o := d.object(ledger.Ref{Kind: kind, ID: id}); plainStatus(t, o) == nil {
			t.Errorf("%s stays as it is", kind)
		}
	}
	it, _ := d.item("hub", "uid-1")
	d.garble(ledger.Ref{Kind: "deployment", ID: "uid-1"}, false)
	seen := fine("c1")
	seen.Run = &runtime.SyncRun{ID: "run", Phase: "Succeeded"}
	detail, err := json.Marshal(seen)
	d.must(err)
	out, err := d.s.Observe(context.Background(), "hub", []gitops.Observation{{ID: "uid-1", Generation: it.Generation, State: string(runtime.Ready), Leaf: 99, Detail: detail}})
	d.must(err)
	if len(out.Refused)+len(out.Strangers) > 0 {
		t.Errorf("what the agent says is refused: %+v", out)
	}
	d.work(time.Second)
	if r := d.syncrun("run"); r.Phase != gitops.Succeeded {
		t.Errorf("its run is %s", r.Phase)
	}
	d.operationsEnded()
}

// Where the log has nothing that could be read it is as with one that the ledger has lost:
// it is looked at anew. What was asked for is still asked for, and nothing is removed.
func TestGarbledStatusesOfWhichNothingIsLeft(t *testing.T) {
	for kind, id := range everyID {
		d := newDesk(t)
		hand, ref := d.everything()[kind], ledger.Ref{Kind: kind, ID: id}
		right, spec := d.object(ref), d.document(ref)
		d.garble(ref, false)
		d.store.forgets = true
		d.must(hand())
		d.work(time.Minute)
		if it, ok := d.item("hub", "uid-1"); !ok || it.Delete {
			t.Fatalf("%s: the agent is told %+v, %v", kind, it, ok)
		}
		d.report("hub", "uid-1", runtime.Ready, fine("c1"))
		d.work(time.Second)
		if o := d.object(ref); o.Phase != right.Phase {
			t.Errorf("%s: it is %s, and was %s", kind, o.Phase, right.Phase)
		}
		if diff := cmp.Diff(spec, d.document(ref)); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
		if b := d.body("hub", "uid-1"); b.Credential == nil || b.Target == nil || b.Sync == nil {
			t.Errorf("%s: the agent is told %+v", kind, b)
		}
	}
}

// One that is being deleted when its status is garbled is deleted as ever, with all that it
// has deployed; where nobody knows what that is, it stays.
func TestGarbledStatusesOfWhatIsDeleted(t *testing.T) {
	d := newDesk(t)
	d.everything()
	d.garble(ledger.Ref{Kind: "deployment", ID: "uid-1"}, false)
	in := d.manual()
	in.Gone, in.Held = true, true
	d.must(d.s.IntendDeployment(context.Background(), in))
	d.work(time.Second)
	if it, ok := d.item("hub", "uid-1"); !ok || !it.Delete {
		t.Fatalf("the agent is told %+v, %v", it, ok)
	}
	d.garble(ledger.Ref{Kind: "deployment", ID: "uid-1"}, false)
	d.store.forgets = true
	if err := d.s.Resync(context.Background(), "deployment", "uid-1"); err == nil || d.mirror.released["uid-1"] {
		t.Errorf("it is taken for gone: %v", err)
	}
	d.store.forgets = false
	d.must(d.s.Resync(context.Background(), "deployment", "uid-1"))
	d.work(time.Second)
	d.report("hub", "uid-1", runtime.Deleted, nil)
	d.work(time.Second)
	if o := d.object(ledger.Ref{Kind: "deployment", ID: "uid-1"}); o.Deleted.IsZero() || !d.mirror.released["uid-1"] {
		t.Errorf("it is %s", o.Phase)
	}
}

// Nobody works on workspaces: one that is put right has what is in it looked at, and
// leaves no work that nobody would ever take.
func TestAGarbledWorkspaceLeavesNoWorkOfItsOwn(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	ref := ledger.Ref{Kind: "workspace", ID: "ns-1"}
	o := y.object(ref)
	y.write(o, map[string]any{"reach": "everywhere"}, ledger.Wake{Ref: ledger.Ref{Kind: "deployment", ID: "uid-1"}, Org: o.Org})
	y.work(time.Second)
	if _, err := gitops.DecodeWorkspace(y.object(ref)); err != nil {
		t.Fatalf("it was not put right: %v", err)
	}
	work, err := y.store.Claim(context.Background(), ledger.ClaimRequest{Holder: "test", Kinds: []string{"workspace"}, Limit: 8, Lease: time.Second})
	if err != nil || len(work.Work) > 0 {
		t.Errorf("work is left: %+v, %v", work.Work, err)
	}
}
