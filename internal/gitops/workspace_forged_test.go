package gitops_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
)

// What the ledger has of a namespace is what the namespace is, and is told where somebody
// else has written it, by the comparison or by the next intent, whichever comes first. What
// an operator said of it stays.
func TestForgedWorkspacesArePutRight(t *testing.T) {
	ref := ledger.Ref{Kind: "workspace", ID: "ns-1"}
	for what, forgery := range map[string]func(y *yard, o *ledger.Object, spec map[string]any){
		"of another home":      func(_ *yard, _ *ledger.Object, spec map[string]any) { spec["home"] = "other" },
		"of another namespace": func(_ *yard, _ *ledger.Object, spec map[string]any) { spec["namespace"] = "kube-system" },
		"another engine":       func(_ *yard, _ *ledger.Object, spec map[string]any) { spec["engine"] = "far" },
		"a reach": func(_ *yard, _ *ledger.Object, spec map[string]any) {
			spec["reach"] = []map[string]any{{"cluster": "*", "namespaces": []string{"*"}}}
		},
		"cluster resources": func(_ *yard, _ *ledger.Object, spec map[string]any) { spec["cluster_resources"] = true },
		"unreadable":        func(_ *yard, _ *ledger.Object, spec map[string]any) { spec["reach"] = "everywhere" },
		"another's":         func(_ *yard, o *ledger.Object, _ map[string]any) { o.Org = "other" },
		"another name":      func(_ *yard, o *ledger.Object, _ map[string]any) { o.Name = "kube-system" },
		"gone":              func(y *yard, o *ledger.Object, _ map[string]any) { o.Deleted = y.clock },
	} {
		for by, heal := range map[string]func(y *yard) error{
			"the comparison": func(y *yard) error {
				return y.s.IntendWorkspace(context.Background(), y.intent("uid-1", 1).Namespace)
			},
			"an intent": func(y *yard) error {
				return y.s.IntendDeployment(context.Background(), y.intent("uid-1", 1))
			},
		} {
			y := newYard(t)
			y.engines.by["far"] = gitops.Engine{ID: "far", Runtime: "argocd", Ready: true}
			in := y.intent("uid-1", 1)
			y.apply(in)
			y.work(time.Second)
			right, spec := y.object(ref), y.document(ref)
			if has, ok := y.knownWorkspace(); !ok || has.Asks != in.Namespace.Asks() {
				t.Fatalf("what was just written is found to be %+v", has)
			}
			y.forge(ref, func(o *ledger.Object, spec map[string]any) { forgery(y, o, spec) })
			y.work(time.Second)
			if has, ok := y.knownWorkspace(); ok && has.Asks == in.Namespace.Asks() {
				t.Errorf("%s: nobody sees that it was changed", what)
			}

			away, missing := in.Namespace, in.Namespace
			away.Terminating, missing.Missing = true, true
			y.must(y.s.IntendWorkspace(context.Background(), away))
			y.must(y.s.IntendWorkspace(context.Background(), missing))
			if len(y.mirror.mended) > 0 {
				t.Errorf("%s: a namespace that is going has put it right", what)
			}
			y.must(heal(y))
			y.work(time.Second)
			o := y.object(ref)
			if o.Org != right.Org || o.Name != right.Name || !o.Deleted.IsZero() || o.Fields["home"] != "main" {
				t.Errorf("%s, by %s: it is %+v", what, by, o)
			}
			if diff := cmp.Diff(spec, y.document(ref)); diff != "" {
				t.Errorf("%s, by %s: %s", what, by, diff)
			}
			if diff := cmp.Diff([]string{"ns-1"}, y.mirror.mended); diff != "" {
				t.Errorf("%s, by %s: it is told: %s", what, by, diff)
			}
			if it, ok := y.item("hub", "uid-1"); !ok || it.Delete {
				t.Errorf("%s, by %s: the agent is told %+v, %v", what, by, it, ok)
			}
			calls := y.store.commits
			if y.must(heal(y)); y.store.commits != calls {
				t.Errorf("%s, by %s: the same again has written", what, by)
			}
		}
	}
}

// What a namespace is called by its labels is no forgery, and neither is what a version
// before has written, or an operator. Nothing comes of a namespace in which nothing is.
func TestWorkspacesThatNobodyForged(t *testing.T) {
	y := newYard(t)
	in := y.intent("uid-1", 1)
	ns := in.Namespace
	y.must(y.s.IntendWorkspace(context.Background(), ns))
	if _, ok := y.knownWorkspace(); ok {
		t.Error("an empty namespace is a workspace")
	}
	y.apply(in)
	y.work(time.Second)
	ns.Org = "acme"
	y.must(y.s.IntendWorkspace(context.Background(), ns))
	if has, _ := y.knownWorkspace(); has.Asks != ns.Asks() {
		t.Error("its label is not followed")
	}
	ref := ledger.Ref{Kind: "workspace", ID: "ns-1"}
	y.forge(ref, func(_ *ledger.Object, spec map[string]any) { // as before there was a seal
		delete(spec, "seal")
		spec["cluster_resources"] = true
	})
	calls := y.store.commits
	y.must(y.s.IntendWorkspace(context.Background(), ns))
	if has, _ := y.knownWorkspace(); has.Asks != ns.Asks() || y.store.commits != calls+1 {
		t.Errorf("it is not sealed: %+v", has)
	}
	if spec := y.document(ref); spec["cluster_resources"] != true {
		t.Error("what the operator said is lost")
	}
	if len(y.mirror.mended) > 0 {
		t.Error("somebody is accused")
	}
}

func (y *yard) object(ref ledger.Ref) ledger.Object {
	y.t.Helper()
	o, err := y.store.Get(context.Background(), ref)
	y.must(err)
	return o
}

func (y *yard) knownWorkspace() (gitops.Known, bool) {
	y.t.Helper()
	all, err := y.s.KnownOf(context.Background(), "main", "workspace", "", 10)
	y.must(err)
	for _, k := range all {
		if k.UID == "ns-1" {
			return k, true
		}
	}
	return gitops.Known{}, false
}
