package account_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sso"
)

// tidy checks what must hold when everything has settled: the identity provider
// has the clients of the ready accounts, with their secrets, and no other; and
// the counter of the organisation is their number.
func (w *world) tidy(t *testing.T, tenants int64) {
	t.Helper()
	want := map[string]string{}
	var alive int64
	for _, o := range w.objects(t) {
		var spec account.Spec
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			t.Fatal(err)
		}
		if o.Phase == account.Deleted {
			if _, err := w.ledger.Unseal(t.Context(), spec.Secret); err == nil {
				t.Errorf("the secret of a deleted account is still there")
			}
			continue
		}
		if o.Phase != account.Ready || spec.Next != "" {
			t.Errorf("%s is %s (reset: %v)", o.Name, o.Phase, spec.Next != "")
			continue
		}
		secret, err := w.ledger.Unseal(t.Context(), spec.Secret)
		if err != nil {
			t.Errorf("the secret of %s is lost: %v", o.Name, err)
		}
		want[spec.Client] = string(secret)
		if spec.Use == "tenant" {
			alive++
		}
	}
	got := map[string]string{}
	for id, c := range w.idp.all() {
		got[id] = c.Secret
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the identity provider against the ledger (-ledger +provider):\n%s", diff)
	}
	count, err := w.ledger.Counter(t.Context(), "serviceaccounts/org/acme")
	if err != nil || count != tenants || alive != tenants {
		t.Errorf("%d accounts, counted as %d (%v), want %d", alive, count, err, tenants)
	}
}

// TestCrashes kills the process after each of its commits in turn, with a
// provider that fails now and then, and lets two others clean up.
func TestCrashes(t *testing.T) {
	for _, share := range []float64{0, 0.2} {
		for commits := 1; ; commits++ {
			if commits > 60 {
				t.Fatal("the story has no end")
			}
			ended := false
			t.Run(fmt.Sprintf("%.1f/%d", share, commits), func(t *testing.T) {
				w := newWorld(t)
				w.idp.fail(share)
				p := w.start(commits)
				known, gone := tell(t, p)
				ended = p.alive() == nil
				w.work(t, w.start(-1), w.start(-1))
				w.idp.fail(0)
				w.work(t, w.start(-1), w.start(-1))
				check(t, w, known, gone)
			})
			if ended {
				break
			}
		}
	}
}

// tell does a bit of everything until the process dies. It returns what the
// callers were told: the secrets that must work, and the clients that must not.
func tell(t *testing.T, p *process) (known map[string]string, gone []string) {
	known = map[string]string{}
	ctx := as(t.Context(), "mary", "acme")
	var made []account.Account
	for i := range 3 {
		if a, err := p.Create(ctx, name(i), ""); err == nil {
			made = append(made, a)
			known[a.ClientID] = a.Secret
		}
	}
	for i, a := range made {
		if i == 0 {
			if err := p.Delete(ctx, a.ID); err == nil {
				delete(known, a.ClientID)
				gone = append(gone, a.ClientID)
			} else {
				delete(known, a.ClientID) // it may be gone or not: nobody was told
			}
			continue
		}
		b, err := p.Reset(ctx, a.ID)
		switch {
		case err == nil:
			known[a.ClientID] = b.Secret
		case p.alive() != nil:
			delete(known, a.ClientID) // the outcome is not known
		}
	}
	for _, cluster := range []string{"c-1", "c-2"} {
		if id, secret, err := p.EnsureAgent(t.Context(), cluster); err == nil {
			known[id] = secret
		}
		if id, secret, err := p.EnsureLogin(t.Context(), cluster, "https://"+cluster+".example.org/callback"); err == nil {
			known[id] = secret
		}
	}
	if id, _, err := p.EnsureAgent(t.Context(), "c-1"); err == nil {
		delete(known, id)
		if p.RemoveAgent(t.Context(), "c-1") == nil {
			gone = append(gone, id)
		}
	}
	return known, gone
}

func check(t *testing.T, w *world, known map[string]string, gone []string) {
	t.Helper()
	clients := w.idp.all()
	for id, secret := range known {
		if clients[id].Secret != secret {
			t.Errorf("an account that was handed out is lost: %s is there: %v", id, clients[id].ID != "")
		}
	}
	for _, id := range gone {
		if _, there := clients[id]; there {
			t.Errorf("a deleted account still works: %s", id)
		}
	}
	var tenants int64
	for _, o := range w.objects(t) {
		if o.Fields["use"] == "tenant" && o.Phase == account.Ready {
			tenants++
		}
	}
	w.tidy(t, tenants)
}

func TestAgents(t *testing.T) {
	w := newWorld(t)
	one, two := w.start(-1), w.start(-1)
	id, secret, err := one.EnsureAgent(t.Context(), "c-1")
	if err != nil {
		t.Fatal(err)
	}
	again, same, err := two.EnsureAgent(t.Context(), "c-1")
	if err != nil || again != id || same != secret {
		t.Errorf("the account is not stable: %s, %s, %v", id, again, err)
	}
	callback, _, err := one.EnsureLogin(t.Context(), "c-1", "https://a.example.org/cb")
	if err != nil {
		t.Fatal(err)
	}
	if moved, _, err := two.EnsureLogin(t.Context(), "c-1", "https://b.example.org/cb"); err != nil || moved != callback {
		t.Errorf("the login is not stable: %s, %s, %v", callback, moved, err)
	}
	got := w.idp.all()
	want := sso.Client{
		ID: id, Secret: secret, Name: "agent-c-1", Description: "agent of cluster c-1",
		Claims: map[string]string{"fleetshard-operator-cluster-id": "c-1"}, Roles: []string{access.RoleAgent},
	}
	if diff := cmp.Diff(want, got[id]); diff != "" {
		t.Errorf("the agent's client (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"https://b.example.org/cb"}, got[callback].Redirects); diff != "" {
		t.Errorf("the login's redirects (-want +got):\n%s", diff)
	}
	w.idp.fail(1)
	if _, _, err := one.EnsureAgent(t.Context(), "c-2"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without the provider: %v", err)
	}
	w.idp.fail(0)
	w.work(t, two)
	if _, err := w.ledger.Lookup(t.Context(), ledger.Name{Space: "serviceaccount/agent", Name: "c-2"}); err != nil || len(w.idp.all()) != 3 {
		t.Errorf("the loop did not finish the agent's account: %v, %d clients", err, len(w.idp.all()))
	}
	for range 2 {
		for _, err := range []error{one.RemoveAgent(t.Context(), "c-1"), one.RemoveAgent(t.Context(), "c-2"), one.RemoveLogin(t.Context(), "c-1")} {
			if err != nil {
				t.Errorf("remove: %v", err)
			}
		}
	}
	if fresh, _, err := one.EnsureAgent(t.Context(), "c-1"); err != nil || fresh == id {
		t.Errorf("a cluster that comes back has a new account: %s, %v", fresh, err)
	}
	w.work(t, one, two)
	if n := len(w.idp.all()); n != 1 {
		t.Errorf("%d clients are left, want 1", n)
	}
	w.tidy(t, 0)
	w.silent(t, secret)
}
