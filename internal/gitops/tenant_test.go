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

// list is a deny list of organisations.
type list map[string]bool

func (l list) Barred(org string) bool { return l[org] }

// listed wakes what a change of the list is about, as the list's reconciler does.
func (d *desk) listed(org string) {
	d.t.Helper()
	for after := ""; ; {
		wakes, next, err := d.s.OfOrg(context.Background(), org, after, 1)
		d.must(err)
		if len(wakes) > 0 {
			_, err = d.store.Commit(context.Background(), ledger.Set{Actor: "system", Cause: "schedule:test", Wakes: wakes})
			d.must(err)
		}
		if next == "" || next <= after {
			return
		}
		after = next
	}
}

// What is intended for an organisation that may not is written down with the reason, of
// each kind; what runs goes on; all of it goes on by itself once it may again.
func TestTheTenantMay(t *testing.T) {
	d := newDesk(t)
	deny := list{"main/shop": true}
	d.s.Tenants = deny
	const why = "may not have anything deployed: ask your operator"
	told := func(uid string) string {
		switch v := d.mirror.told[uid].(type) {
		case gitops.RepositoryView:
			return strings.Join(lines(v.Conditions), "; ")
		case gitops.TargetView:
			return strings.Join(lines(v.Conditions), "; ")
		case gitops.SyncRunView:
			return v.Phase + " " + strings.Join(lines(v.Conditions), "; ")
		case gitops.DeploymentView:
			return strings.Join(lines(v.Conditions), "; ")
		}
		return ""
	}
	d.intendRepository(d.credential("c-1", 1, password("bot", "t0k3n")))
	d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("t0k3n"))))
	d.apply(d.manual())
	run := d.runIntent("r-1")
	d.ask(run)
	d.work(soon)
	for uid, want := range map[string]string{
		"uid-1": "ErrorOccurred True ErrorOccurred: ", "r-1": "Waiting ErrorOccurred True ErrorOccurred: ",
		"c-1": "ErrorOccurred True NotPermitted: ", "t-1": "ConnectionInitializationSucceeded False NotPermitted: ",
	} {
		if got := told(uid); !strings.HasPrefix(got, want) || !strings.Contains(got, why) {
			t.Errorf("%s: %s; want %s", uid, got, want)
		}
	}
	if len(d.gate.asked)+len(d.remote.checked) > 0 || len(gitops.DesiredItems(d.get("uid-1").Object)) > 0 {
		t.Error("something was done for it")
	}
	commits := d.store.commits
	d.work(time.Hour)
	if d.store.commits != commits {
		t.Errorf("%d commits at rest", d.store.commits-commits)
	}

	deny["main/shop"] = false
	d.listed("main/shop")
	d.work(soon)
	for uid, want := range map[string]string{"c-1": "ErrorOccurred False RepositoryCredentialUpToDate", "t-1": "ConnectionInitializationSucceeded True Succeeded", "uid-1": "ErrorOccurred False ErrorOccurredResolved", "r-1": "Running "} {
		if got := told(uid); !strings.HasPrefix(got, want) {
			t.Errorf("it may again, and %s says %s; want %s", uid, got, want)
		}
	}

	// What runs goes on: with its item, its credential, its sync run; and goes when it is deleted.
	was, ok := d.item("hub", "uid-1")
	deny["main/shop"] = true
	d.listed("main/shop")
	d.work(soon)
	if is, there := d.item("hub", "uid-1"); !ok || !there || is != was || !d.repository("c-1").Status.Valid || d.repository("c-1").Status.Good == nil || d.target("t-1").Status.Access == nil {
		t.Errorf("what runs became %+v", is)
	}
	d.syncs("r-1", "Succeeded", "")
	if got := told("r-1"); !strings.HasPrefix(got, "Succeeded ") {
		t.Errorf("the run that was under way: %s", got)
	}
	in := d.manual()
	in.Generation, in.Gone = 2, true
	d.apply(in)
	d.work(soon)
	d.report("hub", "uid-1", runtime.Deleted, nil)
	d.work(soon)
	if d.get("uid-1").Object.Deleted.IsZero() {
		t.Error("it cannot be deleted")
	}
	d.operationsEnded()
}
