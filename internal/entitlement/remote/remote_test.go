package remote_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/entitlement/entitlementtest"
	"github.com/droverhq/drover/internal/entitlement/remote"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/resilience"
)

var (
	product = entitlement.Product{Offering: "kafka", Type: "standard", Billing: "standard", Resource: "RES", Name: "PROD", Models: []string{"standard"}}
	alice   = entitlement.Who{User: "alice", Org: "acme"}
)

// It keeps record of accepted terms too.
var _ policy.Reviewer = (*remote.Source)(nil)

// patient is a policy that never rests, so that each case is asked for.
func patient() *resilience.Policy {
	return resilience.New(resilience.Config{Name: "the entitlement service", Timeout: 5 * time.Second, Retries: -1, Failures: 1 << 20})
}

func source(t *testing.T, s *service, edit ...func(*remote.Config)) *remote.Source {
	t.Helper()
	c := remote.Config{URL: s.URL, Policy: patient()}
	for _, e := range edit {
		e(&c)
	}
	out, err := remote.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestContract(t *testing.T) {
	entitlementtest.Run(t, func(t *testing.T) entitlementtest.Fixture {
		s := newService(t)
		return entitlementtest.Fixture{
			Source: source(t, s), Product: product,
			Break: func() { s.feel(says(503, "")) }, Mend: func() { s.feel(nil) },
		}
	})
}

func TestGrant(t *testing.T) {
	s := newService(t)
	src := source(t, s)
	for _, tc := range []struct {
		reason string
		edit   func(*entitlement.Product)
		units  int64
	}{
		{"units are what is allowed by what one costs", func(*entitlement.Product) {}, 3},
		{"one quota pays for either model, and once", func(p *entitlement.Product) { p.Models = []string{"marketplace", "standard"} }, 3},
		{"what costs nothing has no limit", func(p *entitlement.Product) { p.Resource = "FREE" }, -1},
		{"another product", func(p *entitlement.Product) { p.Name = "NONE" }, 0},
		{"another model", func(p *entitlement.Product) { p.Models = []string{"eval"} }, 0},
		{"a product that has no name there", func(p *entitlement.Product) { p.Resource = "" }, 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			p := product
			tc.edit(&p)
			if g, err := src.Grant(t.Context(), alice, p); err != nil || g.Units != tc.units {
				t.Errorf("got %+v, %v", g, err)
			}
		})
	}
	if g, err := src.Grant(t.Context(), entitlement.Who{User: "x", Org: "' or id like '%"}, product); err != nil || g.Units != 0 {
		t.Errorf("an organisation cannot write its own search: %+v, %v", g, err)
	}
}

func TestGrantIsRemembered(t *testing.T) {
	s := newService(t)
	now := time.Now()
	src := source(t, s, func(c *remote.Config) { c.Now = func() time.Time { return now } })
	const asked = "GET /organizations/org-1/quota_cost"
	for range 3 {
		if _, err := src.Grant(t.Context(), alice, product); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.count(asked); n != 1 {
		t.Errorf("asked %d times within a minute", n)
	}
	now = now.Add(2 * time.Minute)
	s.feel(says(500, "boom"))
	if _, err := src.Grant(t.Context(), alice, product); !fault.Is(err, fault.Unavailable) {
		t.Errorf("nothing new is ordered on an old answer: %v", err)
	}
	if g, err := src.Grant(entitlement.Checking(t.Context()), alice, product); err != nil || g.Units != 3 {
		t.Errorf("what is there stays while the service is away: %+v, %v", g, err)
	}
	now = now.Add(25 * time.Hour)
	if _, err := src.Grant(entitlement.Checking(t.Context()), alice, product); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after a day the answer is too old: %v", err)
	}
	s.feel(nil)
	if g, err := src.Grant(t.Context(), alice, product); err != nil || g.Units != 3 {
		t.Errorf("back again: %+v, %v", g, err)
	}
}

// Whatever the service says, nothing is granted, reserved or believed gone.
func TestLies(t *testing.T) {
	for _, body := range []string{"", "null", "[]", "{", "<html>", `"yes"`, `{"items":"many"}`, `{"items":[{"id":7}]}`, `{"items":[{"id":""}]}`,
		`{"items":[{"id":"a"},{"id":"b"}],"allowed":"yes"}`} {
		t.Run(body, func(t *testing.T) {
			s := newService(t)
			src := source(t, s)
			s.feel(says(200, body))
			if _, err := src.Grant(t.Context(), alice, product); !fault.Is(err, fault.Unavailable) {
				t.Errorf("grant: %v", err)
			}
		})
	}
	for _, body := range []string{`{"items":[{"allowed":"3"}]}`, `{"items":[{"allowed":-3}]}`, `{"items":[{"allowed":3,"related_resources":[{"resource_name":"RES","product":"PROD","billing_model":"standard","cost":-1}]}]}`, "x"} {
		t.Run("quota "+body, func(t *testing.T) {
			s := newService(t)
			src := source(t, s)
			s.feel(func(w http.ResponseWriter, r *http.Request) bool {
				return strings.HasSuffix(r.URL.Path, "quota_cost") && says(200, body)(w, r)
			})
			if _, err := src.Grant(t.Context(), alice, product); !fault.Is(err, fault.Unavailable) {
				t.Errorf("grant: %v", err)
			}
		})
	}
	for _, body := range []string{`{}`, `{"allowed":"yes"}`, `{"allowed":true}`, `{"allowed":true,"subscription":{}}`, "x", ""} {
		t.Run("reserve "+body, func(t *testing.T) {
			s := newService(t)
			src := source(t, s)
			s.feel(func(w http.ResponseWriter, r *http.Request) bool { return r.Method == "POST" && says(200, body)(w, r) })
			if ticket, err := src.Reserve(t.Context(), alice, product, "i1", 1); ticket != "" || !fault.Is(err, fault.Unavailable) {
				t.Errorf("reserve: %q, %v", ticket, err)
			}
			if _, _, err := src.Required(t.Context(), "alice", "use"); !fault.Is(err, fault.Unavailable) {
				t.Errorf("terms: %v", err)
			}
		})
	}
}

// A lost answer costs nothing: the next attempt finds what the first one took.
func TestReserveAfterALostAnswer(t *testing.T) {
	s := newService(t)
	src := source(t, s)
	s.feel(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "POST" {
			return false
		}
		s.subs["s1"] = sub{"s1", "i1", "Active", 1}
		panic(http.ErrAbortHandler)
	})
	if _, err := src.Reserve(t.Context(), alice, product, "i1", 1); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("the answer was lost: %v", err)
	}
	s.feel(nil)
	ticket, err := src.Reserve(t.Context(), alice, product, "i1", 1)
	if err != nil || ticket != "s1" || s.live() != 1 {
		t.Errorf("got %q, %v, %d reservations", ticket, err, s.live())
	}
	if err := src.Release(t.Context(), "", "i1"); err != nil || s.live() != 0 {
		t.Errorf("a lost ticket is found: %v, %d left", err, s.live())
	}
	if n := s.count("POST /cluster_authorizations"); n != 1 {
		t.Errorf("%d requests took units", n)
	}
}

// A request that was given up may have its effect after it was looked for: then
// there are two, and both are given back.
func TestReleaseAfterALateAnswer(t *testing.T) {
	s := newService(t)
	src := source(t, s)
	ticket, err := src.Reserve(t.Context(), alice, product, "i1", 1)
	if err != nil {
		t.Fatal(err)
	}
	s.subs["late"] = sub{"late", "i1", "Active", 1}
	s.subs["other"] = sub{"other", "i2", "Active", 1}
	if err := src.Release(t.Context(), ticket, "i1"); err != nil || s.live() != 1 {
		t.Errorf("%v, %d left, want that of i2", err, s.live())
	}
}

// An organisation that was made anew there has another id.
func TestAnOrganisationWithANewID(t *testing.T) {
	s := newService(t)
	src := source(t, s, func(c *remote.Config) { c.Fresh = time.Nanosecond })
	s.feel(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/organizations") {
			return false
		}
		io.WriteString(w, `{"items":[{"id":"org-0"}]}`)
		return true
	})
	if _, err := src.Grant(t.Context(), alice, product); err == nil {
		t.Fatal("org-0 is there")
	}
	s.feel(nil)
	if g, err := src.Grant(t.Context(), alice, product); err != nil || g.Units != 3 {
		t.Errorf("%+v, %v", g, err)
	}
}

// With every fifth request lost on its way, before or after it had its effect,
// nothing is left behind.
func TestNothingLeaks(t *testing.T) {
	s := newService(t)
	src := source(t, s)
	random := rand.New(rand.NewPCG(1, 2))
	s.feel(func(w http.ResponseWriter, r *http.Request) bool {
		return random.IntN(5) == 0 && says(500, "")(w, r)
	})
	for range 100 {
		var ticket string
		for err := error(fault.New(fault.Unavailable, "not yet")); err != nil; {
			ticket, err = src.Reserve(t.Context(), alice, product, "i1", 1)
		}
		for src.Release(t.Context(), ticket, "i1") != nil {
		}
	}
	if n := s.live(); n != 0 {
		t.Errorf("%d reservations are left", n)
	}
}

func TestBreaker(t *testing.T) {
	s := newService(t)
	src := source(t, s, func(c *remote.Config) {
		c.Policy = resilience.New(resilience.Config{Name: "the entitlement service", Retries: -1, Failures: 2, Rest: time.Hour})
	})
	s.feel(says(500, ""))
	for range 5 {
		if _, err := src.Grant(t.Context(), alice, product); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the entitlement service") {
			t.Fatalf("got %v", err)
		}
	}
	if n := s.count("GET /organizations"); n != 2 {
		t.Errorf("asked %d times: an open breaker asks nobody", n)
	}
}

func TestSlow(t *testing.T) {
	s := newService(t)
	src := source(t, s, func(c *remote.Config) {
		c.Policy = resilience.New(resilience.Config{Name: "the entitlement service", Retries: -1, Timeout: 20 * time.Millisecond})
	})
	stop := make(chan struct{})
	defer close(stop)
	s.feel(func(http.ResponseWriter, *http.Request) bool { <-stop; return true })
	if _, err := src.Grant(t.Context(), alice, product); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "did not answer within") {
		t.Errorf("got %v", err)
	}
}

func TestTokens(t *testing.T) {
	s := newService(t)
	now := time.Now()
	credentials := func(c *remote.Config) {
		c.TokenURL, c.ClientID, c.ClientSecret = s.URL+"/token", "drover", "hush"
		c.Now = func() time.Time { return now }
	}
	src := source(t, s, credentials, func(c *remote.Config) { c.Fresh = time.Nanosecond })
	for range 3 {
		if _, err := src.Grant(t.Context(), alice, product); err != nil {
			t.Fatal(err)
		}
	}
	if s.tokens != 1 {
		t.Errorf("%d tokens were asked for", s.tokens)
	}
	now = now.Add(280 * time.Second)
	if _, err := src.Grant(t.Context(), alice, product); err != nil || s.tokens != 2 {
		t.Errorf("before its end a token is renewed: %v, %d", err, s.tokens)
	}
	s.mu.Lock()
	s.token = "another"
	s.mu.Unlock()
	now = now.Add(time.Second)
	if _, err := src.Grant(t.Context(), alice, product); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a refused token: %v", err)
	}
	if _, err := src.Grant(t.Context(), alice, product); err != nil || s.tokens != 3 {
		t.Errorf("is replaced: %v, %d", err, s.tokens)
	}
	bad := source(t, s, credentials, func(c *remote.Config) { c.ClientSecret = "wrong-secret" })
	if _, err := bad.Grant(t.Context(), alice, product); !fault.Is(err, fault.Unavailable) || strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("a wrong secret: %v", err)
	}

	secret := filepath.Join(t.TempDir(), "secret")
	filed := source(t, s, credentials, func(c *remote.Config) { c.ClientSecret, c.SecretFile = "", secret })
	if _, err := filed.Grant(t.Context(), alice, product); !fault.Is(err, fault.Unavailable) {
		t.Errorf("no secret yet: %v", err)
	}
	if err := os.WriteFile(secret, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := filed.Grant(t.Context(), alice, product); err != nil {
		t.Errorf("a file with a secret: %v", err)
	}

	file := filepath.Join(t.TempDir(), "token")
	src = source(t, s, func(c *remote.Config) { c.TokenFile = file })
	if _, err := src.Grant(t.Context(), alice, product); !fault.Is(err, fault.Unavailable) {
		t.Errorf("no file yet: %v", err)
	}
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := src.Grant(t.Context(), alice, product); err != nil {
		t.Errorf("a file with a token: %v", err)
	}
}

func TestTermsReview(t *testing.T) {
	src := source(t, newService(t))
	if required, _, err := src.Required(t.Context(), "alice", "use"); err != nil || required {
		t.Errorf("alice: %v, %v", required, err)
	}
	if required, url, err := src.Required(t.Context(), "bob", "use"); err != nil || !required || url != "https://example.org/accept" {
		t.Errorf("bob: %v, %q, %v", required, url, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for reason, c := range map[string]remote.Config{
		"no address":        {},
		"not http":          {URL: "ftp://example.org"},
		"a password in it":  {URL: "https://a:b@example.org"},
		"half a credential": {URL: "https://example.org", TokenURL: "https://example.org/token", ClientID: "x"},
	} {
		if _, err := remote.New(c); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
