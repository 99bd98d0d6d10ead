package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/entitlement/entitlementtest"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
)

var instances = ledger.Kind{Name: "instance"}

func open(t *testing.T) *sqlledger.Ledger {
	t.Helper()
	store, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: "sqlite://" + filepath.Join(t.TempDir(), "ledger.db"), Key: bytes.Repeat([]byte{7}, ledger.KeySize),
		Kinds: append(policy.Kinds(), instances),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func doc(kind, name, spec string) []byte {
	return fmt.Appendf(nil, "apiVersion: drover.dev/v1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec)
}

func apply(t *testing.T, s *policy.Service, files ...[]byte) []policy.Applied {
	t.Helper()
	applied, err := s.Apply(t.Context(), "request", bytes.Join(files, []byte("---\n")))
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func TestContract(t *testing.T) {
	entitlementtest.Run(t, func(t *testing.T) entitlementtest.Fixture {
		s := policy.NewService(policy.Config{Store: open(t)})
		apply(t, s, doc("Quota", "acme", "{organisation: acme, anyUser: true, grants: [{offering: kafka, type: standard, billing: [{model: standard, units: 3}]}]}"))
		return entitlementtest.Fixture{Source: s, Product: entitlement.Product{Offering: "kafka", Type: "standard", Billing: "standard"}}
	})
}

func TestGrant(t *testing.T) {
	s := policy.NewService(policy.Config{Store: open(t)})
	apply(t, s,
		doc("Quota", "acme", "{organisation: acme, users: [alice], maxInstances: 7, grants: [{offering: kafka, type: standard, expires: 2030-06-01T00:00:00Z, billing: [{model: eval, units: 1, expires: 2031-01-01T00:00:00Z}, {model: standard, units: 5, expires: 2030-01-01T00:00:00Z}]}]}"),
		doc("Quota", "alice", "{account: alice, grants: [{offering: kafka, type: standard, units: 99}]}"),
		doc("Quota", "bob", "{account: bob, grants: [{offering: kafka, type: standard, units: -1}]}"))
	at := func(s string) time.Time {
		t.Helper()
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, tc := range []struct {
		reason string
		who    entitlement.Who
		p      entitlement.Product
		want   entitlement.Grant
	}{
		{"the organisation goes before the account, and the sooner end counts", entitlement.Who{User: "alice", Org: "acme"}, entitlement.Product{Offering: "kafka", Type: "standard", Billing: "eval"},
			entitlement.Grant{Units: 1, Holder: "org/acme", Expires: at("2030-06-01T00:00:00Z"), MaxInstances: 7}},
		{"each model has its own", entitlement.Who{User: "alice", Org: "acme"}, entitlement.Product{Offering: "kafka", Type: "standard", Billing: "standard"},
			entitlement.Grant{Units: 5, Holder: "org/acme", Expires: at("2030-01-01T00:00:00Z"), MaxInstances: 7}},
		{"a model that is not named is not granted", entitlement.Who{User: "alice", Org: "acme"}, entitlement.Product{Offering: "kafka", Type: "standard", Billing: "marketplace"}, entitlement.Grant{}},
		{"a colleague who is not named has nothing of it", entitlement.Who{User: "carol", Org: "acme"}, entitlement.Product{Offering: "kafka", Type: "standard", Billing: "eval"}, entitlement.Grant{}},
		{"but may have an own quota, without limit, under any model", entitlement.Who{User: "bob", Org: "acme"}, entitlement.Product{Offering: "kafka", Type: "standard", Billing: "eval"},
			entitlement.Grant{Units: -1, Holder: "owner/bob"}},
		{"elsewhere the account counts", entitlement.Who{User: "alice", Org: "umbrella"}, entitlement.Product{Offering: "kafka", Type: "standard"},
			entitlement.Grant{Units: 99, Holder: "owner/alice"}},
		{"another type is not granted", entitlement.Who{User: "bob"}, entitlement.Product{Offering: "kafka", Type: "developer"}, entitlement.Grant{}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if g, err := s.Grant(t.Context(), tc.who, tc.p); err != nil || g != tc.want {
				t.Errorf("got %+v, %v, want %+v", g, err, tc.want)
			}
		})
	}
}

func TestAdmit(t *testing.T) {
	s := policy.NewService(policy.Config{Store: open(t)})
	apply(t, s, doc("DenyList", "a", "{users: [mallory]}"), doc("DenyList", "b", "{users: [trudy]}"),
		doc("AccessList", "main", "{enabled: false, organisations: [acme]}"))
	want := func(reason string, who access.Principal, because string) {
		t.Helper()
		err := s.Admit(who)
		if (err == nil) != (because == "") || fault.Reason(err) != because || err != nil && !fault.Is(err, fault.Denied) {
			t.Errorf("%s: got %v", reason, err)
		}
	}
	want("nobody knows him", access.Principal{User: "bob", Org: "umbrella"}, "")
	want("on the first list", access.Principal{User: "mallory", Org: "acme"}, "denied")
	want("on the second list", access.Principal{User: "trudy", Org: "acme"}, "denied")
	want("an operator can undo it", access.Principal{User: "trudy", Admin: true}, "")
	apply(t, s, doc("AccessList", "main", "{enabled: true, organisations: [acme]}"))
	want("let in", access.Principal{User: "alice", Org: "acme"}, "")
	want("shut out", access.Principal{User: "bob", Org: "umbrella"}, "maintenance")
	want("no organisation at all", access.Principal{User: "bob"}, "maintenance")
	want("agents work on", access.Principal{Cluster: "c1"}, "")
	if _, err := s.Delete(t.Context(), "accesslist", "main"); err != nil {
		t.Fatal(err)
	}
	want("open again", access.Principal{User: "bob", Org: "umbrella"}, "")
	if !s.Denied("mallory") || s.Denied("alice") {
		t.Error("who is denied")
	}
}

func TestApplyAgainWritesNothing(t *testing.T) {
	store := open(t)
	s := policy.NewService(policy.Config{Store: store})
	files := [][]byte{doc("DenyList", "a", "{users: [mallory]}"), doc("Terms", "t", "{version: '1', text: be nice}")}
	apply(t, s, files...)
	before, _ := store.Head(t.Context())
	for _, a := range apply(t, s, files...) {
		if a.Changed || a.Object.Version != 1 {
			t.Errorf("%s changed", a.Object.Ref)
		}
	}
	if after, _ := store.Head(t.Context()); after.Seq != before.Seq {
		t.Errorf("the log moved from %d to %d", before.Seq, after.Seq)
	}
}

func TestApplyAllOrNothing(t *testing.T) {
	s := policy.NewService(policy.Config{Store: open(t)})
	apply(t, s, doc("Quota", "one", "{organisation: acme, anyUser: true}"))
	_, err := s.Apply(t.Context(), "request", bytes.Join([][]byte{
		doc("DenyList", "a", "{users: [mallory]}"), doc("Quota", "two", "{organisation: acme, anyUser: true}"),
	}, []byte("---\n")))
	if !fault.Is(err, fault.Conflict) || fault.Reason(err) != "name-taken" {
		t.Errorf("two quotas of one organisation: %v", err)
	}
	if s.Denied("mallory") {
		t.Error("the other document came into force")
	}
	apply(t, s, doc("Quota", "one", "{organisation: umbrella, anyUser: true}"))
	apply(t, s, doc("Quota", "two", "{organisation: acme, anyUser: true}"))
	if _, err := s.Delete(t.Context(), "quota", "two"); err != nil {
		t.Fatal(err)
	}
	apply(t, s, doc("Quota", "three", "{organisation: acme, anyUser: true}"))
	apply(t, s, doc("Quota", "two", "{account: alice}")) // what was deleted may come back
	if _, err := s.Delete(t.Context(), "quota", "nobody"); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Delete(t.Context(), "acceptance", "x"); !fault.Is(err, fault.Invalid) {
		t.Errorf("acceptances are not taken back: %v", err)
	}
}

// What one replica writes, the others know without asking.
func TestReplicasFollow(t *testing.T) {
	store := open(t)
	j, log := newJournal()
	one, two := policy.NewService(policy.Config{Store: store}), policy.NewService(policy.Config{Store: store, Log: log})
	apply(t, one, doc("DenyList", "a", "{users: [mallory]}"))
	if err := two.Load(t.Context()); err != nil || !two.Denied("mallory") {
		t.Fatalf("loaded: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	feed := ledger.NewFeed(store)
	done := make(chan error, 2)
	go func() { done <- feed.Run(ctx) }()
	go func() { done <- two.Follow(ctx, feed) }()
	apply(t, one, doc("DenyList", "a", "{users: [trudy]}"))
	// What a newer binary may have written is told, and changes nothing; it also
	// tells that what came before it was followed.
	o, err := one.Get(t.Context(), "denylist", "a")
	if err != nil {
		t.Fatal(err)
	}
	o.Spec = json.RawMessage(`{"users": {}}`)
	if _, err := store.Commit(t.Context(), ledger.Set{Actor: "system", Cause: "schedule:test", Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}}); err != nil {
		t.Fatal(err)
	}
	j.await(t, "policy not understood; the last good version stays in force")
	if !two.Denied("trudy") || two.Denied("mallory") {
		t.Error("the other replica does not know")
	}
	cancel()
	<-done
	<-done
}

type reviewer struct {
	required atomic.Bool
	away     atomic.Bool
	asked    atomic.Int64
}

func (r *reviewer) Required(context.Context, string, string) (bool, string, error) {
	r.asked.Add(1)
	if r.away.Load() {
		return false, "", fault.New(fault.Unavailable, "the terms service does not answer")
	}
	return r.required.Load(), "https://example.org/accept", nil
}

func TestTerms(t *testing.T) {
	store := open(t)
	s := policy.NewService(policy.Config{Store: store})
	alice := access.Principal{User: "alice", Org: "acme"}
	want := func(reason string, who access.Principal, terms string, ok bool) {
		t.Helper()
		err := s.Accepted(t.Context(), who, terms)
		if (err == nil) != ok || err != nil && fault.Reason(err) != "terms" {
			t.Errorf("%s: got %v", reason, err)
		}
	}
	want("nothing to accept", alice, "", true)
	want("not published", alice, "use", false)
	apply(t, s, doc("Terms", "use", "{version: '1', url: https://example.org/terms}"))
	want("not accepted", alice, "use", false)
	if _, _, err := s.Accept(t.Context(), alice, "use", "0"); !fault.Is(err, fault.Conflict) {
		t.Errorf("an old version: %v", err)
	}
	if _, _, err := s.Accept(t.Context(), access.Principal{Cluster: "c1"}, "use", ""); !fault.Is(err, fault.Denied) {
		t.Errorf("an agent: %v", err)
	}
	for i, first := range []bool{true, false} {
		o, made, err := s.Accept(t.Context(), alice, "use", "")
		if err != nil || made != first || o.Owner != "alice" || o.Org != "acme" || o.Fields["terms_version"] != "1" {
			t.Fatalf("accept %d: %+v, %v, %v", i, o, made, err)
		}
	}
	want("accepted", alice, "use", true)
	want("a namesake elsewhere has not", access.Principal{User: "alice", Org: "umbrella"}, "use", false)
	other := policy.NewService(policy.Config{Store: store})
	if err := other.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.Accepted(t.Context(), alice, "use"); err != nil {
		t.Errorf("another replica: %v", err)
	}
	apply(t, s, doc("Terms", "use", "{version: '2', url: https://example.org/terms}"))
	want("a new version is accepted anew", alice, "use", false)
}

func TestTermsReviewedElsewhere(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	r := &reviewer{}
	s := policy.NewService(policy.Config{Store: open(t), Review: r, Now: func() time.Time { return now }})
	alice := access.Principal{User: "alice", Org: "acme"}
	r.required.Store(true)
	if err := s.Accepted(t.Context(), alice, "use"); fault.Reason(err) != "terms" || !strings.Contains(err.Error(), "https://example.org/accept") {
		t.Errorf("required: %v", err)
	}
	r.required.Store(false)
	for range 3 {
		if err := s.Accepted(t.Context(), alice, "use"); err != nil {
			t.Errorf("not required: %v", err)
		}
	}
	if n := r.asked.Load(); n != 2 {
		t.Errorf("asked %d times: a yes is remembered, a no is not", n)
	}
	r.away.Store(true)
	if err := s.Accepted(t.Context(), alice, "use"); err != nil {
		t.Errorf("still remembered: %v", err)
	}
	now = now.Add(6 * time.Minute)
	if err := s.Accepted(t.Context(), alice, "use"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("away: %v", err)
	}
}

// tenants own instances named <user>-<n>.
type tenants map[string]int

func (o tenants) page(of, after string, limit int) ([]ledger.Wake, string, error) {
	var all []string
	for i := range o[of] {
		all = append(all, fmt.Sprintf("%s-%04d", of, i))
	}
	all = slices.DeleteFunc(all, func(id string) bool { return id <= after })
	next := ""
	if len(all) > limit {
		all = all[:limit]
		next = all[limit-1]
	}
	var wakes []ledger.Wake
	for _, id := range all {
		wakes = append(wakes, ledger.Wake{Ref: ledger.Ref{Kind: "instance", ID: id}})
	}
	return wakes, next, nil
}

func (o tenants) OwnedBy(_ context.Context, user, after string, limit int) ([]ledger.Wake, string, error) {
	return o.page(user, after, limit)
}

func (o tenants) OfOrg(_ context.Context, org, after string, limit int) ([]ledger.Wake, string, error) {
	return o.page(org, after, limit)
}

// deployers have deployments, likewise.
type deployers map[string]int

func (d deployers) OfOrg(_ context.Context, org, after string, limit int) ([]ledger.Wake, string, error) {
	return tenants(d).page(org, after, limit)
}

func TestChangesAreTold(t *testing.T) {
	store := open(t)
	s := policy.NewService(policy.Config{Store: store})
	r := &policy.Reconciler{Store: store, Tenants: tenants{"mallory": 5600, "trudy": 2, "acme": 3, "umbrella": 4},
		Deployers: deployers{"acme": 30, "umbrella": 40}}
	var later []ledger.Ref
	woken := func() map[string]int {
		t.Helper()
		out := map[string]int{}
		for {
			claimed, err := store.Claim(t.Context(), ledger.ClaimRequest{Holder: "t", Kinds: []string{"instance", "denylist", "quota"}, Limit: 1000, Lease: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if len(claimed.Work) == 0 {
				return out
			}
			for _, w := range claimed.Work {
				write := ledger.Set{Actor: "system", Cause: "schedule:test"}
				finish := ledger.Finish{Dirty: w.Dirty}
				if w.Kind == "instance" {
					owner, _, _ := strings.Cut(w.ID, "-")
					out[owner]++
				} else {
					result, err := r.Reconcile(t.Context(), reconcile.Task{Ref: w.Ref})
					if err != nil {
						t.Fatal(err)
					}
					if write.Puts = result.Write.Puts; len(write.Puts) > 0 {
						write.Actor, write.Cause = result.Write.Actor, result.Write.Cause
					}
					if finish.Next, finish.After = result.Next, time.Hour; result.Next {
						later = append(later, w.Ref)
					}
				}
				write.Lease, write.Finish = &w.Lease, &finish
				if _, err := store.Commit(t.Context(), write); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	want := func(reason string, want map[string]int) {
		t.Helper()
		if got := woken(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: woke %v, want %v", reason, got, want)
		}
		// A replica that had not heard of the change may have run them.
		for _, ref := range later {
			result, err := r.Reconcile(t.Context(), reconcile.Task{Ref: ref})
			if err != nil || result.Next {
				t.Fatalf("%s: told again: %+v, %v", reason, result, err)
			}
			if _, err := store.Commit(t.Context(), result.Write); err != nil {
				t.Fatal(err)
			}
		}
		later = nil
		if got := woken(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: woke %v when every replica knew, want %v", reason, got, want)
		}
	}
	apply(t, s, doc("DenyList", "a", "{users: [mallory]}"))
	want("those of a new list", map[string]int{"mallory": 5600})
	apply(t, s, doc("DenyList", "a", "{users: [mallory, trudy]}"))
	want("only those who were added", map[string]int{"trudy": 2})
	apply(t, s, doc("DenyList", "a", "{users: [trudy]}"))
	want("those who were removed: what they have may stay", map[string]int{"mallory": 5600})
	apply(t, s, doc("Quota", "q", "{organisation: acme, anyUser: true}"))
	want("those of the quota", map[string]int{"acme": 3})
	apply(t, s, doc("Quota", "q", "{organisation: umbrella, anyUser: true}"))
	want("those who had it too", map[string]int{"acme": 3, "umbrella": 4})
	apply(t, s, doc("AccessList", "l", "{enabled: true, organisations: [acme]}"), doc("Terms", "t", "{version: '1', text: x}"))
	want("lists and terms wake nobody", map[string]int{})
	if _, err := s.Delete(t.Context(), "quota", "q"); err != nil {
		t.Fatal(err)
	}
	want("those who lose it", map[string]int{"umbrella": 4})
	apply(t, s, doc("DenyList", "o", "{users: [], organisations: [acme]}"))
	want("an organisation that may have nothing new done", map[string]int{"acme": 30})
	if err := s.Admit(access.Principal{User: "alice", Org: "acme"}); fault.Reason(err) != "denied" || !s.Barred("acme") || s.Barred("umbrella") || s.Denied("alice") {
		t.Errorf("a user of that organisation: %v", err)
	}
	apply(t, s, doc("DenyList", "o", "{organisations: [umbrella]}"))
	want("another one in its place", map[string]int{"acme": 30, "umbrella": 40})
	if _, err := s.Delete(t.Context(), "denylist", "o"); err != nil || s.Barred("acme") {
		t.Fatal(err)
	}
	want("it may again", map[string]int{"umbrella": 40})
	apply(t, s, doc("DenyList", "b", "{users: [trudy]}"))
	want("another list", map[string]int{"trudy": 2})
	if by, generation := s.DeniedBy("trudy"); by != "a" || generation != 3 {
		t.Errorf("trudy is denied by %s, generation %d", by, generation)
	}
	if _, err := s.Delete(t.Context(), "denylist", "b"); err != nil {
		t.Fatal(err)
	}
	want("those of a list that is gone", map[string]int{"trudy": 2})
	o, err := s.Get(t.Context(), "denylist", "a")
	var status policy.Status
	if err != nil || json.Unmarshal(o.Status, &status) != nil || status.Everybody || len(status.Pending) > 0 {
		t.Errorf("something is left to tell: %+v, %v", status, err)
	}
}

// tell tells everybody whom a policy is about.
func tell(t *testing.T, store *sqlledger.Ledger, ref ledger.Ref) {
	t.Helper()
	r := &policy.Reconciler{Store: store}
	for next := true; next; {
		result, err := r.Reconcile(t.Context(), reconcile.Task{Ref: ref})
		if err == nil {
			_, err = store.Commit(t.Context(), result.Write)
		}
		if err != nil {
			t.Fatal(err)
		}
		next = result.Next
	}
}

// A version that comes before the last one was told loses nobody.
func TestChangesBeforeTheyAreTold(t *testing.T) {
	store := open(t)
	s := policy.NewService(policy.Config{Store: store})
	apply(t, s, doc("DenyList", "a", "{users: [a, b]}"))
	tell(t, store, ledger.Ref{Kind: "denylist", ID: "a"})
	apply(t, s, doc("DenyList", "a", "{users: [a, b, c]}"))
	apply(t, s, doc("DenyList", "a", "{users: [a, b, c, d]}"))
	o, _ := s.Get(t.Context(), "denylist", "a")
	var status policy.Status
	if err := json.Unmarshal(o.Status, &status); err != nil || !slices.Equal(status.Pending, []string{"owner/c", "owner/d"}) {
		t.Errorf("pending %v, %v", status.Pending, err)
	}
}

// What is told names no more people than the list itself does: both are kept in
// one object.
func TestALongListCanGrow(t *testing.T) {
	store := open(t)
	s := policy.NewService(policy.Config{Store: store})
	names := func(n int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("somebody-%08d", i)
		}
		return "{users: [" + strings.Join(out, ", ") + "]}"
	}
	apply(t, s, doc("DenyList", "a", names(1)))
	tell(t, store, ledger.Ref{Kind: "denylist", ID: "a"})
	apply(t, s, doc("DenyList", "a", names(10_000)))
	if !s.Denied("somebody-00009999") {
		t.Error("the last one is not denied")
	}
}

// A quota that is taken away before those who had it were told forgets nobody.
func TestAQuotaThatMovedAndWent(t *testing.T) {
	s := policy.NewService(policy.Config{Store: open(t)})
	apply(t, s, doc("Quota", "q", "{organisation: acme, anyUser: true}"))
	apply(t, s, doc("Quota", "q", "{organisation: umbrella, anyUser: true}"))
	o, err := s.Delete(t.Context(), "quota", "q")
	var status policy.Status
	if err != nil || json.Unmarshal(o.Status, &status) != nil || !status.Everybody || !slices.Equal(status.Pending, []string{"org/acme"}) {
		t.Errorf("to be told: %+v, %v", status, err)
	}
}
