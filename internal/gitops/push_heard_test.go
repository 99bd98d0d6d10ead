package gitops_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

const shopURL = "https://git.example.org/acme/shop.git"

// compared is what is seen of a deployment whose repository was compared, or could not be.
func compared(repository, commit, status string) *runtime.Deployed {
	d := fine(commit)
	d.Sync.Status, d.Compared = status, &runtime.Compared{Repository: repository}
	return d
}

// The operators' webhook is for deployments of everybody, and everybody can name a
// repository: only who has read it is told who pushed what. All of them look at once.
func TestWhoHearsOfAPush(t *testing.T) {
	for _, c := range []struct {
		reason string
		org    string // whose webhook it is; empty: that of all
		own    bool   // the cluster is the organisation's own
		seen   []*runtime.Deployed
		hears  bool
	}{
		{"nothing was ever read", "", false, nil, false},
		{"it cannot be read", "", false, []*runtime.Deployed{compared(shopURL, "", "Unknown")}, false},
		{"an agent that does not say what it has compared", "", false, []*runtime.Deployed{fine(oldCommit)}, false},
		{"what was read is another one", "", false, []*runtime.Deployed{compared("https://git.example.org/spy/own", oldCommit, "Synced")}, false},
		{"it was read", "", false, []*runtime.Deployed{compared("https://git.example.org/acme/shop", oldCommit, "OutOfSync")}, true},
		{"it was read before", "", false, []*runtime.Deployed{compared(shopURL, oldCommit, "Synced"), compared(shopURL, "", "Unknown")}, true},
		{"the agent is a tenant's", "", true, []*runtime.Deployed{compared(shopURL, oldCommit, "Synced")}, false},
		{"the webhook is the organisation's own", "acme", false, nil, true},
	} {
		y := newYard(t)
		y.workspace("acme", "hub", "shop")
		if c.own {
			y.engines.by["hub"] = gitops.Engine{ID: "hub", Org: "acme", Runtime: "argocd", Ready: true}
		}
		d, _, err := y.s.Create(anna, shopOrder())
		y.must(err)
		y.work(time.Second)
		for _, seen := range c.seen {
			y.report("hub", d.ID, runtime.Ready, seen)
			y.work(time.Minute)
		}
		y.work(time.Minute)
		before := y.get(d.ID).Status.Refresh
		if n, err := y.s.Pushed(context.Background(), c.org, annsPush); n != 1 || err != nil {
			t.Fatalf("%s: %d, %v", c.reason, n, err)
		}
		changes, err := y.store.Changes(context.Background(), ledger.ChangeQuery{Kind: "deployment", ID: d.ID, Reverse: true, Limit: 1})
		y.must(err)
		now := y.get(d.ID)
		if now.Status.Refresh != before+1 {
			t.Errorf("%s: it is not looked at", c.reason)
		}
		if heard := len(now.Status.Pushes) > 0; heard != c.hears || (changes[0].Cause == byAnn) != c.hears {
			t.Errorf("%s: it has %+v, because of %s", c.reason, now.Status.Pushes, changes[0].Cause)
		}
		if all := string(now.Object.Status); !c.hears && (strings.Contains(all, newCommit) || strings.Contains(all, "by ann")) {
			t.Errorf("%s: it tells %s", c.reason, all)
		}
		if op := y.operationsAbout(d.ID)["push"]; op.ID != "" && !c.hears {
			t.Errorf("%s: there is %+v", c.reason, op)
		}
	}
}

// What was read of another repository says nothing of the one that it names now.
func TestReadsAnotherRepository(t *testing.T) {
	y := newYard(t)
	y.workspace("acme", "hub", "shop")
	o := shopOrder()
	o.Repository = "https://git.example.org/spy/own"
	d, _, err := y.s.Create(anna, o)
	y.must(err)
	y.work(time.Second)
	y.report("hub", d.ID, runtime.Ready, compared(o.Repository, oldCommit, "Synced"))
	y.work(time.Minute)
	url := shopURL
	_, _, err = y.s.Update(anna, d.ID, gitops.Change{Repository: &url})
	y.must(err)
	y.work(time.Minute)
	if n, err := y.s.Pushed(context.Background(), "", annsPush); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if got := y.get(d.ID).Status; len(got.Pushes) > 0 || got.Refresh != 1 {
		t.Errorf("it has heard %+v, and looked %d times", got.Pushes, got.Refresh)
	}
}

// What the control plane reads itself needs nobody's word, whosever the cluster is.
func TestTheControlPlaneReads(t *testing.T) {
	for _, c := range []struct {
		reason string
		err    error
		hears  bool
	}{
		{"it can be read", nil, true},
		{"it cannot", fault.New(fault.Denied, "the repository wants a password"), false},
	} {
		y := newYard(t)
		y.engines.by["bare"] = gitops.Engine{ID: "bare", Org: "acme", Runtime: "kubernetes"}
		y.workspace("acme", "bare", "shop")
		y.hub.heads["main"], y.hub.err = oldCommit, c.err
		y.hub.files[oldCommit] = map[string]string{"k8s/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}
		o := shopOrder()
		o.To.Cluster = "bare"
		d, _, err := y.s.Create(anna, o)
		y.must(err)
		y.work(time.Minute)
		_, err = y.s.Pushed(context.Background(), "", annsPush)
		y.must(err)
		if got := y.get(d.ID).Status; (len(got.Pushes) > 0) != c.hears {
			t.Errorf("%s: it has heard %+v: %s", c.reason, got.Pushes, got.Unread)
		}
	}
}

// One for many clusters has read what one of those that it has made has.
func TestManyHearOfAPush(t *testing.T) {
	for _, hears := range []bool{false, true} {
		y := newYard(t)
		y.engines.by["eu-1"] = gitops.Engine{ID: "eu-1", Runtime: "argocd", Labels: map[string]string{"region": "eu"}}
		_, err := y.s.PutWorkspace(chief, gitops.WorkspaceOrder{Org: "acme", Reach: []gitops.Reach{{Cluster: "*", Namespaces: []string{"shop"}}}})
		y.must(err)
		o := shopOrder()
		o.To = gitops.To{Namespace: "shop", Selector: map[string]string{"region": "eu"}}
		d, _, err := y.s.Create(anna, o)
		y.must(err)
		y.work(time.Minute)
		if hears {
			y.report("eu-1", y.children(d.ID)["eu-1"].ID, runtime.Ready, compared(shopURL, oldCommit, "Synced"))
			y.work(time.Minute)
		}
		_, err = y.s.Pushed(context.Background(), "", annsPush)
		y.must(err)
		if got := y.get(d.ID).Status; (len(got.Pushes) > 0) != hears || got.Refresh != 1 {
			t.Errorf("read %v: %+v, %d", hears, got.Pushes, got.Refresh)
		}
	}
}

// However many pushes come at once, those are remembered whose commits may be deployed;
// the repository is looked at twice.
func TestPushesWithinASecond(t *testing.T) {
	commit := func(n string) string { return strings.Repeat(n, 40) }
	for _, many := range []bool{false, true} {
		y := newYard(t)
		y.workspace("acme", "hub", "shop")
		o := shopOrder()
		if many {
			o.To = gitops.To{Namespace: "shop", Selector: map[string]string{"region": "eu"}}
		}
		d, _, err := y.s.Create(anna, o)
		y.must(err)
		y.work(time.Minute)
		push := func(n string) {
			p := annsPush
			p.After = commit(n)
			_, err := y.s.Pushed(context.Background(), "acme", p)
			y.must(err)
		}
		for _, n := range []string{"1", "2", "3"} {
			push(n)
		}
		calls := y.store.calls
		push("3")
		if y.store.calls != calls {
			t.Error("what is known already is written again")
		}
		var heard []string
		for _, p := range y.get(d.ID).Status.Pushes {
			heard = append(heard, p.Commit[:1])
		}
		if got := strings.Join(heard, ""); got != "123" {
			t.Errorf("many %v: remembered are %s", many, got)
		}
		y.work(time.Minute)
		if got := y.get(d.ID).Status; got.Refresh != 2 || got.Pushed {
			t.Errorf("many %v: it was looked at %d times, again %v", many, got.Refresh, got.Pushed)
		}
	}
}
