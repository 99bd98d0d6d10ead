package access_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/droverhq/drover/internal/access"
)

func TestASignatureOutlivesTheRotationOfItsKey(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	issuer, err := access.NewIssuer(access.IssuerConfig{Store: newStore(), Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte("what an agent keeps")
	signature, err := issuer.SignDetached(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	verifies := func(signature string, payload []byte) bool {
		data, err := issuer.JWKS(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var set jose.JSONWebKeySet
		if err := json.Unmarshal(data, &set); err != nil {
			t.Fatal(err)
		}
		signed, err := jose.ParseDetached(signature, payload, []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range set.Key(signed.Signatures[0].Header.KeyID) {
			if signed.DetachedVerify(payload, key) == nil {
				return true
			}
		}
		return false
	}
	if !verifies(signature, payload) || verifies(signature, []byte("another thing")) {
		t.Error("the signature is not one of what was signed, and of that alone")
	}
	now = now.Add(300 * 24 * time.Hour)
	later, err := issuer.SignDetached(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	if !verifies(signature, payload) || !verifies(later, payload) {
		t.Error("signatures do not outlive the rotation of keys")
	}
	if _, err := issuer.VerifySignature(t.Context(), signature); err == nil {
		t.Error("a detached signature passes for a token")
	}
}

func TestLife(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	issuer, err := access.NewIssuer(access.IssuerConfig{Store: newStore(), Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	token, expires, err := issuer.Issue(t.Context(), access.Claims{Cluster: "c1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	from, until, ok := access.Life(token)
	if !ok || !from.Equal(now) || !until.Equal(expires) {
		t.Errorf("from %s until %s, %v", from, until, ok)
	}
	for reason, token := range map[string]string{"no token": "", "two parts": "a.b", "no JSON": "a.b.c", "no times": "e30.e30.x"} {
		if _, _, ok := access.Life(token); ok {
			t.Errorf("%s has a life", reason)
		}
	}
}
