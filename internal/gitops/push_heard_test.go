package gitops_test

import (
	"context"
	"strings"
	"testing"
	"time"

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
	earlier := fine("")
	earlier.Sync.Status = "Unknown"
	earlier.History = []runtime.DeployedRevision{{ID: 1, Revision: oldCommit, Repository: shopURL, Deployed: noon, By: "automated"}}
	another := fine("")
	another.History = []runtime.DeployedRevision{{ID: 1, Revision: oldCommit, Repository: "https://git.example.org/spy/own", Deployed: noon, By: "automated"}}
	for _, c := range []struct {
		reason string
		org    string
		seen   *runtime.Deployed
		hears  bool
	}{
		{"nothing was ever read", "", nil, false},
		{"it cannot be read", "", compared(shopURL, "", "Unknown"), false},
		{"an agent that does not say what it has compared", "", fine(oldCommit), false},
		{"what was read is another one", "", compared("https://git.example.org/spy/own", oldCommit, "Synced"), false},
		{"what was deployed is of another one", "", another, false},
		{"it was read", "", compared("https://git.example.org/acme/shop", oldCommit, "OutOfSync"), true},
		{"it was read before", "", earlier, true},
		{"the webhook is the organisation's own", "acme", nil, true},
	} {
		y := newYard(t)
		y.workspace("acme", "hub", "shop")
		d, _, err := y.s.Create(anna, shopOrder())
		y.must(err)
		y.work(time.Second)
		if c.seen != nil {
			y.report("hub", d.ID, runtime.Ready, c.seen)
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
