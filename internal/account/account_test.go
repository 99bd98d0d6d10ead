package account_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sso"
)

func TestCreate(t *testing.T) {
	w := newWorld(t)
	p := w.start(-1)
	ctx := as(t.Context(), "mary", "acme")
	made, err := p.Create(ctx, "my-robot", "for tests, mostly")
	if err != nil {
		t.Fatal(err)
	}
	want := sso.Client{
		ID: made.ClientID, Secret: made.Secret, Name: "my-robot", Description: "for tests, mostly",
		Claims: map[string]string{"rh-org-id": "acme", "org_id": "acme", "rh-user-id": "acc-mary", "username": "mary", "preferred_username": "mary"},
	}
	if diff := cmp.Diff(map[string]sso.Client{made.ClientID: want}, w.idp.all()); diff != "" {
		t.Errorf("the identity provider (-want +got):\n%s", diff)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(made.ID) {
		t.Errorf("clients want a UUID, and the id is %q", made.ID)
	}
	if !strings.HasPrefix(made.ClientID, "srvc-acct-") || len(made.ClientID) != 46 || made.Secret == "" || made.Owner != "mary" || made.Org != "acme" || made.Created.IsZero() {
		t.Errorf("created: %+v", made)
	}
	shown := made
	shown.Secret = ""
	for _, id := range []string{made.ID, made.ClientID} {
		got, err := p.Get(ctx, id)
		if diff := cmp.Diff(shown, got); err != nil || diff != "" {
			t.Errorf("Get %s: %v (-want +got):\n%s", id, err, diff)
		}
	}
	for _, filter := range []string{"", made.ClientID} {
		list, total, err := p.List(ctx, filter, 1, 100)
		if diff := cmp.Diff([]account.Account{shown}, list); err != nil || total != 1 || diff != "" {
			t.Errorf("List %q: %d, %v (-want +got):\n%s", filter, total, err, diff)
		}
	}
	if list, total, err := p.List(ctx, "srvc-acct-other", 1, 100); err != nil || total != 0 || len(list) != 0 {
		t.Errorf("List of another client: %v, %d, %v", list, total, err)
	}
}

func TestInvalid(t *testing.T) {
	w := newWorld(t)
	p := w.start(-1)
	for _, c := range []struct{ name, description, reason, want string }{
		{"", "", "there is no name", "account-name"},
		{"1robot", "", "it begins with a digit", "account-name"},
		{"robot-", "", "it ends with a dash", "account-name"},
		{"Robot", "", "it has a capital", "account-name"},
		{"robot\n", "", "a line feed is no letter", "account-name"},
		{strings.Repeat("a", 51), "", "it is too long", "account-name"},
		{"robot", strings.Repeat("a", 256), "it is too long", "account-description"},
		{"robot", "<script>", "it has odd characters", "account-description"},
		{"robot", "naïve", "it has odd characters", "account-description"},
	} {
		_, err := p.Create(as(t.Context(), "mary", "acme"), c.name, c.description)
		if !fault.Is(err, fault.Invalid) || fault.Reason(err) != c.want {
			t.Errorf("%s: got %v (%s), want Invalid, %s", c.reason, err, fault.Reason(err), c.want)
		}
	}
	for _, id := range []string{"", "a b", "../x", strings.Repeat("a", 65), "-a", "a\x00"} {
		if _, err := p.Get(as(t.Context(), "mary", "acme"), id); fault.Reason(err) != "account-id" {
			t.Errorf("id %q: got %v", id, err)
		}
	}
	if n := len(w.objects(t)) + len(w.idp.all()); n != 0 {
		t.Errorf("%d things were made", n)
	}
	if _, err := p.Create(t.Context(), "robot", ""); !fault.Is(err, fault.Denied) {
		t.Errorf("nobody creates: %v", err)
	}
}

func TestOthersSeeNothing(t *testing.T) {
	w := newWorld(t)
	p := w.start(-1)
	made, err := p.Create(as(t.Context(), "mary", "acme"), "robot", "")
	if err != nil {
		t.Fatal(err)
	}
	agent, _, err := p.EnsureAgent(t.Context(), "c-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []access.Principal{
		{User: "mary", Org: "other"}, {User: "mary"}, {User: "eve", Org: "other", OrgAdmin: true}, {Cluster: "c-1"}, {},
	} {
		ctx := access.With(t.Context(), who)
		for _, id := range []string{made.ID, made.ClientID, agent} {
			_, get := p.Get(ctx, id)
			_, reset := p.Reset(ctx, id)
			for verb, err := range map[string]error{"Get": get, "Reset": reset, "Delete": p.Delete(ctx, id)} {
				if !fault.Is(err, fault.NotFound) || fault.Reason(err) != "account" {
					t.Errorf("%s by %+v: got %v, want NotFound", verb, who, err)
				}
			}
		}
		if list, total, err := p.List(ctx, "", 1, 100); err != nil || len(list) != 0 || total != 0 {
			t.Errorf("List by %+v: %v, %d, %v", who, list, total, err)
		}
	}
	bob := as(t.Context(), "bob", "acme")
	if _, err := p.Get(bob, made.ID); err != nil {
		t.Errorf("a colleague sees it: %v", err)
	}
	if err := p.Delete(bob, made.ID); !fault.Is(err, fault.Denied) {
		t.Errorf("a colleague does not delete it: %v", err)
	}
	if _, err := p.Get(access.With(t.Context(), access.Principal{User: "root", Admin: true}), agent); fault.Reason(err) != "account" {
		t.Errorf("an agent's account is nobody's service account: %v", err)
	}
	if err := p.Delete(access.With(t.Context(), access.Principal{User: "boss", Org: "acme", OrgAdmin: true}), made.ID); err != nil {
		t.Errorf("the organisation's admin deletes it: %v", err)
	}
}

func TestResetAndDelete(t *testing.T) {
	w := newWorld(t)
	p := w.start(-1)
	ctx := as(t.Context(), "mary", "acme")
	made, err := p.Create(ctx, "robot", "")
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Reset(ctx, made.ClientID)
	if err != nil || again.Secret == made.Secret || again.Secret == "" || w.idp.all()[made.ClientID].Secret != again.Secret {
		t.Fatalf("reset: %v, same secret %v", err, again.Secret == made.Secret)
	}
	w.idp.fail(1)
	_, err = p.Reset(ctx, made.ID)
	if !fault.Is(err, fault.Unavailable) || fault.Reason(err) != "account-create" || strings.Contains(err.Error(), again.Secret) {
		t.Errorf("reset without the provider: %v", err)
	}
	w.idp.fail(0)
	w.work(t, p)
	if got := w.idp.all()[made.ClientID].Secret; got != again.Secret {
		t.Error("after a failed reset the old secret does not work any more")
	}
	w.idp.fail(1)
	if err := p.Delete(ctx, made.ID); err != nil {
		t.Errorf("delete without the provider: %v", err)
	}
	if _, err := p.Get(ctx, made.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get after Delete: %v", err)
	}
	w.idp.fail(0)
	w.work(t, p)
	w.tidy(t, 0)
	if err := p.Delete(ctx, made.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("second Delete: %v", err)
	}
	w.silent(t, made.Secret, again.Secret)
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	w := newWorld(t)
	p := w.start(-1)
	w.idp.fail(1)
	_, err := p.Create(as(t.Context(), "mary", "acme"), "robot", "")
	if !fault.Is(err, fault.Unavailable) || fault.Reason(err) != "account-create" {
		t.Fatalf("got %v", err)
	}
	var status account.Status
	if o := w.objects(t)[0]; json.Unmarshal(o.Status, &status) != nil || o.Phase != account.Deleting || status.Fault == "" {
		t.Errorf("phase %s, status %s", o.Phase, o.Status)
	}
	w.idp.fail(0)
	w.work(t, p)
	w.tidy(t, 0)
}

func TestLimitIsExact(t *testing.T) {
	w := newWorld(t)
	one := w.start(-1, func(c *account.Config) { c.Exempt = func(org string) bool { return org == "big" } })
	two := w.start(-1)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var made []account.Account
	for i := range 200 {
		wg.Go(func() {
			p := []*process{one, two}[i%2]
			a, err := p.Create(as(t.Context(), fmt.Sprint("user-", i), "acme"), name(i), "")
			switch {
			case err == nil:
				mu.Lock()
				made = append(made, a)
				mu.Unlock()
			case !fault.Is(err, fault.Denied) || fault.Reason(err) != "account-limit":
				t.Errorf("create %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if len(made) != 50 {
		t.Fatalf("%d of 200 creates succeeded, want 50", len(made))
	}
	w.tidy(t, 50)
	if _, err := one.Create(as(t.Context(), "mary", "other"), "robot", ""); err != nil {
		t.Errorf("another organisation is not limited by the first: %v", err)
	}
	for i := range 51 {
		if _, err := one.Create(as(t.Context(), "mary", "big"), name(i), ""); err != nil {
			t.Fatalf("an exempt organisation: %v", err)
		}
	}
	if err := one.Delete(as(t.Context(), made[0].Owner, "acme"), made[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Create(as(t.Context(), "mary", "acme"), "robot", ""); err != nil {
		t.Errorf("a deleted account makes room: %v", err)
	}
}

func TestDeletedByHandComesBack(t *testing.T) {
	w := newWorld(t)
	p := w.start(-1)
	a, err := p.Create(as(t.Context(), "mary", "acme"), "robot", "")
	if err != nil {
		t.Fatal(err)
	}
	w.work(t, p)
	before := w.idp.all()
	head, err := w.ledger.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.idp.Delete(t.Context(), a.ClientID); err != nil {
		t.Fatal(err)
	}
	w.pass(11 * time.Minute)
	w.once(t, p)
	if diff := cmp.Diff(before, w.idp.all()); diff != "" {
		t.Errorf("after the recheck (-want +got):\n%s", diff)
	}
	if now, err := w.ledger.Head(t.Context()); err != nil || now.Seq != head.Seq {
		t.Errorf("the recheck wrote to the log: %d, %d, %v", head.Seq, now.Seq, err)
	}
}

// silent checks that no secret is in the log.
func (w *world) silent(t *testing.T, secrets ...string) {
	t.Helper()
	changes, err := w.ledger.Changes(t.Context(), ledger.ChangeQuery{Limit: 10000})
	if err != nil || len(changes) == 0 {
		t.Fatal(len(changes), err)
	}
	all, err := json.Marshal(changes)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets {
		if strings.Contains(string(all), s) {
			t.Error("a secret is in the log")
		}
	}
}
