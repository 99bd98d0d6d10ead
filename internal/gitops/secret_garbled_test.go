package gitops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
)

// scribble has somebody else put references among those of an object to be destroyed.
func (d *desk) scribble(ref ledger.Ref, refs ...string) {
	d.t.Helper()
	o, err := d.store.Get(context.Background(), ref)
	d.must(err)
	status := map[string]any{}
	d.must(json.Unmarshal(o.Status, &status))
	list := []any{}
	for _, r := range refs {
		list = append(list, gitops.Retired{Ref: r, Since: d.clock})
	}
	old, _ := status["retired"].([]any)
	status["retired"] = append(list, old...)
	o.Status, err = json.Marshal(status)
	d.must(err)
	_, err = d.store.Commit(context.Background(), ledger.Set{Actor: "somebody", Cause: "request:1", Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}})
	d.must(err)
}

// What is no reference is among those to be destroyed, and the one in use is: the first is
// let go and told once, the second stays, and the others go.
func TestAGarbledReferenceIsLetGo(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("gone=%v", gone), func(t *testing.T) {
			d := newDesk(t)
			d.gate.opens = func(source.Location, source.Credential) error { return nil }
			cred, env := ledger.Ref{Kind: "repository", ID: "r-1"}, ledger.Ref{Kind: "target", ID: "t-1"}
			var old []string
			for i := range 2 {
				login, access := d.credential("r-1", 1, password("reader", fmt.Sprint("s3cr3t-", i))), d.environment("t-1", 1, environmentSecret(withToken(fmt.Sprint("t0k3n-", i))))
				d.intendRepository(login)
				d.intendTarget(access)
				d.work(time.Second)
				old = append(old, d.repository("r-1").Spec.Password, d.target("t-1").Spec.Kubeconfig, d.target("t-1").Status.Access.Token)
				if login.Gone, access.Gone = true, true; gone && i == 1 {
					d.intendRepository(login)
					d.intendTarget(access)
					d.work(time.Second)
				}
			}
			used := old[3:]
			if gone {
				used = nil
			}
			old = old[:6-len(used)]
			if d.scribble(cred, "garbled"); !gone {
				d.scribble(cred, used[0])
			}
			if d.scribble(env, "garbled"); !gone {
				d.scribble(env, used[1:]...)
			}
			d.failed = nil
			d.work(26 * time.Hour)
			if r, e := d.repository("r-1").Status.Retired, d.target("t-1").Status.Retired; len(r)+len(e) > 0 {
				t.Errorf("these are still to be destroyed: %v, %v", r, e)
			}
			for _, ref := range old {
				if d.opens(ref) != "shredded" {
					t.Errorf("%s can be opened for ever", ref)
				}
			}
			for _, ref := range used {
				if d.opens(ref) == "shredded" {
					t.Errorf("%s is in use, and was destroyed", ref)
				}
			}
			told := slices.DeleteFunc(d.failed, func(err error) bool { return !fault.Is(err, fault.Invalid) })
			if len(told) != 2 || len(told) != len(d.failed) || strings.Contains(fmt.Sprint(told), "garbled") {
				t.Errorf("it is told as %v", d.failed)
			}
			commits := d.store.commits
			d.work(30 * time.Minute)
			if n := d.store.commits - commits; n > 20 {
				t.Errorf("%d commits at rest", n)
			}
		})
	}
}

// Somebody writes the references of one's secrets into another's row: the other does not
// take them over, whatever becomes of it, and does not destroy them.
func TestASecretOfAnotherIsNotDestroyed(t *testing.T) {
	for _, tc := range []struct {
		reason string
		then   func(d *desk, login gitops.RepositoryIntent, access gitops.TargetIntent)
	}{
		{"it is put right", func(d *desk, login gitops.RepositoryIntent, access gitops.TargetIntent) {
			d.intendRepository(login)
			d.intendTarget(access)
		}},
		{"its Secret is missing then", func(d *desk, login gitops.RepositoryIntent, access gitops.TargetIntent) {
			login.Secret, access.Secret = nil, nil
			d.intendRepository(login)
			d.intendTarget(access)
			d.work(time.Minute)
			access.URL = "https://moved.example.org"
			d.intendTarget(access)
		}},
		{"it is deleted", func(d *desk, login gitops.RepositoryIntent, access gitops.TargetIntent) {
			login.Gone, access.Gone = true, true
			d.intendRepository(login)
			d.intendTarget(access)
		}},
		{"it is used first", func(d *desk, login gitops.RepositoryIntent, access gitops.TargetIntent) {
			d.must(d.s.Resync(context.Background(), "repository", login.UID))
			d.must(d.s.Resync(context.Background(), "target", access.UID))
			d.work(20 * time.Minute)
			d.intendRepository(login)
			d.intendTarget(access)
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			d := newDesk(t)
			d.gate.opens = func(source.Location, source.Credential) error { return nil }
			login, access := d.credential("r-1", 1, password("reader", "the-same")), d.environment("t-1", 1, environmentSecret(withToken("the-same")))
			d.intendRepository(login)
			d.intendTarget(access)
			victim, home := d.credential("r-2", 1, password("reader", "the-same")), d.environment("t-2", 1, environmentSecret(withToken("the-same")))
			victim.Name, home.Name = "victim", "victim"
			d.intendRepository(victim)
			d.intendTarget(home)
			d.work(time.Minute)
			d.tamper(ledger.Ref{Kind: "repository", ID: "r-1"}, "password", d.repository("r-2").Spec.Password)
			d.tamper(ledger.Ref{Kind: "target", ID: "t-1"}, "kubeconfig", d.target("t-2").Spec.Kubeconfig)
			tc.then(d, login, access)
			d.work(time.Minute)
			login.Gone, access.Gone = true, true // in the end, at the latest
			d.intendRepository(login)
			d.intendTarget(access)
			d.work(26 * time.Hour)
			r, tg := d.repository("r-2"), d.target("t-2")
			for _, ref := range []string{r.Spec.Password, tg.Spec.Kubeconfig, tg.Status.Access.Token} {
				if d.opens(ref) == "shredded" {
					t.Errorf("%s is another's, and was destroyed", ref)
				}
			}
			if !r.Status.Valid || !tg.Status.Ready {
				t.Errorf("the other's is %+v and %+v", r.Status, tg.Status)
			}
		})
	}
}

// The last secret of a webhook is garbled: it ends after its hour all the same, and is told once.
func TestAGarbledWebhookSecretIsLetGo(t *testing.T) {
	d := newDesk(t)
	lead := access.With(context.Background(), access.Principal{User: "lead", Org: "acme", OrgAdmin: true})
	for _, rotate := range []bool{false, true} {
		_, err := d.s.WebhookSecret(lead, rotate)
		d.must(err)
	}
	found, err := d.store.List(context.Background(), ledger.Query{Kind: "gitwebhook", Limit: 10})
	d.must(err)
	d.tamper(found[0].Ref, "old", "garbled")
	d.work(26 * time.Hour)
	if got := d.document(found[0].Ref)["old"]; got != nil || len(d.failed) != 1 {
		t.Errorf("%v is left, told by %v", got, d.failed)
	}
}
