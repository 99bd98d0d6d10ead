package access

import "context"

// Peer is what a connection says of its caller besides the token: whether it showed
// a certificate of an authority that is trusted, and which cluster that is for.
type Peer struct {
	Certified bool
	Cluster   string // empty: the certificate is for none in particular
}

type peerKey struct{}

// WithPeer returns a context that carries the peer.
func WithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerOf returns the peer of the context; the zero Peer has shown nothing.
func PeerOf(ctx context.Context) Peer {
	p, _ := ctx.Value(peerKey{}).(Peer)
	return p
}
