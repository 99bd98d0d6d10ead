package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// SignDetached signs bytes that travel apart from their signature, which is a
// JWS in compact form without its middle part. The key is one of JWKS: it stays
// in the set for as long as the longest token lives after it was last used.
func (i *Issuer) SignDetached(ctx context.Context, payload []byte) (string, error) {
	key, err := i.now(ctx)
	if err != nil {
		return "", err
	}
	signed, err := key.plain.Sign(payload)
	if err == nil {
		var out string
		if out, err = signed.DetachedCompactSerialize(); err == nil {
			return out, nil
		}
	}
	return "", fault.New(fault.Internal, "cannot sign: %w", err)
}

// Life reads from when until when a token is good; ok is false if it does not
// say. It verifies nothing: it is for tokens that were authenticated before.
func Life(token string) (from, until time.Time, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return from, until, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var c struct {
		Issued  int64 `json:"iat"`
		Expires int64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &c) != nil || c.Issued <= 0 || c.Expires <= c.Issued {
		return from, until, false
	}
	return time.Unix(c.Issued, 0), time.Unix(c.Expires, 0), true
}
