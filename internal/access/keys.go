package access

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"

	"github.com/droverhq/drover/internal/fault"
)

// maxKeys bounds a key document.
const maxKeys = 1 << 20

var signatures = []jose.SignatureAlgorithm{jose.RS256, jose.ES256}

// keys are an issuer's public keys. They are read again when a token names one
// that is not there, but no more often than the limiter allows: tokens with
// invented key ids must not become requests to the issuer.
type keys struct {
	load  func(context.Context) ([]jose.JSONWebKey, error)
	clock func() time.Time
	again *rate.Limiter

	loading turn
	mu      sync.Mutex // of what follows; never held during a request
	list    []jose.JSONWebKey
	err     error // of the last read
}

func newKeys(o OIDC, client *http.Client, clock func() time.Time) (*keys, error) {
	k := &keys{clock: clock, loading: newTurn(), again: rate.NewLimiter(rate.Every(10*time.Second), 3)}
	switch {
	case o.JWKSFile != "":
		data, err := os.ReadFile(o.JWKSFile)
		if err != nil {
			return nil, fault.New(fault.Invalid, "cannot read the keys of issuer %q: %w", o.Issuer, err)
		}
		list, err := parseKeys(data)
		if err != nil {
			return nil, fault.New(fault.Invalid, "the key file of issuer %q holds no JSON Web Key Set: %w", o.Issuer, err)
		}
		k.load = func(context.Context) ([]jose.JSONWebKey, error) { return list, nil }
	default:
		k.load = remote(o, client)
	}
	return k, nil
}

// remote reads keys from the issuer, whose discovery document is asked first
// unless the place of the keys is given.
func remote(o OIDC, client *http.Client) func(context.Context) ([]jose.JSONWebKey, error) {
	url := o.JWKSURL
	return func(ctx context.Context) ([]jose.JSONWebKey, error) {
		if url == "" {
			p, err := oidc.NewProvider(oidc.ClientContext(ctx, client), o.Issuer)
			if err != nil {
				return nil, err
			}
			var doc struct {
				JWKS string `json:"jwks_uri"`
			}
			if err := p.Claims(&doc); err != nil {
				return nil, err
			}
			url = doc.JWKS
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxKeys))
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			return nil, fault.New(fault.Unavailable, "the issuer answered %s", resp.Status)
		}
		return parseKeys(data)
	}
}

func parseKeys(data []byte) ([]jose.JSONWebKey, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, err
	}
	var public []jose.JSONWebKey
	for _, key := range set.Keys {
		// A symmetric key in the set must never verify anything.
		if key.IsPublic() && key.Valid() && key.Use != "enc" {
			public = append(public, key)
		}
	}
	if len(public) == 0 {
		return nil, fault.New(fault.Invalid, "no public key in it")
	}
	return public, nil
}

// VerifySignature implements oidc.KeySet.
func (k *keys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSigned(token, signatures)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, fault.New(fault.Denied, "malformed token")
	}
	id := signed.Signatures[0].Header.KeyID
	list, _ := k.now()
	if payload, ok := verify(signed, list, id); ok {
		return payload, nil
	}
	if known(list, id) {
		return nil, fault.New(fault.Denied, "the signature is not that of its key")
	}
	list, err = k.refresh(ctx, id)
	if payload, ok := verify(signed, list, id); ok {
		return payload, nil
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot read the issuer's keys: %w", err)
	}
	return nil, fault.New(fault.Denied, "no key of the issuer made this signature")
}

func (k *keys) now() ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list, k.err
}

// refresh reads the keys again unless another caller just did. One caller's
// impatience does not spoil the answer for the others.
func (k *keys) refresh(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	if err := k.loading.take(ctx); err != nil {
		return nil, err
	}
	defer k.loading.give()
	list, err := k.now()
	if known(list, id) || !k.again.AllowN(k.clock(), 1) {
		return list, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	fresh, err := k.load(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err = err; err == nil {
		k.list = fresh
	}
	return k.list, k.err
}

// verify tries the key that is named, all of them if none is.
func verify(signed *jose.JSONWebSignature, list []jose.JSONWebKey, id string) ([]byte, bool) {
	for i := range list {
		if id != "" && list[i].KeyID != "" && list[i].KeyID != id {
			continue
		}
		if payload, err := signed.Verify(&list[i]); err == nil {
			return payload, true
		}
	}
	return nil, false
}

func known(list []jose.JSONWebKey, id string) bool {
	return id != "" && slices.ContainsFunc(list, func(k jose.JSONWebKey) bool { return k.KeyID == id })
}

// turn is a lock that one can stop waiting for.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "gave up waiting for signing keys: %w", context.Cause(ctx))
	}
}

func (t turn) give() { <-t }
