package gitops_test

import (
	"context"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
)

// A namespace that is given to another organisation takes all that is in it along:
// the one that had it sees nothing of it any more.
func TestANamespaceOfAnotherOrganisation(t *testing.T) {
	y := newYard(t)
	tell := func(org string) {
		t.Helper()
		d, run := y.intent("uid-1", 1), y.runIntent("r1")
		repo := gitops.RepositoryIntent{Intent: d.Intent, URL: "https://git.example.org/acme/shop", SecretName: "s"}
		target := gitops.TargetIntent{Intent: d.Intent, URL: "https://prod:6443", SecretName: "s"}
		repo.UID, target.UID = "cred", "env"
		d.Type = "manual"
		for _, in := range []*gitops.Intent{&d.Intent, &run.Intent, &repo.Intent, &target.Intent} {
			in.Namespace.Org = org
			y.mirror.there[in.UID] = true
		}
		ctx := context.Background()
		y.must(y.s.IntendRepository(ctx, repo)) // what comes first has the workspace along
		y.must(y.s.IntendTarget(ctx, target))
		y.must(y.s.IntendDeployment(ctx, d))
		y.must(y.s.IntendSyncRun(ctx, run))
		y.work(time.Second)
	}
	for _, org := range []string{"", "acme", "other", ""} {
		tell(org)
		want := org
		if org == "" {
			want = "main/shop"
		}
		for kind, id := range map[string]string{"workspace": "ns-1", "deployment": "uid-1", "syncrun": "r1", "repository": "cred", "target": "env"} {
			o, err := y.store.Get(context.Background(), ledger.Ref{Kind: kind, ID: id})
			y.must(err)
			if o.Org != want {
				t.Errorf("labelled %q: the %s is of %q", org, kind, o.Org)
			}
		}
		calls := y.store.commits
		tell(org)
		if y.store.commits != calls {
			t.Errorf("labelled %q: the same again has written %d times", org, y.store.commits-calls)
		}
	}
}

func TestWorkspacesOfOperators(t *testing.T) {
	for _, c := range []struct {
		reason    string
		order     gitops.WorkspaceOrder
		name, org string
		kind      fault.Kind
		refused   bool
	}{
		{"named after the organisation", gitops.WorkspaceOrder{Name: "acme", Org: "acme", Engine: "hub"}, "default", "acme", 0, false},
		{"whose it is goes without saying", gitops.WorkspaceOrder{Name: "acme", Engine: "hub"}, "default", "acme", 0, false},
		{"another one", gitops.WorkspaceOrder{Name: "side", Org: "acme"}, "side", "acme", 0, false},
		{"anywhere", gitops.WorkspaceOrder{Name: "acme", Reach: []gitops.Reach{{Cluster: "*", Namespaces: []string{"a-*"}}}}, "default", "acme", 0, false},
		{"nobody's", gitops.WorkspaceOrder{}, "", "", fault.Invalid, true},
		{"no such engine", gitops.WorkspaceOrder{Name: "acme", Engine: "nowhere"}, "", "", fault.NotFound, true},
		{"no such cluster to reach", gitops.WorkspaceOrder{Name: "acme", Reach: []gitops.Reach{{Cluster: "nowhere", Namespaces: []string{"x"}}}}, "", "", fault.NotFound, true},
	} {
		w, err := newYard(t).s.PutWorkspace(chief, c.order)
		if (err != nil) != c.refused || err != nil && !fault.Is(err, c.kind) || w.Name != c.name || w.Org != c.org {
			t.Errorf("%s: %s of %s, %v", c.reason, w.Name, w.Org, err)
		}
	}
}
