package builtin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/droverhq/drover/internal/fault"
)

// refreshClaims is what a refresh token says. Clients written for Keycloak read
// from it until when a login may idle; here nothing counts but the sealed text
// in its id.
type refreshClaims struct {
	ID      string `json:"jti"`
	Issuer  string `json:"iss"`
	Type    string `json:"typ"`
	Client  string `json:"azp"`
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
}

// refreshToken wraps a sealed text in the form of a JWT. The key of its
// signature is the provider's alone, so that nobody can take it for an access
// token.
func (p *Provider) refreshToken(sealed, client string, now, expires time.Time) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: p.box.refreshKey()}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", fault.New(fault.Internal, "cannot sign a refresh token: %w", err)
	}
	data, err := json.Marshal(refreshClaims{
		ID: sealed, Issuer: p.issuer, Type: "Refresh", Client: client, Issued: now.Unix(), Expires: expires.Unix(),
	})
	if err != nil {
		return "", fault.New(fault.Internal, "cannot write a refresh token: %w", err)
	}
	signed, err := signer.Sign(data)
	if err != nil {
		return "", fault.New(fault.Internal, "cannot sign a refresh token: %w", err)
	}
	return signed.CompactSerialize()
}

// sealedIn returns the sealed text of a refresh token that this provider signed.
func (p *Provider) sealedIn(token string) (string, bool) {
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.HS256})
	if err != nil {
		return "", false
	}
	data, err := signed.Verify(p.box.refreshKey())
	if err != nil {
		return "", false
	}
	var claims refreshClaims
	if json.Unmarshal(data, &claims) != nil || claims.Issuer != p.issuer || claims.Type != "Refresh" {
		return "", false
	}
	return claims.ID, true
}

func (b *box) refreshKey() []byte {
	b.mu.Lock()
	h := hmac.New(sha256.New, b.mac)
	b.mu.Unlock()
	h.Write([]byte("signature of refresh tokens"))
	return h.Sum(nil)
}
