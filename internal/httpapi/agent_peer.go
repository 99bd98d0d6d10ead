package httpapi

import (
	"context"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

// vouched holds the certificate that a caller has shown against its token. One that
// is for a cluster is good for that cluster's agent alone: with another token it is
// in the wrong hands.
func (s *server) vouched(ctx context.Context, who access.Principal) error {
	peer := access.PeerOf(ctx)
	switch {
	case who.Cluster != "":
		return s.certified(ctx, who.Cluster)
	case peer.Cluster != "" && !s.accountOfAgent(who): // which cluster an account is of is found out later
		return fault.New(fault.Denied, "the certificate is that of the agent of cluster %.64q, and the token is not: use one that belongs to it", peer.Cluster).Because("denied")
	}
	return nil
}

// certified checks that the caller may speak for a cluster as far as its
// certificate goes.
func (s *server) certified(ctx context.Context, cluster string) error {
	peer := access.PeerOf(ctx)
	switch {
	case peer.Cluster != "" && peer.Cluster != cluster:
		return fault.New(fault.Denied, "the certificate is that of the agent of cluster %.64q, and the token that of another's: give the agent its own certificate", peer.Cluster).Because("denied")
	case s.AgentCertificates && !peer.Certified:
		return fault.New(fault.Denied, "agents must show a certificate here: start the agent with --client-certificate-file and --client-key-file, and let nothing in between end its TLS").Because("denied")
	}
	return nil
}
