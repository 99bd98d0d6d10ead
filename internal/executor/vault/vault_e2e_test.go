//go:build e2e

package vault_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/executor/vault"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/test/openbao"
	"github.com/droverhq/drover/test/servers/rest"
)

func TestContractOnOpenBao(t *testing.T) {
	s := openbao.Start(t)
	h := hands{s.URL, s.Token}
	t.Run("given", func(t *testing.T) { executortest.Run(t, secrets(executortest.Before(t, s.URL), h, false)) })
	t.Run("policies", func(t *testing.T) { executortest.Run(t, policies(executortest.Before(t, s.URL), h)) })
	t.Run("rotation", func(t *testing.T) { generated(t, s.URL, s.Token) })
}

// The server itself is killed or sealed when it is down, and stopped in its
// tracks when it hangs.
func TestContractOnBadDays(t *testing.T) {
	s := openbao.Start(t, openbao.WithData())
	must := func(t testing.TB, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sealed := func(t testing.TB) func() {
		must(t, s.Seal())
		return func() { must(t, s.Unseal()) }
	}
	killed := func(t testing.TB) func() {
		must(t, s.Kill())
		return func() { must(t, s.Start()); must(t, s.Unseal()) }
	}
	paused := func(t testing.TB) func() {
		must(t, s.Pause())
		return func() { must(t, s.Resume()) }
	}
	for name, down := range map[string]func(testing.TB) func(){"sealed": sealed, "killed": killed} {
		t.Run(name, func(t *testing.T) {
			c := secrets(executortest.Before(t, s.URL), hands{s.URL, s.Token}, name == "killed")
			c.Down, c.Hang = down, paused
			executortest.Run(t, c)
		})
	}
	k := newKeeper(vault.New(impatient()), connection(s.URL, s.Token), generate("1"))
	before := k.apply(t)
	must(t, s.Stop())
	must(t, s.Start())
	if o, err := k.e.Observe(t.Context(), k.r); !fault.Is(err, fault.Unavailable) || fault.Reason(err) != "sealed" || !strings.Contains(err.Error(), "unseal it") {
		t.Errorf("sealed after a restart: %+v, %v", o, err)
	}
	must(t, s.Unseal())
	if after := k.apply(t); after["password"] != before["password"] {
		t.Error("after a restart there is another password")
	}
}

// mayAll is of one who keeps what the executor makes, and may ask about himself.
const mayAll = `path "secret/*" { capabilities = ["create", "read", "update", "delete", "list"] }`

func TestTokens(t *testing.T) {
	s := openbao.Start(t)
	all := s.Policy(t, mayAll)
	expect := func(t *testing.T, k *keeper, reason, next string) {
		t.Helper()
		o, err := k.e.Observe(t.Context(), k.r)
		if !fault.Is(err, fault.Denied) || fault.Reason(err) != reason || !strings.Contains(err.Error(), next) {
			t.Errorf("observed %+v, %v (%v, %q)", o, err, fault.Of(err), fault.Reason(err))
		}
		if _, err := k.e.Apply(t.Context(), k.r); !fault.Is(err, fault.Denied) || fault.Reason(err) != reason {
			t.Errorf("applied: %v", err)
		}
		if _, err := k.e.Destroy(t.Context(), k.r); !fault.Is(err, fault.Denied) || fault.Reason(err) != reason {
			t.Errorf("destroyed: %v", err)
		}
	}
	made := func(t *testing.T, c executor.Connection) *keeper {
		t.Helper()
		in := generate("1")
		in["path"] = "shop/" + strings.ReplaceAll(t.Name(), "/", "-")
		k := newKeeper(vault.New(impatient()), c, in)
		k.r.ID = t.Name()
		return k
	}
	t.Run("expired", func(t *testing.T) {
		var k *keeper
		for ttl, used := 2*time.Second, false; !used; ttl *= 4 {
			token := s.TokenOf(t, ttl.String(), all)
			k = made(t, connection(s.URL, token))
			_, err := k.e.Apply(t.Context(), k.r)
			if used = err == nil; !used && (!fault.Is(err, fault.Denied) || ttl > time.Minute) { // it may end before it was used, on a machine that is busy
				t.Fatal(err)
			}
			over(t, s, token)
		}
		expect(t, k, "token", "put a new one")
	})
	t.Run("renewed", func(t *testing.T) {
		now := time.Now()
		with := impatient()
		with.Now = func() time.Time { return now }
		token := s.TokenOf(t, "1h", all)
		k := made(t, connection(s.URL, token))
		k.e = vault.New(with)
		k.apply(t)
		now = now.Add(45 * time.Minute)
		k.apply(t)
		var self struct {
			Data struct {
				Renewed int64 `json:"last_renewal_time"`
			} `json:"data"`
		}
		if err := s.As(token).Ask(t.Context(), http.MethodGet, "/v1/auth/token/lookup-self", nil, &self); err != nil || self.Data.Renewed == 0 {
			t.Errorf("it was not renewed: %v", err)
		}
	})
	t.Run("without rights", func(t *testing.T) {
		k := made(t, connection(s.URL, s.TokenOf(t, "", s.Policy(t, `path "secret/data/elsewhere" { capabilities = ["read"] }`))))
		expect(t, k, "denied", "secret/metadata/shop")
	})
	t.Run("without rights anywhere in the mount", func(t *testing.T) {
		expect(t, made(t, connection(s.URL, s.TokenOf(t, ""))), "denied", "mount")
	})
	t.Run("of nobody", func(t *testing.T) { expect(t, made(t, connection(s.URL, "s.none")), "token", "put a new one") })

	t.Run("approle", func(t *testing.T) {
		role, secret := s.AppRole(t, "drover", all)
		k := made(t, executor.Connection{"address": s.URL, "auth": "approle", "roleId": role, "secretId": secret})
		k.apply(t)
		if err := s.API().Ask(t.Context(), http.MethodPut, "/v1/sys/leases/revoke-prefix/auth/approle", map[string]any{"sync": true}, nil); err != nil {
			t.Fatal(err)
		}
		k.apply(t)
		if o, err := k.e.Observe(t.Context(), k.r); err != nil || !o.Exists {
			t.Errorf("after its tokens were revoked: %+v, %v", o, err)
		}
		expect(t, made(t, executor.Connection{"address": s.URL, "auth": "approle", "roleId": role, "secretId": "wrong"}), "login", "check its role")
		expect(t, made(t, executor.Connection{"address": s.URL, "auth": "approle", "authMount": "nowhere", "roleId": role, "secretId": secret}), "login", "auth/nowhere")
	})
	t.Run("jwt", func(t *testing.T) {
		key, public := pair(t)
		s.JWT(t, "drover", public, "bao", all)
		made(t, executor.Connection{"address": s.URL, "auth": "jwt", "role": "drover", "jwt": sign(t, key, "bao")}).apply(t)
		expect(t, made(t, executor.Connection{"address": s.URL, "auth": "jwt", "role": "drover", "jwt": sign(t, key, "others")}), "login", "check its role")
	})
	t.Run("kubernetes", func(t *testing.T) {
		key, _ := pair(t)
		token := sign(t, key, "kubernetes")
		s.Kubernetes(t, "drover", reviewer(t, token), all)
		made(t, executor.Connection{"address": s.URL, "auth": "kubernetes", "role": "drover", "jwt": token}).apply(t)
		expect(t, made(t, executor.Connection{"address": s.URL, "auth": "kubernetes", "role": "drover", "jwt": sign(t, key, "else")}), "login", "check its role")
	})
}

// over waits until a token is refused.
func over(t *testing.T, s *openbao.Server, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	for {
		err := s.As(token).Ask(ctx, http.MethodGet, "/v1/auth/token/lookup-self", nil, nil)
		if rest.Is(err, http.StatusForbidden) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the token is still good: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func pair(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// sign makes a token as service accounts have it.
func sign(t *testing.T, key *ecdsa.PrivateKey, audience string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	out, err := jwt.Signed(signer).Claims(jwt.Claims{
		Subject: "system:serviceaccount:fleet:drover", Issuer: "kubernetes/serviceaccount",
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Hour)),
	}).Claims(map[string]any{
		"aud":           []string{audience}, // always a list, which one auth method insists on
		"kubernetes.io": map[string]any{"namespace": "fleet", "serviceaccount": map[string]any{"name": "drover", "uid": "u-1"}},
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// reviewer is as much of a Kubernetes as tells whose a token is.
func reviewer(t *testing.T, good string) openbao.Cluster {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Spec struct {
				Token string `json:"token"`
			} `json:"spec"`
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		status := map[string]any{"authenticated": review.Spec.Token == good}
		if review.Spec.Token == good {
			status["audiences"] = []string{"kubernetes"}
			status["user"] = map[string]any{"username": "system:serviceaccount:fleet:drover", "uid": "u-1", "groups": []string{"system:serviceaccounts"}}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status})
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return openbao.Cluster{URL: server.URL, Authority: string(authority), Reviewer: "reviewer", Namespace: "fleet", Account: "drover"}
}
