// Package provider is the port of what makes clusters: an existing Kubernetes
// cluster that is only described, a template that OpenTofu carries out. Each
// lives in a folder of its own and passes providertest.
//
// A provider must not know the ledger, agents or instances: it makes a cluster,
// tells how to reach it, and takes it away.
package provider

import (
	"context"
	"time"
)

// Provider makes clusters. Both methods return soon or when ctx ends, can be
// called again at any time, also after the caller was killed in the middle, and
// go on where the last call stopped. A fault.Invalid cannot be mended by trying
// again; everything else may be.
type Provider interface {
	// Ensure makes the cluster be there, or goes on making it.
	Ensure(ctx context.Context, c Cluster) (Progress, error)
	// Remove takes away everything that Ensure has made; nothing is fine.
	Remove(ctx context.Context, c Cluster) (Progress, error)
}

// Checker is a provider that can tell beforehand what Ensure would refuse for
// good. The error is fault.Invalid, and holds no secret.
type Checker interface {
	Check(c Cluster) error
}

// Cluster is what is to be made.
type Cluster struct {
	ID      string
	Cloud   string // "aws"
	Region  string
	MultiAZ bool
	Nodes   int64
	Labels  map[string]string
	// Options of the profile, as the provider names them.
	Options map[string]string
	// Kubeconfig of a cluster that is there already; nil: none was given.
	Kubeconfig []byte

	// State is what Save was last given, for this cluster; nil: nothing.
	State []byte
	// Save keeps a state, sealed, and returns when it is safe. What a provider
	// needs to find its work again is saved before the work is begun.
	Save func(ctx context.Context, state []byte) error
}

// Progress of the making, or of the taking away.
type Progress struct {
	Done    bool
	Message string        // what is being done, for people
	After   time.Duration // when to ask again, while it is not done; 0: the caller decides

	// What is known of the cluster once it is done.
	Kubeconfig []byte // how it is reached; nil: only its agent can
	Domain     string // of its routes
	External   string // what the provider calls it
	Nodes      int64  // 0: not known
}

// Open makes a provider from settings of the server: "binary", "directory".
type Open func(options map[string]string) (Provider, error)
