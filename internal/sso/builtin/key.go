package builtin

import (
	"context"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/op"
)

func (s *storage) SigningKey(ctx context.Context) (op.SigningKey, error) {
	key, err := s.p.Keys.SigningKey(ctx)
	if err != nil {
		return nil, note(ctx, err)
	}
	return signingKey{key}, nil
}

func (s *storage) KeySet(ctx context.Context) ([]op.Key, error) {
	keys, err := s.p.Keys.PublicKeys(ctx)
	if err != nil {
		return nil, note(ctx, err)
	}
	out := make([]op.Key, 0, len(keys))
	for _, k := range keys {
		out = append(out, publicKey{k})
	}
	return out, nil
}

func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

type signingKey struct{ key jose.JSONWebKey }

func (k signingKey) ID() string { return k.key.KeyID }
func (k signingKey) Key() any   { return k.key.Key }
func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm {
	return jose.SignatureAlgorithm(k.key.Algorithm)
}

type publicKey struct{ key jose.JSONWebKey }

func (k publicKey) ID() string  { return k.key.KeyID }
func (k publicKey) Key() any    { return k.key.Key }
func (k publicKey) Use() string { return "sig" }
func (k publicKey) Algorithm() jose.SignatureAlgorithm {
	return jose.SignatureAlgorithm(k.key.Algorithm)
}
