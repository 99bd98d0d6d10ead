package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
)

// issuer is an OIDC provider: discovery, keys, and tokens signed with them.
type issuer struct {
	*httptest.Server
	rsa   *rsa.PrivateKey
	ec    *ecdsa.PrivateKey
	other *rsa.PrivateKey // is not published
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	var err error
	if i.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	if i.other, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	if i.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v)
		}
	}
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	mux.HandleFunc("/.well-known/openid-configuration", answer(map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "token_endpoint": i.URL + "/token", "authorization_endpoint": i.URL + "/auth",
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256"},
		"response_types_supported":              []string{"code"}, "subject_types_supported": []string{"public"},
	}))
	mux.HandleFunc("/keys", answer(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: i.rsa.Public(), KeyID: "r1", Algorithm: "RS256", Use: "sig"},
		{Key: i.ec.Public(), KeyID: "e1", Algorithm: "ES256", Use: "sig"},
	}}))
	return i
}

// token signs claims over those of an ordinary user.
func (i *issuer) token(t *testing.T, key jose.SigningKey, id string, more map[string]any) string {
	t.Helper()
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "sub": "s-1", "username": "alice", "org_id": "acme",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(claims, more)
	for k, v := range claims {
		if v == nil {
			delete(claims, k)
		}
	}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", id))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (i *issuer) rs256(t *testing.T, more map[string]any) string {
	return i.token(t, jose.SigningKey{Algorithm: jose.RS256, Key: i.rsa}, "r1", more)
}

func TestOIDC(t *testing.T) {
	good, evil := newIssuer(t), newIssuer(t)
	s := drover.Up(t, "--oidc-issuers", good.URL)
	es256 := jose.SigningKey{Algorithm: jose.ES256, Key: good.ec}
	roles := func(names ...string) map[string]any { return map[string]any{"roles": names} }

	t.Run("claims", func(t *testing.T) {
		for name, c := range map[string]struct {
			reason, token string
			want          v1.WhoAmI
		}{
			"RS256":      {"The reference's algorithm.", good.rs256(t, nil), v1.WhoAmI{User: "alice", Org: "acme"}},
			"ES256":      {"The second algorithm.", good.token(t, es256, "e1", nil), v1.WhoAmI{User: "alice", Org: "acme"}},
			"alternates": {"Both names of a claim are read.", good.rs256(t, map[string]any{"username": nil, "preferred_username": "bob", "org_id": nil, "rh-org-id": "13"}), v1.WhoAmI{User: "bob", Org: "13"}},
			"org admin":  {"An issuer says who leads an organisation.", good.rs256(t, map[string]any{"is_org_admin": true}), v1.WhoAmI{User: "alice", Org: "acme", OrgAdmin: true}},
			"no org":     {"A user may have none.", good.rs256(t, map[string]any{"org_id": nil}), v1.WhoAmI{User: "alice"}},
			"admin role": {"An outside issuer makes no admins.", good.rs256(t, map[string]any{"realm_access": roles("drover-admin", "fleet-manager-admin-full")}), v1.WhoAmI{User: "alice", Org: "acme"}},
			"admin name": {"A name is not a right.", good.rs256(t, map[string]any{"username": "admin", "org_id": "local"}), v1.WhoAmI{User: "admin", Org: "local"}},
			"agent":      {"Nor does it make agents.", good.rs256(t, map[string]any{"fleetshard-operator-cluster-id": "local", "realm_access": roles("fleetshard_operator")}), v1.WhoAmI{User: "alice", Org: "acme"}},
		} {
			got, err := dial(t, s.URL(), c.token).WhoAmI(context.Background())
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%s: %s %v\n%s", name, c.reason, err, diff)
			}
		}
	})

	t.Run("refused", func(t *testing.T) {
		past := time.Now().Add(-time.Hour).Unix()
		none := "eyJhbGciOiJub25lIn0." + "eyJpc3MiOiJ4In0" + "."
		hmac := good.token(t, jose.SigningKey{Algorithm: jose.HS256, Key: good.rsa.N.Bytes()}, "r1", nil)
		whole := good.rs256(t, nil)
		for name, c := range map[string]struct{ reason, token string }{
			"issuer":    {"An issuer that nobody configured.", evil.rs256(t, nil)},
			"borrowed":  {"Another issuer's key under the right name.", evil.rs256(t, map[string]any{"iss": good.URL})},
			"key":       {"A key that is not published.", good.token(t, jose.SigningKey{Algorithm: jose.RS256, Key: good.other}, "r1", nil)},
			"key id":    {"A key id that nobody has.", good.token(t, jose.SigningKey{Algorithm: jose.RS256, Key: good.other}, "zz", nil)},
			"algorithm": {"A strong key with an algorithm that is not accepted.", good.token(t, jose.SigningKey{Algorithm: jose.RS512, Key: good.rsa}, "r1", nil)},
			"hmac":      {"A public key is no shared secret.", hmac},
			"none":      {"No signature at all.", none},
			"expired":   {"Its time is over.", good.rs256(t, map[string]any{"exp": past})},
			"forever":   {"A token that never ends.", good.rs256(t, map[string]any{"exp": nil})},
			"not yet":   {"Its time has not come.", good.rs256(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()})},
			"nobody":    {"A token that names no user.", good.rs256(t, map[string]any{"username": nil})},
			"changed":   {"A byte of the signature.", whole[:len(whole)-8] + "AAAAAAAA"},
			"builtin":   {"The built-in issuer's name with another's key.", good.rs256(t, map[string]any{"iss": "drover", "realm_access": roles("drover-admin")})},
			"no issuer": {"No issuer.", good.rs256(t, map[string]any{"iss": nil})},
		} {
			a := drover.Must(t, drover.Request{Method: http.MethodGet, URL: s.URL() + "/api/dinosaurs_mgmt/v1/dinosaurs", Token: c.token})
			if e := a.Error(); a.Status != 401 || e.Code != "DINOSAURS-MGMT-15" {
				t.Errorf("%s: %s status %d, code %s: %s", name, c.reason, a.Status, e.Code, e.Reason)
			}
		}
	})

	t.Run("trusted", func(t *testing.T) {
		s := drover.Up(t, "--oidc-issuers", good.URL, "--oidc-audience", "drover", "--oidc-trust", "admins,agents")
		ours := map[string]any{"aud": "drover", "realm_access": roles("drover-admin")}
		got, err := dial(t, s.URL(), good.rs256(t, ours)).WhoAmI(context.Background())
		if diff := cmp.Diff(v1.WhoAmI{User: "alice", Org: "acme", Admin: true}, got); err != nil || diff != "" {
			t.Errorf("an issuer that makes admins: %v\n%s", err, diff)
		}
		// The local cluster belongs to the agent that up has brought along.
		if _, err := s.Client(t).Create(context.Background(), "clusters", v1.CreateCluster{Name: "edge", Provider: "local", Region: "edge"}); err != nil {
			t.Fatal(err)
		}
		agent := map[string]any{"aud": "drover", "fleetshard-operator-cluster-id": "edge", "realm_access": roles("fleetshard_operator")}
		desired := s.URL() + "/api/dinosaurs_mgmt/v1/agent-clusters/edge/dinosaurs"
		for name, c := range map[string]struct {
			reason, url string
			claims      map[string]any
			want        int
		}{
			"agent":    {"An outside agent reads what its cluster is to have.", desired, agent, 200},
			"audience": {"A token for another service of the same issuer.", desired, map[string]any{"aud": "wiki"}, 401},
			"any":      {"A token for nobody in particular.", desired, nil, 401},
			"user":     {"An agent is no user.", s.URL() + "/api/dinosaurs_mgmt/v1/dinosaurs", agent, 403},
		} {
			if a := drover.Must(t, drover.Request{Method: http.MethodGet, URL: c.url, Token: good.rs256(t, c.claims)}); a.Status != c.want {
				t.Errorf("%s: %s status %d, want %d", name, c.reason, a.Status, c.want)
			}
		}
	})

	t.Run("scoping", func(t *testing.T) { scoping(t, s, good) })

	t.Run("no admin rights", func(t *testing.T) {
		mallory := good.rs256(t, map[string]any{"username": "admin", "org_id": "local", "is_org_admin": true,
			"realm_access": roles("drover-admin", "fleet-manager-admin-full", "fleetshard_operator"), "fleetshard-operator-cluster-id": "local"})
		c := dial(t, s.URL(), mallory)
		ctx := context.Background()
		_, err := c.Token(ctx, v1.TokenRequest{User: "x", Admin: true})
		forbidden(t, "make tokens", err)
		_, err = c.Apply(ctx, []byte("kind: Offering"))
		forbidden(t, "apply offerings", err)
		_, err = c.Create(ctx, "clusters", v1.CreateCluster{Name: "x", Provider: "local", Region: "local"})
		forbidden(t, "register clusters", err)
		_, err = c.Sync(ctx, "local", v1.Sync{Protocol: v1.Protocol, Agent: "x", Number: 1})
		forbidden(t, "speak for a cluster", err)
		a := drover.Must(t, drover.Request{Method: http.MethodGet, URL: s.URL() + "/api/dinosaurs_mgmt/v1/admin/dinosaurs", Token: mallory})
		if a.Status != 404 {
			t.Errorf("the admin API answers %d", a.Status)
		}
	})

	// The issuer is gone: tokens that were verified are still known, the
	// built-in issuer's are not concerned.
	t.Run("issuer gone", func(t *testing.T) {
		good.Close()
		if _, err := s.Client(t).WhoAmI(context.Background()); err != nil {
			t.Errorf("the built-in issuer's tokens: %v", err)
		}
	})
}

func forbidden(t *testing.T, what string, err error) {
	t.Helper()
	if got := client.Status(err); got != 403 && got != 404 {
		t.Errorf("an outside issuer's user may %s: status %d, %v", what, got, err)
	}
}

// scoping: whoever has an organisation sees it, others see what they own;
// owners and org admins delete.
func scoping(t *testing.T, s *drover.Server, i *issuer) {
	as := func(user, org string, orgAdmin bool) *client.Client {
		claims := map[string]any{"username": user, "org_id": nil, "is_org_admin": orgAdmin}
		if org != "" {
			claims["org_id"] = org
		}
		return dial(t, s.URL(), i.rs256(t, claims))
	}
	alice, bob, boss := as("alice", "acme", false), as("bob", "acme", false), as("boss", "acme", true)
	stranger, loner := as("alice", "umbrella", true), as("alice", "", false)
	mustOrder(t, alice, "ours")
	mustOrder(t, loner, "mine")
	names := func(c *client.Client) (out []string) {
		l, err := c.List(context.Background(), "dinosaurs", client.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range l.Items {
			out = append(out, o.Name)
		}
		slices.Sort(out)
		return out
	}
	for name, c := range map[string]struct {
		reason string
		client *client.Client
		want   []string
	}{
		"owner":     {"The owner sees the organisation's.", alice, []string{"ours"}},
		"colleague": {"So does a colleague.", bob, []string{"ours"}},
		"stranger":  {"The same name in another organisation is another person.", stranger, nil},
		"loner":     {"Without an organisation: what one owns outside of all.", loner, []string{"mine"}},
	} {
		if diff := cmp.Diff(c.want, names(c.client)); diff != "" {
			t.Errorf("%s: %s\n%s", name, c.reason, diff)
		}
	}
	del := func(c *client.Client) int {
		_, err := c.Delete(context.Background(), "dinosaurs", "ours")
		return client.Status(err)
	}
	if got := del(stranger); got != 404 {
		t.Errorf("a stranger's delete gets %d", got)
	}
	if got := del(bob); got != 403 && got != 404 {
		t.Errorf("a colleague's delete gets %d", got)
	}
	if got := phase(alice, "ours"); got == "deprovision" || got == "deleting" {
		t.Errorf("it is %s", got)
	}
	if _, err := boss.Delete(context.Background(), "dinosaurs", "ours"); err != nil {
		t.Errorf("the org admin's delete: %v", err)
	}
}
