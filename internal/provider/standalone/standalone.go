// Package standalone is the provider of clusters that are there already: with a
// kubeconfig the control plane reaches them itself, without one only their
// agent does. It makes nothing and removes nothing.
package standalone

import (
	"context"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/provider"
)

// Provider of clusters that are there.
type Provider struct{}

var _ provider.Provider = Provider{}

// New takes no options.
func New(options map[string]string) (provider.Provider, error) {
	for name := range options {
		return nil, fault.New(fault.Invalid, "the provider standalone has no option %q", name)
	}
	return Provider{}, nil
}

// Ensure implements provider.Provider: the cluster is there.
func (Provider) Ensure(ctx context.Context, c provider.Cluster) (provider.Progress, error) {
	if err := ctx.Err(); err != nil {
		return provider.Progress{}, err
	}
	if err := (Provider{}).Check(c); err != nil {
		return provider.Progress{}, err
	}
	return provider.Progress{Done: true, Kubeconfig: c.Kubeconfig, Domain: c.Options["domain"]}, nil
}

// Remove implements provider.Provider: the cluster stays where it is, it only
// leaves the fleet.
func (Provider) Remove(ctx context.Context, _ provider.Cluster) (provider.Progress, error) {
	return provider.Progress{Done: true}, ctx.Err()
}
