// Package ssotest checks that an identity provider keeps the contract of
// package sso.
//
// It owns the suite that every provider must pass (Run) and a way to log in as
// a program would (Token). It must not know any provider: what it needs it asks
// of the provider's own endpoints.
package ssotest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/sso"
)

// Fresh returns a provider whose server answers. What it starts it stops in
// t.Cleanup. It may return the same server every time: the suite uses ids that
// were never used before.
type Fresh func(t testing.TB) sso.Provider

// Option adds a case that not every provider can be brought into.
type Option func(*options)

type options struct{ away Fresh }

// Away hands in a provider whose server cannot be reached: nothing listens, or
// it never answers.
func Away(fresh Fresh) Option { return func(o *options) { o.away = fresh } }

// Run checks a provider against the whole contract.
func Run(t *testing.T, fresh Fresh, opts ...Option) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T, p sso.Provider)
	}{
		{"ApplyTwice", testApplyTwice},
		{"Absent", testAbsent},
		{"ApplyAfterDelete", testApplyAfterDelete},
		{"Token", testToken},
		{"Changes", testChanges},
		{"SecretChange", testSecretChange},
		{"OddTexts", testOddTexts},
		{"Redirects", testRedirects},
		{"Concurrent", testConcurrent},
		{"Apart", testApart},
		{"Refused", testRefused},
		{"Ended", testEnded},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
	}
	if o.away != nil {
		t.Run("Away", func(t *testing.T) { testAway(t, o.away(t)) })
	}
}

func testApplyTwice(t *testing.T, p sso.Provider) {
	c := client(t, p)
	for _, reason := range []string{"it was not there", "it is there already"} {
		if err := p.Apply(t.Context(), c); err != nil {
			t.Fatalf("%s: cannot apply: %v", reason, err)
		}
		same(t, p, c, reason)
	}
}

func testAbsent(t *testing.T, p sso.Provider) {
	id := "srvc-acct-" + fresh()
	if _, err := p.Get(t.Context(), id); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get of a client that never was: got %v, want a NotFound", err)
	}
	if err := p.Delete(t.Context(), id); err != nil {
		t.Errorf("Delete of a client that never was: got %v, want nil", err)
	}
	c := client(t, p)
	apply(t, p, c)
	for range 2 {
		if err := p.Delete(t.Context(), c.ID); err != nil {
			t.Fatalf("cannot delete: %v", err)
		}
		if _, err := p.Get(t.Context(), c.ID); !fault.Is(err, fault.NotFound) {
			t.Fatalf("Get after Delete: got %v, want a NotFound", err)
		}
	}
	refused(t, p, c.ID, c.Secret, "the client was deleted")
}

func testApplyAfterDelete(t *testing.T, p sso.Provider) {
	c := client(t, p)
	apply(t, p, c)
	if err := p.Delete(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	apply(t, p, c)
	same(t, p, c, "it was deleted by hand and applied again")
	carries(t, p, c)
}

func testToken(t *testing.T, p sso.Provider) {
	c := client(t, p)
	apply(t, p, c)
	carries(t, p, c)
	refused(t, p, c.ID, c.Secret+"x", "the secret is wrong")
	refused(t, p, c.ID, "", "there is no secret")
}

func testChanges(t *testing.T, p sso.Provider) {
	c := client(t, p)
	apply(t, p, c)
	for _, step := range []struct {
		reason string
		change func(c *sso.Client)
	}{
		{"a claim has another value", func(c *sso.Client) { c.Claims["rh-org-id"] = "other" }},
		{"a claim is new", func(c *sso.Client) { c.Claims["fleetshard-operator-cluster-id"] = "c-1" }},
		{"a claim is gone", func(c *sso.Client) { delete(c.Claims, "rh-user-id") }},
		{"a role is new", func(c *sso.Client) { c.Roles = append(c.Roles, "drover-test-second") }},
		{"a role is gone", func(c *sso.Client) { c.Roles = c.Roles[1:] }},
		{"all roles are gone", func(c *sso.Client) { c.Roles = nil }},
		{"all claims are gone", func(c *sso.Client) { c.Claims = nil }},
		{"another name and description", func(c *sso.Client) { c.Name, c.Description = "second", "of that name" }},
	} {
		before := maps.Clone(c.Claims)
		roles := slices.Clone(c.Roles)
		step.change(&c)
		apply(t, p, c)
		same(t, p, c, step.reason)
		got := carries(t, p, c)
		for name, v := range before {
			if _, kept := c.Claims[name]; !kept && got.claims[name] == v {
				t.Errorf("%s: the token still carries claim %s", step.reason, name)
			}
		}
		for _, r := range roles {
			if !slices.Contains(c.Roles, r) && slices.Contains(got.roles, r) {
				t.Errorf("%s: the token still carries role %s", step.reason, r)
			}
		}
	}
}

func testSecretChange(t *testing.T, p sso.Provider) {
	c := client(t, p)
	apply(t, p, c)
	carries(t, p, c)
	old := c.Secret
	c.Secret = fresh()
	apply(t, p, c)
	carries(t, p, c)
	refused(t, p, c.ID, old, "the secret was changed")
	same(t, p, c, "the secret was changed")
}

func testOddTexts(t *testing.T, p sso.Provider) {
	c := client(t, p)
	c.Name = "ünïcode & <b>\"quoted\"</b>"
	c.Description = "100 % of a 'description', ${with} {{braces}} and / slashes \\"
	c.Claims["username"] = "jürgen+test@example.org"
	c.Claims["rh-org-id"] = "0042" // a text, although it looks like a number
	apply(t, p, c)
	same(t, p, c, "texts are kept as they are")
	carries(t, p, c)
}

// testConcurrent applies one client from many callers, as replicas would, and
// others beside it.
func testConcurrent(t *testing.T, p sso.Provider) {
	one := client(t, p)
	clients := []sso.Client{one}
	for len(clients) < 5 {
		clients = append(clients, client(t, p))
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := p.Apply(t.Context(), clients[i%len(clients)]); err != nil {
				t.Errorf("cannot apply beside others: %v", err)
			}
		})
	}
	wg.Wait()
	for _, c := range clients {
		same(t, p, c, "several callers applied it at once")
		carries(t, p, c)
	}
	for range 8 {
		wg.Go(func() {
			if err := p.Delete(t.Context(), one.ID); err != nil {
				t.Errorf("cannot delete beside others: %v", err)
			}
		})
	}
	wg.Wait()
	if _, err := p.Get(t.Context(), one.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get after Delete: got %v, want a NotFound", err)
	}
}

func testApart(t *testing.T, p sso.Provider) {
	a, b := client(t, p), client(t, p)
	b.Claims["rh-org-id"] = "another"
	apply(t, p, a)
	apply(t, p, b)
	refused(t, p, a.ID, b.Secret, "it is another client's secret")
	if err := p.Delete(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	same(t, p, b, "another client was deleted")
	carries(t, p, b)
}

// testRefused hands in what no provider can take.
func testRefused(t *testing.T, p sso.Provider) {
	for _, c := range []struct {
		reason string
		spoil  func(c *sso.Client)
	}{
		{"a client needs an id", func(c *sso.Client) { c.ID = "" }},
		{"a client needs a secret: one without could be used by anybody", func(c *sso.Client) { c.Secret = "" }},
		{"a redirect must be a URL", func(c *sso.Client) { c.Redirects = []string{"not a url"} }},
		{"a redirect to everywhere would hand codes to anybody", func(c *sso.Client) { c.Redirects = []string{"*"} }},
	} {
		broken := client(t, p)
		c.spoil(&broken)
		err := p.Apply(t.Context(), broken)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, want an Invalid", c.reason, err)
		}
		silent(t, err, broken.Secret)
	}
}

// testEnded calls with a context that is over: the provider could not be asked,
// which is never "not there".
func testEnded(t *testing.T, p sso.Provider) {
	c := client(t, p)
	apply(t, p, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	unreachable(t, ctx, p, c)
	same(t, p, c, "calls that were given up changed nothing")
}

func testAway(t *testing.T, p sso.Provider) {
	unreachable(t, t.Context(), p, client(t, p))
	if e := p.Endpoints(); e.Name == "" || e.BaseURL == "" || e.Issuer == "" || e.TokenURL == "" || e.JWKSURL == "" {
		t.Errorf("the endpoints are known without the server; got %+v", e)
	}
}

func unreachable(t *testing.T, ctx context.Context, p sso.Provider, c sso.Client) {
	t.Helper()
	_, err := p.Get(ctx, c.ID)
	for verb, err := range map[string]error{"Get": err, "Apply": p.Apply(ctx, c), "Delete": p.Delete(ctx, c.ID)} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s without a server: got %v (%s), want an Unavailable", verb, err, fault.Of(err))
		}
		silent(t, err, c.Secret)
	}
}

// silent checks that an error keeps a secret.
func silent(t *testing.T, err error, secret string) {
	t.Helper()
	if err != nil && secret != "" && strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
		t.Error("the error contains the client's secret")
	}
}

// same checks that the provider tells what was applied.
func same(t *testing.T, p sso.Provider, want sso.Client, reason string) {
	t.Helper()
	got, err := p.Get(t.Context(), want.ID)
	if err != nil {
		t.Fatalf("%s: cannot get: %v", reason, err)
	}
	if got.Secret == "" {
		got.Secret = want.Secret // not every provider tells
	}
	if diff := cmp.Diff(normal(want), normal(got)); diff != "" {
		t.Errorf("%s: the client is not as applied (-want +got):\n%s", reason, diff)
	}
}

// normal sorts what has no order and makes empty and absent the same.
func normal(c sso.Client) sso.Client {
	c.Roles, c.Redirects = slices.Sorted(slices.Values(c.Roles)), slices.Sorted(slices.Values(c.Redirects))
	if len(c.Claims) == 0 {
		c.Claims = nil
	}
	return c
}

func apply(t *testing.T, p sso.Provider, c sso.Client) {
	t.Helper()
	if err := p.Apply(t.Context(), c); err != nil {
		t.Fatalf("cannot apply: %v", err)
	}
}
