package gitops_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// forge changes a row as nobody of ours does.
func (y *yard) forge(ref ledger.Ref, change func(o *ledger.Object, spec map[string]any)) {
	y.t.Helper()
	o, err := y.store.Get(context.Background(), ref)
	y.must(err)
	spec := y.document(ref)
	change(&o, spec)
	y.write(o, spec, ledger.Wake{Ref: ref, Org: o.Org})
}

// write writes a row with a spec, without the verbs.
func (y *yard) write(o ledger.Object, spec map[string]any, wakes ...ledger.Wake) {
	y.t.Helper()
	var err error
	o.Spec, err = json.Marshal(spec)
	y.must(err)
	_, err = y.store.Commit(context.Background(), ledger.Set{
		Actor: "somebody", Cause: "request:1", Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}, Wakes: wakes,
	})
	y.must(err)
}

// What a row says of its resource's end, generation and origin is not believed where the
// API has the resource, whether or not somebody has acted on it. Without that it is.
func TestForgedRowsArePutRight(t *testing.T) {
	origin := func(spec map[string]any) map[string]any { of, _ := spec["origin"].(map[string]any); return of }
	forgeries := map[string]func(d *desk, o *ledger.Object, spec map[string]any){
		"deleted":           func(_ *desk, _ *ledger.Object, spec map[string]any) { spec["deleted"] = true },
		"a later one":       func(_ *desk, _ *ledger.Object, spec map[string]any) { origin(spec)["generation"] = 7 },
		"nobody's":          func(_ *desk, _ *ledger.Object, spec map[string]any) { delete(spec, "origin") },
		"of another home":   func(_ *desk, _ *ledger.Object, spec map[string]any) { origin(spec)["home"] = "other" },
		"unreadable":        func(_ *desk, _ *ledger.Object, spec map[string]any) { spec["deleted"] = "perhaps" },
		"a row that is not": func(d *desk, o *ledger.Object, _ map[string]any) { o.Deleted = d.clock },
	}
	for _, kind := range []string{"deployment", "syncrun", "repository", "target"} {
		for what, forgery := range forgeries {
			for _, worked := range []bool{false, true} {
				d := newDesk(t)
				ref := ledger.Ref{Kind: kind, ID: "uid"}
				hand := map[string]func() error{
					"deployment": func() error { return d.s.IntendDeployment(context.Background(), d.intent("uid", 1)) },
					"syncrun":    func() error { return d.s.IntendSyncRun(context.Background(), d.runIntent("uid")) },
					"repository": func() error {
						return d.s.IntendRepository(context.Background(), d.credential("uid", 1, password("reader", "s3cr3t")))
					},
					"target": func() error {
						return d.s.IntendTarget(context.Background(), d.environment("uid", 1, environmentSecret(withToken("t0k3n"))))
					},
				}[kind]
				d.must(hand())
				d.work(time.Second)
				right := d.document(ref)
				d.forge(ref, func(o *ledger.Object, spec map[string]any) { forgery(d, o, spec) })
				if worked && what != "unreadable" { // nobody works on that
					d.work(time.Second)
				}
				before, err := d.store.Get(context.Background(), ref)
				d.must(err)

				if err := hand(); !fault.Is(err, fault.Conflict) {
					t.Errorf("%s, %s: without the word of the API: %v", kind, what, err)
				}
				d.mirror.stands = map[string]int64{"uid": 2}
				if err := hand(); !fault.Is(err, fault.Conflict) {
					t.Errorf("%s, %s: an old view: %v", kind, what, err)
				}
				d.mirror.away = true
				if err := hand(); !fault.Is(err, fault.Unavailable) {
					t.Errorf("%s, %s: while the API is away: %v", kind, what, err)
				}
				d.mirror.away = false
				if o, err := d.store.Get(context.Background(), ref); err != nil || o.Version != before.Version || len(d.mirror.mended) > 0 {
					t.Errorf("%s, %s: it was written, or told %v, without a proof: %v", kind, what, d.mirror.mended, err)
				}

				d.mirror.stands["uid"] = 1
				d.must(hand())
				d.work(time.Second)
				o, err := d.store.Get(context.Background(), ref)
				d.must(err)
				if diff := cmp.Diff([]string{"uid"}, d.mirror.mended); diff != "" || !o.Deleted.IsZero() || o.Phase == gitops.Gone || o.Phase == gitops.Deleting {
					t.Errorf("%s, %s, worked on %v: it is %s, deleted %v, told: %s", kind, what, worked, o.Phase, o.Deleted, diff)
				}
				got := d.document(ref)
				for _, sealed := range []string{"password", "kubeconfig", "digest", "seal"} { // anew, where the reference was lost
					delete(got, sealed)
					delete(right, sealed)
				}
				if diff := cmp.Diff(right, got); diff != "" {
					t.Errorf("%s, %s, worked on %v: %s", kind, what, worked, diff)
				}
				calls := d.store.commits
				if d.must(hand()); d.store.commits != calls || len(d.mirror.mended) > 1 {
					t.Errorf("%s, %s: the same intent has written", kind, what)
				}
				d.moves()
			}
		}
	}
}

// A deployment whose row was forged to be deleted goes on as it is, or comes anew once
// what was begun of its removal is over.
func TestForgedDeletionsOfDeploymentsAreTakenBack(t *testing.T) {
	ref := ledger.Ref{Kind: "deployment", ID: "uid-1"}
	for _, c := range []struct {
		reason  string
		until   func(y *yard)
		removed bool // the agent was asked to
	}{
		{"while it is let go of", func(y *yard) {
			y.forge(ref, func(_ *ledger.Object, spec map[string]any) { spec["keep"] = true })
			y.work(time.Second)
			if !y.get("uid-1").Status.Released {
				y.t.Fatal("it is not let go of")
			}
		}, true},
		{"before anybody looked", func(y *yard) {}, false},
		{"while it goes", func(y *yard) { y.work(time.Second) }, true},
		{"once it is gone", func(y *yard) {
			y.work(time.Second)
			y.report("hub", "uid-1", runtime.Deleted, nil)
			y.work(time.Second)
		}, true},
	} {
		y := newYard(t)
		in := y.intent("uid-1", 1)
		y.apply(in)
		y.work(time.Second)
		y.report("hub", "uid-1", runtime.Ready, fine("c1"))
		y.work(time.Second)
		was, _ := y.item("hub", "uid-1")
		y.forge(ref, func(_ *ledger.Object, spec map[string]any) { spec["deleted"] = true })
		c.until(y)
		y.mirror.stands = map[string]int64{"uid-1": 1}
		y.apply(in)
		y.work(time.Second)
		if it, ok := y.item("hub", "uid-1"); ok && it.Delete {
			y.report("hub", "uid-1", runtime.Deleted, nil)
			y.work(time.Minute)
		}
		it, ok := y.item("hub", "uid-1")
		if !ok || it.Delete || it.Generation <= was.Generation && c.removed {
			t.Fatalf("%s: the agent is told %+v, %v, and was %+v", c.reason, it, ok, was)
		}
		y.report("hub", "uid-1", runtime.Ready, fine("c1"))
		y.work(time.Second)
		if d := y.get("uid-1"); d.Phase != gitops.Deployed {
			t.Errorf("%s: it is %s: %s", c.reason, d.Phase, d.Status.Error)
		}
		y.operationsEnded()
		in.Gone = true // and can be deleted, as ever
		y.apply(in)
		y.work(time.Second)
		if it, _ := y.item("hub", "uid-1"); !it.Delete {
			t.Errorf("%s: its real deletion tells the agent %+v", c.reason, it)
		}
		y.moves()
	}
}

// A deletion that comes between the word of the API and the commit is no forgery.
func TestADeletionMeanwhileStands(t *testing.T) {
	y := newYard(t)
	in := y.intent("uid-1", 1)
	y.apply(in)
	y.forge(ledger.Ref{Kind: "deployment", ID: "uid-1"}, func(_ *ledger.Object, spec map[string]any) { spec["origin"].(map[string]any)["generation"] = 7 })
	y.mirror.stands = map[string]int64{"uid-1": 1}
	y.mirror.asked = func() {
		y.mirror.stands = nil
		gone := in
		gone.Gone = true
		y.apply(gone)
	}
	if err := y.s.IntendDeployment(context.Background(), in); fault.Reason(err) != "stale" {
		t.Errorf("it is taken: %v", err)
	}
	if d := y.get("uid-1"); !d.Spec.Deleted || len(y.mirror.mended) > 0 {
		t.Errorf("it is %+v, told %v", d.Spec, y.mirror.mended)
	}
}

// A row of another home that there is, is that home's to stand by.
func TestARowOfAnotherHomeIsLeft(t *testing.T) {
	y := newYard(t)
	in := y.intent("uid-1", 1)
	y.apply(in)
	y.must(y.s.AdmitHome(context.Background(), "other", "its first namespace"))
	workspace := ledger.Ref{Kind: "workspace", ID: "ns-1"}
	y.forge(workspace, func(_ *ledger.Object, spec map[string]any) {
		spec["home"] = "other"
		delete(spec, "seal")
	})
	y.forge(ledger.Ref{Kind: "deployment", ID: "uid-1"}, func(_ *ledger.Object, spec map[string]any) { spec["origin"].(map[string]any)["home"] = "other" })
	y.mirror.stands = map[string]int64{"uid-1": 1}
	if err := y.s.IntendDeployment(context.Background(), in); fault.Reason(err) != "stranger" || len(y.mirror.mended) > 0 {
		t.Errorf("it is taken: %v, told %v", err, y.mirror.mended)
	}
}
