package gitops_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func drawEngine(t *rapid.T, id string) *gitops.Engine {
	if !rapid.Bool().Draw(t, id+" is there") {
		return nil
	}
	return &gitops.Engine{
		ID: id, Runtime: rapid.SampledFrom([]string{"argocd", "kubernetes", "process", ""}).Draw(t, "runtime"),
		Leaving: rapid.Bool().Draw(t, "leaving"), Labels: map[string]string{"region": rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region")},
	}
}

func drawDeployment(t *rapid.T) gitops.Deployment {
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	d := gitops.Deployment{Object: ledger.Object{Ref: ledger.Ref{Kind: "deployment", ID: "d"}, Org: "acme", Name: "web", Parent: "ws", Fields: ledger.Fields{"workspace": "ws"}}}
	d.Spec = gitops.Spec{Repository: "https://h/r", Path: "k8s", Automated: flag("automated"), Deleted: flag("deleted"), To: gitops.To{Namespace: "shop"}}
	d.Spec.Keep = flag("keep")
	if flag("invalid") {
		d.Spec.Invalid = "no"
	}
	if flag("from a resource") {
		d.Spec.Origin = &gitops.Origin{Home: "main", Namespace: "shop", Name: "web"}
	}
	switch rapid.IntRange(0, 2).Draw(t, "to") {
	case 1:
		d.Spec.To.Target = "prod"
	case 2:
		d.Spec.To.Selector = map[string]string{"region": "eu"}
	}
	s := &d.Status
	s.Since = noon.Add(-time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
	s.Run = rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "run")
	if s.Run != "" {
		s.Sync = &runtime.SyncRequest{ID: s.Run}
	}
	if flag("placed") {
		s.Engine, s.Runtime, s.Issued, s.Desired, s.Remove = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "engine"), "argocd", 3, "sha256:x", flag("remove")
		if flag("had a target") {
			s.Target, s.Named = "t", rapid.SampledFrom([]string{"prod", "other"}).Draw(t, "target was")
		}
		if flag("observed") {
			s.Observed = &gitops.Observed{Engine: s.Engine, Generation: int64(rapid.IntRange(1, 3).Draw(t, "generation")), State: rapid.SampledFrom([]string{"ready", "deleted", "error", "installing"}).Draw(t, "state")}
		}
	}
	if flag("leaving a copy") {
		s.Leaving = &gitops.Leaving{Engine: "c", Generation: 2}
	}
	return d
}

func drawFacts(t *rapid.T, d gitops.Deployment) gitops.Facts {
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	f := gitops.Facts{Named: flag("named"), Wanted: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "wanted")}
	if !f.Named && flag("rival") {
		f.Rival, f.Dying = "other", flag("dying")
	}
	if flag("workspace") {
		f.Workspace = &gitops.Workspace{Object: ledger.Object{Org: "acme"}, Spec: gitops.WorkspaceSpec{Reach: []gitops.Reach{{Cluster: "*", Namespaces: []string{"shop"}}}}}
	}
	if f.Wanted != "" {
		f.Engine = drawEngine(t, f.Wanted)
	}
	if d.Status.Engine != "" {
		f.Held = drawEngine(t, d.Status.Engine)
	}
	f.Left = drawEngine(t, "c")
	if flag("target") {
		f.Target = &gitops.Target{Spec: gitops.TargetSpec{Deleted: flag("target deleted")}}
		if flag("access") {
			f.Target.Status.Access = &gitops.Access{}
		}
	}
	if flag("next") {
		f.Next = &gitops.SyncRun{Object: ledger.Object{Ref: ledger.Ref{Kind: "syncrun", ID: rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "next run")}}}
		f.Next.Spec.Deleted = flag("next deleted")
	}
	if f.Engine != nil && f.Engine.Runtime == "kubernetes" {
		f.Checkout = &gitops.Checkout{Again: time.Minute}
		if flag("git trouble") {
			f.Checkout.Trouble = "away"
		}
	}
	if len(d.Spec.To.Selector) > 0 {
		f.Known, f.Children, f.Missing = flag("fleet known"), map[string]gitops.Deployment{}, map[string]bool{}
		for i := range rapid.IntRange(0, 4).Draw(t, "fleet") {
			if e := drawEngine(t, fmt.Sprint("e", i)); e != nil && f.Known {
				f.Fleet = append(f.Fleet, *e)
			}
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "children") {
			id := fmt.Sprint("e", i)
			c := gitops.Deployment{Object: ledger.Object{Ref: ledger.Ref{ID: "child-" + id}}}
			c.Spec.To.Cluster, c.Spec.Deleted = id, flag("child deleted")
			f.Children[id] = c
			if flag("missing") {
				f.Missing[id] = true
			}
		}
	}
	return f
}

func find[A gitops.Action](actions []gitops.Action) (a A, ok bool) {
	for _, x := range actions {
		if a, ok := x.(A); ok {
			return a, true
		}
	}
	return a, false
}

func has[A gitops.Action](actions []gitops.Action) bool { _, ok := find[A](actions); return ok }

func TestWhatAPlanNeverDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDeployment(t)
		f := drawFacts(t, d)
		actions := gitops.Plan(d, f, noon)
		if again := gitops.Plan(d, f, noon); !reflect.DeepEqual(actions, again) {
			t.Fatalf("another plan the second time: %v, %v", actions, again)
		}
		takes := has[gitops.Withdraw](actions) || has[gitops.Vanish](actions)
		changes := has[gitops.Render](actions) || has[gitops.Place](actions)
		s := &d.Status
		gone := s.Observed != nil && s.Observed.Engine == s.Engine && s.Observed.State == "deleted" && s.Remove
		late := noon.Sub(s.Since) >= time.Minute
		switch {
		case takes && !d.Spec.Deleted:
			t.Fatalf("it is removed, and nobody asked for that: %v", actions)
		case has[gitops.Retreat](actions) && (f.Engine == nil || !f.Engine.Leaving):
			t.Fatalf("it leaves a cluster that stays: %v", actions)
		case has[gitops.Unplace](actions) && !gone:
			t.Fatalf("a cluster is forgotten that still has something: %v", actions)
		case has[gitops.Vanish](actions) && s.Engine != "" && !gone && (f.Held != nil || !late):
			t.Fatalf("it is forgotten, and its cluster has it: %v", actions)
		case has[gitops.Vanish](actions) && s.Leaving != nil && (f.Left != nil || !late):
			t.Fatalf("it is forgotten, and the cluster before has it: %v", actions)
		case changes && (d.Spec.Deleted || d.Spec.Invalid != "" || f.Engine == nil || f.Engine.Leaving || f.Workspace == nil || f.Rival != ""):
			t.Fatalf("it is handed over, and may not be: %v", actions)
		case has[gitops.Claim](actions) && (f.Named || f.Rival != ""):
			t.Fatalf("a name is claimed that is not free: %v", actions)
		case has[gitops.Oust](actions) && (d.Spec.Origin == nil || f.Dying):
			t.Fatalf("somebody is ousted without a reason: %v", actions)
		}
		if b, ok := find[gitops.Begin](actions); ok && b.Run.ID != s.Run && (d.Spec.Automated || b.Run.Spec.Deleted) {
			t.Fatalf("a run begins that may not: %v", actions)
		}
		if r, ok := find[gitops.Render](actions); ok && r.Detached && (d.Spec.To.Target == "" || s.Target == "" || s.Named != d.Spec.To.Target) {
			t.Fatalf("it is cut off from a target that it never had: %v", actions)
		}
		if g, ok := find[gitops.Gather](actions); ok && !d.Spec.Deleted {
			for _, id := range g.Children {
				checkGathered(t, f, id)
			}
		}
	})
}

// checkGathered fails where a cluster's deployment goes without its cluster having
// said or done anything.
func checkGathered(t *rapid.T, f gitops.Facts, child string) {
	if !f.Known || len(f.Fleet) == 0 {
		t.Fatalf("%s goes, and the fleet is not known", child)
	}
	cluster := child[len("child-"):]
	for _, e := range f.Fleet {
		if e.ID == cluster {
			if !e.Leaving && e.Labels["region"] == "eu" {
				t.Fatalf("%s goes, and its cluster fits", child)
			}
			return
		}
	}
	if !f.Missing[cluster] {
		t.Fatalf("%s goes, because its cluster was not listed", child)
	}
}

// Whatever happens in whatever order: once it is quiet, what is wanted is so.
func TestItComesToRestAsWanted(t *testing.T) {
	few(t, "12")
	rapid.Check(t, func(rt *rapid.T) {
		y := newYard(t)
		in := y.intent("uid-1", 1)
		steps := rapid.IntRange(3, 20).Draw(rt, "steps")
		for range steps {
			switch rapid.IntRange(0, 8).Draw(rt, "step") {
			case 0, 1:
				in.Generation++
				in.Path = rapid.SampledFrom([]string{"a", "b", "", "/"}).Draw(rt, "path")
				in.Type = rapid.SampledFrom([]string{"manual", "automated"}).Draw(rt, "type")
				y.apply(in)
			case 2:
				e := y.engines.by["hub"]
				e.Leaving = !e.Leaving
				y.engines.by["hub"] = gitops.Engine{ID: "hub", Runtime: "argocd", Leaving: e.Leaving}
			case 3:
				delete(y.engines.by, "hub")
			case 4:
				y.engines.away = !y.engines.away
			case 5:
				y.mirror.away = !y.mirror.away
			case 6:
				y.answer("hub", "uid-1", rapid.Bool().Draw(rt, "well"))
			case 7:
				y.store.at = []int{rapid.IntRange(0, 6).Draw(rt, "killed at")}
			case 8:
				y.work(time.Duration(rapid.IntRange(0, 90).Draw(rt, "seconds")) * time.Second)
			}
			at := y.store.at
			y.work(time.Millisecond)
			if len(at) > 0 && len(y.store.at) == len(at) {
				y.store.at = nil // whoever asks is not killed
			}
		}
		y.engines.away, y.mirror.away, y.store.at = false, false, nil
		y.engines.by["hub"] = gitops.Engine{ID: "hub", Runtime: "argocd"}
		in.Generation++
		in.Path = "final"
		y.apply(in)
		for range 4 {
			y.work(11 * time.Minute)
			y.answer("hub", "uid-1", true)
		}
		y.work(time.Second)
		if d := y.get("uid-1"); d.Phase != gitops.Deployed || y.body("hub", "uid-1").Path != "final" || y.told("uid-1").Sync.Status != "Synced" {
			rt.Fatalf("it is %s: %+v", d.Phase, d.Status)
		}
		in.Gone = true
		y.apply(in)
		for range 3 {
			y.work(11 * time.Minute)
			y.answer("hub", "uid-1", true)
		}
		y.work(time.Second)
		if d := y.get("uid-1"); d.Object.Deleted.IsZero() {
			rt.Fatalf("it is left: %s %+v", d.Phase, d.Status)
		}
		y.operationsEnded()
	})
}

// answer is what a working agent says of what it was told.
func (y *yard) answer(cluster, id string, well bool) {
	y.t.Helper()
	if _, err := y.store.Get(y.t.Context(), ledger.Ref{Kind: "deployment", ID: id}); err != nil {
		return
	}
	it, ok := y.item(cluster, id)
	switch {
	case !ok:
	case it.Delete:
		y.report(cluster, id, runtime.Deleted, nil)
	case well:
		y.report(cluster, id, runtime.Ready, fine("c1"))
	default:
		y.report(cluster, id, runtime.Error, nil)
	}
}
