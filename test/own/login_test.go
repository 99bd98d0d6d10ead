//go:build e2e

package own

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
	"github.com/droverhq/drover/test/openbao"
)

// short are lives in which Drover logs in anew every few seconds, with what its file holds
// by then.
var short = lives{lease: 6, most: 12, token: 5, mostToken: 10}

// others waits for a user of the database that was none before.
func (w *world) others(t *testing.T, what string) {
	t.Helper()
	before := w.users(t)
	drover.Until(t, what, func() bool {
		now := w.users(t)
		return len(now) > 0 && !slices.Contains(before, now[0])
	})
}

// by is w.flags with another login.
func (w *world) by(options string) []string {
	out := slices.Clone(w.flags)
	out[slices.Index(out, "--vault-options")+1] = options
	return out
}

// follows is what is the same with every login by a file: sessions follow one another; a file
// that is of no use any more is told of and does no harm to what is open; another one is
// taken without a restart.
func (w *world) follows(t *testing.T, options, file string, spoil func(), renew func() string) {
	t.Helper()
	s := drover.Serve(t, w.by(options)...)
	l := newLoad(t, s, 2)
	w.others(t, "a second session")
	spoil()
	drover.Until(t, "the doctor to say that the login is refused", func() bool { return strings.Contains(doctor(s), "what opens the database") })
	l.more(t, "without a login")
	token := renew()
	put(t, file, []byte(token+"\n"))
	w.others(t, "a session with the new file")
	drover.Until(t, "the doctor to be content", func() bool { return !strings.Contains(doctor(s), "what opens the database") })
	l.check(t)
	quiet(t, s, token)
}

func TestLoginByJWT(t *testing.T) {
	w := newWorld(t, short)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	sign := func(audience string, life time.Duration) string {
		t.Helper()
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		out, err := jwt.Signed(signer).Claims(jwt.Claims{
			Subject: "drover", Audience: jwt.Audience{audience}, IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(life)),
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	w.bao.JWT(t, "drover", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), "vault", w.policy)
	w.ask(t, "auth/jwt/role/drover", map[string]any{
		"role_type": "jwt", "user_claim": "sub", "bound_audiences": []string{"vault"}, "token_policies": []string{w.policy},
		"token_ttl": short.token, "token_max_ttl": short.mostToken, "expiration_leeway": -1, "clock_skew_leeway": -1,
	})
	file := filepath.Join(t.TempDir(), "token")
	put(t, file, []byte(sign("somebody else", time.Hour)))
	options := "auth=jwt,role=drover,jwt-file=" + file
	ends(t, "does not let Drover log in", w.by(options)...)
	ends(t, "jwt-file", w.by("auth=jwt,role=drover")...)
	ends(t, "role", w.by("auth=jwt,jwt-file="+file)...)
	put(t, file, []byte(sign("vault", time.Hour)))
	w.follows(t, options, file, func() { put(t, file, []byte(sign("vault", -time.Second))) }, func() string { return sign("vault", time.Hour) })
}

// The cluster's own API is asked whose the token is.
func TestLoginByServiceAccount(t *testing.T) {
	w, c := newWorld(t, short), kubernetes.Start(t)
	ns := c.Namespace(t)
	accounts := c.Client(t).CoreV1().ServiceAccounts(ns)
	create := func(name string) {
		t.Helper()
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	token := func(name, audience string) string {
		t.Helper()
		out, err := accounts.CreateToken(t.Context(), name, &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{Audiences: []string{audience}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out.Status.Token
	}
	create("drover")
	create("other")
	w.bao.Kubernetes(t, "drover", openbao.Cluster{
		URL: c.URL, Authority: string(c.Admin().CAData), Reviewer: c.Admin().BearerToken, Namespace: ns, Account: "drover",
	}, w.policy)
	w.ask(t, "auth/kubernetes/role/drover", map[string]any{
		"bound_service_account_names": "drover", "bound_service_account_namespaces": ns, "audience": "vault", "token_policies": []string{w.policy},
		"token_ttl": short.token, "token_max_ttl": short.mostToken,
	})
	file := filepath.Join(t.TempDir(), "token")
	options := "auth=kubernetes,role=drover,jwt-file=" + file
	for reason, text := range map[string]string{"another account": token("other", "vault"), "another audience": token("drover", "somebody-else")} {
		put(t, file, []byte(text))
		if s := ends(t, "does not let Drover log in", w.by(options)...); strings.Contains(s.Log(), text) {
			t.Errorf("%s: the log holds the token", reason)
		}
	}
	put(t, file, []byte(token("drover", "vault")))
	w.follows(t, options, file, func() {
		// An account that is made anew is another one: its tokens of before are nobody's.
		if err := accounts.Delete(t.Context(), "drover", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}, func() string { create("drover"); return token("drover", "vault") })
}
