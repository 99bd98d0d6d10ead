package gitops_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// document is the spec of an object as the ledger has it.
func (y *yard) document(ref ledger.Ref) (out map[string]any) {
	y.t.Helper()
	o, err := y.store.Get(context.Background(), ref)
	y.must(err)
	y.must(json.Unmarshal(o.Spec, &out))
	return out
}

// tamper changes a spec as nobody of ours does; a value of nil takes it away.
func (y *yard) tamper(ref ledger.Ref, field string, value any) {
	y.t.Helper()
	o, err := y.store.Get(context.Background(), ref)
	y.must(err)
	spec := y.document(ref)
	if spec[field] = value; value == nil {
		delete(spec, field)
	}
	o.Spec, err = json.Marshal(spec)
	y.must(err)
	_, err = y.store.Commit(context.Background(), ledger.Set{Actor: "somebody", Cause: "request:1", Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}})
	y.must(err)
}

// asks is what the ledger is known to have of an object.
func (y *yard) asks(ref ledger.Ref) string {
	y.t.Helper()
	known, err := y.s.KnownOf(context.Background(), "main", ref.Kind, "", 10)
	y.must(err)
	if len(known) != 1 || known[0].UID != ref.ID {
		y.t.Fatalf("known are %v", known)
	}
	return known[0].Asks
}

// Whatever somebody changes of what a custom resource asks for is seen by the digest,
// and the same intent once more puts it right.
func TestWhatSomebodyChangedIsPutRight(t *testing.T) {
	type wish interface{ Asks() string }
	type change struct {
		field string
		value any
	}
	origin := map[string]any{"home": "main", "namespace": "shop", "name": "another", "generation": 1}
	for _, c := range []struct {
		kind    string
		hand    func(d *desk) wish
		changes []change
	}{
		{"deployment", func(d *desk) wish {
			in := d.intent("uid", 1)
			d.apply(in)
			return in
		}, []change{{"path", "elsewhere"}, {"repository", "https://evil.example.org/a"}, {"revision", nil}, {"automated", false}, {"sync_options", []string{"Prune=true"}},
			{"to", map[string]any{"namespace": "kube-system"}}, {"operator", true}, {"invalid", "no"}}},
		{"deployment", func(d *desk) wish { // one that was refused as a new one
			in := d.intent("uid", 1)
			in.Environment, in.ToNamespace = "prod", "No Way"
			d.apply(in)
			return in
		}, []change{{"invalid", nil}}},
		{"syncrun", func(d *desk) wish {
			in := d.runIntent("uid")
			d.ask(in)
			return in
		}, []change{{"deployment", "another"}, {"revision", "c0ffee"}, {"prune", true}, {"invalid", "no"}}},
		{"repository", func(d *desk) wish {
			in := d.credential("uid", 1, password("reader", "s3cr3t"))
			d.intendRepository(in)
			return in
		}, []change{{"url", "https://evil.example.org/a"}, {"secret", "other"}, {"username", "root"}, {"problem", "SecretNotFound"}, {"password", nil}, {"password", "x"}, {"known_hosts", "x"}, {"seal", "x"}}},
		{"target", func(d *desk) wish {
			in := d.environment("uid", 1, environmentSecret(withToken("t0k3n")))
			in.Namespaces = []string{"shop"}
			d.intendTarget(in)
			return in
		}, []change{{"url", "https://evil.example.org"}, {"secret", "other"}, {"insecure", true}, {"new_account", true}, {"namespaces", nil}, {"cluster_resources", true}, {"problem", "SecretNotFound"}, {"seal", "x"}}},
	} {
		d := newDesk(t)
		ref := ledger.Ref{Kind: c.kind, ID: "uid"}
		in := c.hand(d)
		right := d.document(ref)
		for _, change := range c.changes {
			if got := d.asks(ref); got != in.Asks() {
				t.Fatalf("%s: known is %s, asked for %s", c.kind, got, in.Asks())
			}
			d.tamper(ref, change.field, change.value)
			if d.asks(ref) == in.Asks() {
				t.Errorf("%s: that %s was changed is not seen", c.kind, change.field)
			}
			c.hand(d)
			got := d.document(ref)
			if c.kind == "repository" && change.field == "password" { // it is sealed anew
				delete(got, "password")
				delete(right, "password")
				for _, of := range []string{"digest", "seal"} {
					right[of] = got[of]
				}
			}
			if was := right["invalid"]; was != nil && got["invalid"] != nil { // said of one that is known by now
				right["invalid"] = got["invalid"]
			}
			if diff := cmp.Diff(right, got); diff != "" {
				t.Errorf("%s: %s is not put right: %s", c.kind, change.field, diff)
			}
			right = d.document(ref)
		}
		d.tamper(ref, "origin", origin)
		c.hand(d)
		if diff := cmp.Diff(right, d.document(ref)); diff != "" {
			t.Errorf("%s: its name is not put right: %s", c.kind, diff)
		}
		calls := d.store.commits
		if c.hand(d); d.store.commits != calls {
			t.Errorf("%s: the same intent has written", c.kind)
		}
	}
}

// A sync run that was refused a change is what it was made with, which its resource no
// longer says; a later one that changes nothing of that is compared as before.
func TestChangedSyncRunsAreNotTakenForTamperedOnes(t *testing.T) {
	d := newDesk(t)
	ref := ledger.Ref{Kind: "syncrun", ID: "uid"}
	in := d.runIntent("uid")
	d.ask(in)
	in.Generation, in.Revision = 2, "another"
	d.ask(in)
	if got := d.asks(ref); got != "" {
		t.Errorf("known is %q", got)
	}
	before := d.document(ref)
	d.ask(in)
	if diff := cmp.Diff(before, d.document(ref)); diff != "" {
		t.Error(diff)
	}
	in = d.runIntent("uid")
	in.Generation, in.Prune = 3, !in.Prune
	d.ask(in)
	if d.asks(ref) != in.Asks() {
		t.Error("one that says what it said before is not known")
	}
	if run := d.syncrun("uid"); run.Spec.Prune == in.Prune || run.Spec.Invalid != "" {
		t.Errorf("it is %+v", run.Spec)
	}
}

// A sync run that has ended, and that the ledger has lost, is not carried out again: what
// it brought may be long out of date.
func TestEndedSyncRunsAreNotCarriedOutAgain(t *testing.T) {
	for phase, want := range map[string]string{"Succeeded": gitops.Succeeded, "Failed": gitops.RunFailed, "Terminated": gitops.Terminated, "Running": gitops.Running, "": gitops.Running} {
		y := newYard(t)
		y.apply(y.manual())
		y.work(time.Second)
		y.report("hub", "uid-1", runtime.Ready, fine("c1"))
		in := y.runIntent("run")
		in.Phase = phase
		y.ask(in)
		y.work(time.Minute)
		ended := want != gitops.Running
		if got := y.syncrun("run").Phase; got != want || (y.body("hub", "uid-1").Sync == nil) != ended || (len(y.operationsAbout("run")) == 0) != ended {
			t.Errorf("one that was told %q is %s, asked for by %+v, told by %d operations", phase, got, y.body("hub", "uid-1").Sync, len(y.operationsAbout("run")))
		}
		if _, told := y.mirror.told["run"]; told == ended {
			t.Errorf("one that was told %q is told anew: %v", phase, told)
		}
		y.moves()
	}
}

// What is cut to fit is the same when it is told again: nothing was changed, by anybody.
func TestLongRevisionsAreNoChange(t *testing.T) {
	d := newDesk(t)
	in := d.runIntent("uid")
	in.Revision = strings.Repeat("a", 300)
	d.ask(in)
	in.Held = !in.Held
	d.ask(in)
	if run := d.syncrun("uid"); run.Spec.Invalid != "" || d.asks(ledger.Ref{Kind: "syncrun", ID: "uid"}) != in.Asks() {
		t.Errorf("it is %+v", run.Spec)
	}
}
