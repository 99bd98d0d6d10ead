package access_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

const day = 24 * time.Hour

// replica is one server with the store of its fleet.
func replica(t *testing.T, s *store, c *clock) (*access.Issuer, *access.Authenticator) {
	t.Helper()
	i := must(access.NewIssuer(access.IssuerConfig{Store: s, Clock: c.now}))(t)
	return i, must(access.NewAuthenticator(access.AuthenticatorConfig{Builtin: i, Clock: c.now}))(t)
}

func issue(t *testing.T, i *access.Issuer, c access.Claims, ttl time.Duration) string {
	t.Helper()
	token, _, err := i.Issue(t.Context(), c, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestIssue(t *testing.T) {
	i, a := replica(t, newStore(), newClock())
	for name, tc := range map[string]struct {
		reason string
		claims access.Claims
		want   access.Principal
	}{
		"user":      {"a user with an organisation", access.Claims{User: "alice", Org: "acme", Account: "7"}, access.Principal{User: "alice", Org: "acme", Account: "7"}},
		"org admin": {"rights within the organisation", access.Claims{User: "alice", Org: "acme", OrgAdmin: true}, access.Principal{User: "alice", Org: "acme", OrgAdmin: true}},
		"admin":     {"the built-in issuer makes operators", access.Claims{User: "root", Admin: true}, access.Principal{User: "root", Admin: true, Roles: []string{"drover-admin"}}},
		"agent":     {"an agent speaks for one cluster", access.Claims{Cluster: "c1"}, access.Principal{Cluster: "c1", Roles: []string{"fleetshard_operator"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := a.Authenticate(t.Context(), issue(t, i, tc.claims, time.Hour))
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			tc.want.Issuer = i.Name()
			if tc.want.Cluster != "" {
				tc.want.Issued = start
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s: %s", tc.reason, d)
			}
		})
	}
}

func TestIssueRefuses(t *testing.T) {
	i, _ := replica(t, newStore(), newClock())
	for name, tc := range map[string]struct {
		reason string
		claims access.Claims
		ttl    time.Duration
	}{
		"nobody":      {"a token is somebody's", access.Claims{Org: "acme"}, time.Hour},
		"two in one":  {"a user is no agent", access.Claims{User: "alice", Cluster: "c1"}, time.Hour},
		"admin agent": {"an agent's token must not open more than its cluster", access.Claims{Cluster: "c1", Admin: true}, time.Hour},
		"no life":     {"a token that is over at once is a mistake", access.Claims{User: "alice"}, 0},
		"negative":    {"so is one from the past", access.Claims{User: "alice"}, -time.Hour},
		"eternal":     {"keys are kept only as long as tokens may live", access.Claims{User: "alice"}, 367 * day},
		"control":     {"names end in logs", access.Claims{User: "a\x00b"}, time.Hour},
		"long":        {"and in columns", access.Claims{User: strings.Repeat("a", 257)}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := i.Issue(t.Context(), tc.claims, tc.ttl); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: got %v", tc.reason, err)
			}
		})
	}
}

func TestReplicasShareOneKey(t *testing.T) {
	s, c := newStore(), newClock()
	const n = 8
	var tokens [n]string
	var all [n]*access.Authenticator
	var wg sync.WaitGroup
	for k := range n {
		i, a := replica(t, s, c)
		all[k] = a
		wg.Go(func() {
			var err error
			if tokens[k], _, err = i.Issue(t.Context(), access.Claims{User: "alice"}, time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if objects, secrets := s.keys(); objects != 1 || secrets != 1 {
		t.Errorf("%d replicas made %d keys and left %d secrets, want one each", n, objects, secrets)
	}
	for k, a := range all {
		if _, err := a.Authenticate(t.Context(), tokens[(k+1)%n]); err != nil {
			t.Errorf("replica %d does not accept its neighbour's token: %v", k, err)
		}
	}
}

func TestLosingTheRaceForAKey(t *testing.T) {
	s, c := newStore(), newClock()
	slow, a := replica(t, s, c)
	fast, _ := replica(t, s, c)
	s.before = func() { issue(t, fast, access.Claims{User: "bob"}, time.Hour) }
	token := issue(t, slow, access.Claims{User: "alice"}, time.Hour)
	if _, err := a.Authenticate(t.Context(), token); err != nil {
		t.Errorf("the loser must sign with the winner's key: %v", err)
	}
	if objects, secrets := s.keys(); objects != 1 || secrets != 1 {
		t.Errorf("the race left %d keys and %d secrets, want one each", objects, secrets)
	}
}

func TestKeysRotate(t *testing.T) {
	s, c := newStore(), newClock()
	i, a := replica(t, s, c)
	year := issue(t, i, access.Claims{Cluster: "c1"}, 365*day)
	first := kid(t, year)
	c.forward(31 * day)
	second := kid(t, issue(t, i, access.Claims{User: "alice"}, time.Hour))
	if first == second {
		t.Error("a month later the same key signs")
	}
	if _, err := a.Authenticate(t.Context(), year); err != nil {
		t.Errorf("the old key's token must stay good: %v", err)
	}
	for range 3 {
		c.forward(30 * day)
		issue(t, i, access.Claims{User: "alice"}, time.Hour)
	}
	objects, secrets := s.keys()
	if objects != 5 || secrets > 3 {
		t.Errorf("%d keys with %d private ones: past keys must verify but sign no more", objects, secrets)
	}
	_, later := replica(t, s, c)
	if _, err := later.Authenticate(t.Context(), year); err != nil {
		t.Errorf("a replica started later must accept it, too: %v", err)
	}
	c.forward(300 * day)
	if _, err := later.Authenticate(t.Context(), year); !fault.Is(err, fault.Denied) {
		t.Errorf("after its year the token is over, got %v", err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(must(i.JWKS(t.Context()))(t), &set); err != nil {
		t.Fatal(err)
	}
	for _, k := range set.Keys {
		if k.KeyID == first {
			t.Error("a key whose tokens are all over is still published")
		}
		if !k.IsPublic() {
			t.Error("a private key is published")
		}
	}
}

func kid(t *testing.T, token string) string {
	t.Helper()
	return must(jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256}))(t).Signatures[0].Header.KeyID
}

func TestForeignKeysOfTheBuiltinIssuer(t *testing.T) {
	s, c := newStore(), newClock()
	i, a := replica(t, s, c)
	issue(t, i, access.Claims{User: "alice"}, time.Hour)
	admin := map[string]any{"realm_access": map[string]any{"roles": []string{"drover-admin"}}}
	stranger, _ := replica(t, newStore(), c)
	for name, tc := range map[string]struct{ reason, token string }{
		"other fleet": {"another ledger's keys are not ours", issue(t, stranger, access.Claims{User: "root", Admin: true}, time.Hour)},
		"no kid":      {"a token must say which key signed it", sign(t, jose.ES256, "", otherKey, claims("drover", admin))},
		"borrowed id": {"our key's name with another signature", sign(t, jose.ES256, kid(t, issue(t, i, access.Claims{User: "x"}, time.Hour)), otherKey, claims("drover", admin))},
		"rsa":         {"we sign with ES256 alone", sign(t, jose.RS256, "x", rsaKey, claims("drover", admin))},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := a.Authenticate(t.Context(), tc.token); !fault.Is(err, fault.Denied) {
				t.Errorf("%s: got %v", tc.reason, err)
			}
		})
	}
	before := s.lists
	for range 200 {
		_, _ = a.Authenticate(t.Context(), sign(t, jose.ES256, "invented", otherKey, claims("drover", nil)))
	}
	if n := s.lists - before; n > 10 {
		t.Errorf("invented key ids became %d reads of the store", n)
	}
}

func TestIssuerWithoutStore(t *testing.T) {
	s, c := newStore(), newClock()
	i, a := replica(t, s, c)
	token := issue(t, i, access.Claims{User: "alice"}, time.Hour)
	s.away = fault.New(fault.Unavailable, "the store is away")
	if _, err := a.Authenticate(t.Context(), token); err != nil {
		t.Errorf("known keys must do without the store: %v", err)
	}
	_, fresh := replica(t, s, c)
	if _, err := fresh.Authenticate(t.Context(), token); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without keys nothing can be said about a token, got %v", err)
	}
	reads := s.lists
	for range 100 {
		if _, err := fresh.Authenticate(t.Context(), token); !fault.Is(err, fault.Unavailable) {
			t.Fatalf("the store is still away, got %v", err)
		}
	}
	if n := s.lists - reads; n > 0 {
		t.Errorf("%d callers asked again in the same second", n)
	}
	s.away = nil
	c.forward(time.Second)
	if _, err := fresh.Authenticate(t.Context(), token); err != nil {
		t.Errorf("the store is back: %v", err)
	}
	s.away = fault.New(fault.Unavailable, "the store is away")
	c.forward(40 * day)
	if _, _, err := i.Issue(t.Context(), access.Claims{User: "alice"}, time.Hour); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a new key cannot be made, got %v", err)
	}
}

func TestImpatientCallers(t *testing.T) {
	s, c := newStore(), newClock()
	i, _ := replica(t, s, c)
	blocked, leave := make(chan struct{}), make(chan struct{})
	s.before = func() { close(blocked); <-leave }
	done := make(chan error)
	go func() {
		_, _, err := i.Issue(t.Context(), access.Claims{User: "alice"}, time.Hour)
		done <- err
	}()
	<-blocked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := i.Issue(ctx, access.Claims{User: "bob"}, time.Hour); !fault.Is(err, fault.Unavailable) {
		t.Errorf("who stops waiting for a key gets %v", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
