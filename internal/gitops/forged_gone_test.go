package gitops_test

import (
	"context"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// A resource that is deleted before its forged row was put right is gone for good, with all
// that came of it, whether or not its namespace is still there: it is not tried for ever.
func TestForgedRowsOfResourcesThatAreDeleted(t *testing.T) {
	origin := func(spec map[string]any) map[string]any { of, _ := spec["origin"].(map[string]any); return of }
	for what, forgery := range map[string]func(d *desk, o *ledger.Object, spec map[string]any){
		"nobody's":          func(_ *desk, _ *ledger.Object, spec map[string]any) { delete(spec, "origin") },
		"of another home":   func(_ *desk, _ *ledger.Object, spec map[string]any) { origin(spec)["home"] = "other" },
		"of one that is":    func(_ *desk, _ *ledger.Object, spec map[string]any) { origin(spec)["home"] = "second" },
		"a later one":       func(_ *desk, _ *ledger.Object, spec map[string]any) { origin(spec)["generation"] = 7 },
		"unreadable":        func(_ *desk, _ *ledger.Object, spec map[string]any) { spec["deleted"] = "perhaps" },
		"deleted":           func(_ *desk, _ *ledger.Object, spec map[string]any) { spec["deleted"] = true },
		"a row that is not": func(d *desk, o *ledger.Object, _ map[string]any) { o.Deleted = d.clock },
	} {
		for _, left := range []string{"held back", "gone", "gone with its namespace"} {
			d := newDesk(t)
			d.everything()
			d.must(d.s.AdmitHome(context.Background(), "second", "its first namespace"))
			part := func(in gitops.Intent) gitops.Intent {
				in = gitops.Intent{Namespace: in.Namespace, Name: in.Name, UID: in.UID, Gone: true, Held: left == "held back"}
				if left == "gone with its namespace" {
					in.Namespace = gitops.Namespace{Home: "main", Name: "shop", Missing: true}
				}
				return in
			}
			hands := map[string]func() error{
				"deployment": func() error {
					return d.s.IntendDeployment(context.Background(), gitops.DeploymentIntent{Intent: part(d.intent("uid-1", 1).Intent)})
				},
				"syncrun": func() error {
					return d.s.IntendSyncRun(context.Background(), gitops.SyncRunIntent{Intent: part(d.runIntent("run").Intent)})
				},
				"repository": func() error {
					return d.s.IntendRepository(context.Background(), gitops.RepositoryIntent{Intent: part(d.credential("cred", 1, nil).Intent)})
				},
				"target": func() error {
					return d.s.IntendTarget(context.Background(), gitops.TargetIntent{Intent: part(d.environment("env", 1, nil).Intent)})
				},
			}
			for _, kind := range []string{"syncrun", "deployment", "repository", "target"} {
				ref := ledger.Ref{Kind: kind, ID: everyID[kind]}
				o := d.object(ref)
				spec := d.document(ref)
				forgery(d, &o, spec)
				d.write(o, spec) // and nobody looks at it
				if err := hands[kind](); err != nil {
					t.Errorf("%s, %s, %s: %v", kind, what, left, err)
				}
				d.work(time.Second)
				switch kind {
				case "syncrun":
					d.syncs("run", "Terminated", "")
				case "deployment":
					if it, ok := d.item("hub", "uid-1"); !ok || !it.Delete {
						t.Fatalf("%s, %s: the agent is told %+v, %v", what, left, it, ok)
					}
					d.report("hub", "uid-1", runtime.Deleted, nil)
				}
				d.work(time.Hour)
				if o := d.object(ref); o.Deleted.IsZero() {
					t.Errorf("%s, %s, %s: it is %s", kind, what, left, o.Phase)
				}
				if err := hands[kind](); err != nil {
					t.Errorf("%s, %s, %s, once more: %v", kind, what, left, err)
				}
			}
			if left == "held back" && !d.mirror.released["uid-1"] {
				t.Errorf("%s: its resource is held for ever", what)
			}
		}
	}
}

// What is in a namespace of another home is not removed by the word of a home that has been
// written into its row, nor is what nobody's namespace was.
func TestARowOfAnotherNamespaceIsNotRemoved(t *testing.T) {
	y := newYard(t)
	y.must(y.s.AdmitHome(context.Background(), "other", "its first namespace"))
	y.must(y.s.AdmitHome(context.Background(), "main", "the first namespace"))
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	ref := ledger.Ref{Kind: "deployment", ID: "uid-1"}
	y.forge(ref, func(_ *ledger.Object, spec map[string]any) { spec["origin"].(map[string]any)["home"] = "other" })
	for reason, ns := range map[string]gitops.Namespace{
		"the home that it seems to be of": {Home: "other", Name: "shop", UID: "ns-1", Missing: true},
		"another namespace":               {Home: "main", Name: "web", UID: "ns-2"},
		"another namespace that is gone":  {Home: "main", Name: "web", Missing: true},
	} {
		in := gitops.DeploymentIntent{Intent: gitops.Intent{Namespace: ns, Name: "web", UID: "uid-1", Gone: true}}
		if err := y.s.IntendDeployment(context.Background(), in); fault.Reason(err) != "stranger" {
			t.Errorf("by %s: %v", reason, err)
		}
		if d := y.get("uid-1"); d.Spec.Deleted {
			t.Fatalf("by %s: it is removed", reason)
		}
	}
	y.mirror.stands = map[string]int64{"uid-1": 1}
	y.apply(y.intent("uid-1", 1))
	if d := y.get("uid-1"); d.Spec.Origin.Home != "main" || len(y.mirror.mended) != 1 {
		t.Errorf("it is %+v, told %v", d.Spec.Origin, y.mirror.mended)
	}
}
