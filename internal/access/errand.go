package access

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/droverhq/drover/internal/fault"
)

// errandIssuer is the iss claim of tokens for errands. It is nobody whose tokens
// are accepted from a caller, and the typ claim says so again.
const (
	errandIssuer = "drover/errand"
	errandUse    = "Errand"
)

// maxErrand bounds the life of a token for an errand: it may stand in a URL.
const maxErrand = 24 * time.Hour

type errand struct {
	Issuer  string `json:"iss"`
	Use     string `json:"typ"`
	Purpose string `json:"purpose"`
	Subject string `json:"sub"`
	ID      string `json:"jti"`
	Since   int64  `json:"nbf"`
	Until   int64  `json:"exp"`
}

// IssueErrand signs a token that makes nobody a caller: it is good for one
// purpose on one subject, where somebody asks [Issuer.Errand] for exactly that.
func (i *Issuer) IssueErrand(ctx context.Context, purpose, subject string, ttl time.Duration) (token string, expires time.Time, err error) {
	switch {
	case purpose == "" || subject == "" || !presentable(purpose) || !presentable(subject):
		return "", time.Time{}, fault.New(fault.Invalid, "an errand has a purpose and a subject of at most %d bytes", maxName)
	case ttl < time.Second || ttl > maxErrand:
		return "", time.Time{}, fault.New(fault.Invalid, "a token for an errand lives for between 1s and %s", maxErrand)
	}
	key, err := i.now(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	now := i.clock().Truncate(time.Second)
	expires = now.Add(ttl).Truncate(time.Second)
	token, err = jwt.Signed(key.signer).Claims(errand{
		Issuer: errandIssuer, Use: errandUse, Purpose: purpose, Subject: subject, ID: rand.Text(), Since: now.Unix(), Until: expires.Unix(),
	}).Serialize()
	if err != nil {
		return "", time.Time{}, fault.New(fault.Internal, "cannot sign a token: %w", err)
	}
	return token, expires, nil
}

// Errand says whether the token is good for the purpose on the subject now.
// Faults: Denied (reason "token") if it is not; Unavailable where the keys cannot be had.
func (i *Issuer) Errand(ctx context.Context, token, purpose, subject string) error {
	if token == "" || len(token) > maxToken {
		return refused("the token is empty or longer than %d bytes", maxToken)
	}
	payload, err := i.VerifySignature(ctx, token)
	if fault.Is(err, fault.Unavailable) {
		return err
	}
	var e errand
	if err != nil || json.Unmarshal(payload, &e) != nil || e.Issuer != errandIssuer || e.Use != errandUse {
		return refused("the token is not one for this")
	}
	// A replica whose clock is behind must not refuse what another one just signed.
	now := i.clock()
	switch {
	case e.Purpose != purpose || e.Subject != subject || purpose == "" || subject == "":
		return refused("the token is for something else")
	case now.Before(time.Unix(e.Since, 0).Add(-maxSkew)) || !now.Before(time.Unix(e.Until, 0)):
		return refused("the token has expired: have another one made")
	}
	return nil
}
