//go:build e2e

package openbao_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/droverhq/drover/test/openbao"
	"github.com/droverhq/drover/test/servers/rest"
)

const secret = "/v1/secret/data/greeting"

func put(t *testing.T, s *openbao.Server, value string) {
	t.Helper()
	in := map[string]any{"data": map[string]string{"text": value}}
	if err := s.API().Ask(t.Context(), "POST", secret, in, nil); err != nil {
		t.Fatal(err)
	}
}

func get(ctx context.Context, c rest.Client) (string, error) {
	var out struct {
		Data struct{ Data struct{ Text string } }
	}
	err := c.Ask(ctx, "GET", secret, nil, &out)
	return out.Data.Data.Text, err
}

func TestServersAreApart(t *testing.T) {
	one, two := openbao.Start(t), openbao.Start(t, openbao.WithData())
	put(t, one, "hello")
	if v, err := get(t.Context(), one.API()); err != nil || v != "hello" {
		t.Errorf("the one has %q, %v", v, err)
	}
	if v, err := get(t.Context(), two.API()); !rest.Is(err, 404) {
		t.Errorf("the other has it too: %q, %v", v, err)
	}
	if _, err := get(t.Context(), two.As(one.Token)); !rest.Is(err, 403) {
		t.Errorf("the token of one opens the other: %v", err)
	}
	var health struct{ Version string }
	if err := one.API().Ask(t.Context(), "GET", "/v1/sys/health", nil, &health); err != nil || health.Version != "2.4.0" {
		t.Errorf("version %q, %v", health.Version, err)
	}
}

// Whoever logs in reads, and writes nothing.
func TestWaysIn(t *testing.T) {
	s := openbao.Start(t)
	put(t, s, "hello")
	reader := s.Policy(t, `path "secret/data/*" { capabilities = ["read"] }`)
	login := func(method string, in any) (string, error) {
		var out struct {
			Auth struct {
				Token string `json:"client_token"`
			}
		}
		err := s.As("").Ask(t.Context(), "POST", "/v1/auth/"+method+"/login", in, &out)
		return out.Auth.Token, err
	}
	roleID, secretID := s.AppRole(t, "app", reader)
	mine, other := sign(t), sign(t)
	s.JWT(t, "job", mine.public, "openbao", reader)
	for _, c := range []struct {
		reason string
		in     func() (string, error)
		ok     bool
	}{
		{"a token", func() (string, error) { return s.TokenOf(t, "", reader), nil }, true},
		{"a token of one who may do nothing", func() (string, error) { return s.TokenOf(t, "1m"), nil }, false},
		{"a role", func() (string, error) {
			return login("approle", map[string]string{"role_id": roleID, "secret_id": secretID})
		}, true},
		{"a role with another secret", func() (string, error) {
			return login("approle", map[string]string{"role_id": roleID, "secret_id": "guess"})
		}, false},
		{"a signed token", func() (string, error) {
			return login("jwt", map[string]string{"role": "job", "jwt": mine.token(t, "openbao")})
		}, true},
		{"a signed token for somebody else", func() (string, error) {
			return login("jwt", map[string]string{"role": "job", "jwt": mine.token(t, "another")})
		}, false},
		{"a token that somebody else signed", func() (string, error) {
			return login("jwt", map[string]string{"role": "job", "jwt": other.token(t, "openbao")})
		}, false},
	} {
		token, err := c.in()
		if err == nil {
			_, err = get(t.Context(), s.As(token))
		}
		if (err == nil) != c.ok {
			t.Errorf("%s reads: %v", c.reason, err)
		}
		if err := s.As(token).Ask(t.Context(), "POST", secret, map[string]any{"data": map[string]string{}}, nil); err == nil {
			t.Errorf("%s writes", c.reason)
		}
	}
}

type signer struct {
	key    *ecdsa.PrivateKey
	public string
}

func sign(t *testing.T) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return signer{key, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}
}

func (s signer) token(t *testing.T, audience string) string {
	t.Helper()
	by, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(by).Claims(jwt.Claims{
		Subject: "somebody", Audience: jwt.Audience{audience}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)), IssuedAt: jwt.NewNumericDate(time.Now()),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestServersStopAndComeBack(t *testing.T) {
	s := openbao.Start(t, openbao.WithData())
	put(t, s, "hello")
	again := func(start func() error) func() error {
		return func() error {
			if err := start(); err != nil {
				return err
			}
			if _, err := get(t.Context(), s.API()); !rest.Is(err, 503) {
				t.Errorf("it was started, and is not sealed: %v", err)
			}
			return s.Unseal()
		}
	}
	for _, fault := range []struct {
		reason     string
		fail, heal func() error
	}{
		{"it is sealed", s.Seal, s.Unseal},
		{"it is paused", s.Pause, s.Resume},
		{"it is stopped", s.Stop, again(s.Start)},
		{"it is killed", s.Kill, again(s.Start)},
		{"it is sealed and restarted", s.Seal, s.Restart},
	} {
		if err := fault.fail(); err != nil {
			t.Fatalf("%s: %v", fault.reason, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := get(ctx, s.API()); err == nil {
			t.Errorf("%s, and it answers", fault.reason)
		}
		cancel()
		if err := fault.heal(); err != nil {
			t.Fatalf("after %s: %v", fault.reason, err)
		}
		if v, err := get(t.Context(), s.API()); err != nil || v != "hello" {
			t.Errorf("after %s: %q, %v", fault.reason, v, err)
		}
	}
}

func TestWithoutDataARestartForgets(t *testing.T) {
	s := openbao.Start(t)
	put(t, s, "hello")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if v, err := get(t.Context(), s.API()); !rest.Is(err, 404) {
		t.Errorf("it has %q, %v", v, err)
	}
	if err := s.Unseal(); err == nil {
		t.Error("what has no key was unsealed")
	}
}
