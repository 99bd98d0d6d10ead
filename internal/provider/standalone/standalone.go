// Package standalone is the provider of clusters that are there already: with a
// kubeconfig the control plane reaches them itself, without one only their
// agent does. It makes nothing and removes nothing.
package standalone

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/goccy/go-yaml"

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
	if c.Kubeconfig != nil {
		if err := check(c.Kubeconfig); err != nil {
			return provider.Progress{}, fault.New(fault.Invalid, "the kubeconfig of cluster %s cannot be used: %w", c.ID, err)
		}
	}
	return provider.Progress{Done: true, Kubeconfig: c.Kubeconfig, Domain: c.Options["domain"]}, nil
}

// Remove implements provider.Provider: the cluster stays where it is, it only
// leaves the fleet.
func (Provider) Remove(ctx context.Context, _ provider.Cluster) (provider.Progress, error) {
	return provider.Progress{Done: true}, ctx.Err()
}

// check refuses a kubeconfig that would run a program or read a file of the
// control plane's machine: whoever may register clusters is not thereby its
// administrator. What is wrong is told without what it holds.
func check(kubeconfig []byte) error {
	var raw any
	if err := yaml.Unmarshal(kubeconfig, &raw); err != nil {
		return fmt.Errorf("it is not YAML")
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return fmt.Errorf("it is not a document")
	}
	var doc struct {
		CurrentContext string `json:"current-context"`
		Clusters       []struct {
			Cluster map[string]any `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User map[string]any `json:"user"`
		} `json:"users"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("it does not look like a kubeconfig")
	}
	if doc.CurrentContext == "" || len(doc.Clusters) == 0 {
		return fmt.Errorf("it names no current-context or no clusters")
	}
	for _, u := range doc.Users {
		for _, banned := range []string{"exec", "auth-provider", "tokenFile", "client-certificate", "client-key"} {
			if _, there := u.User[banned]; there {
				return fmt.Errorf("its user has %q, which would be looked for on the control plane's machine: flatten it (kubectl config view --flatten --minify)", banned)
			}
		}
	}
	for _, c := range doc.Clusters {
		if _, there := c.Cluster["certificate-authority"]; there {
			return fmt.Errorf("its cluster has %q, which would be looked for on the control plane's machine: flatten it (kubectl config view --flatten --minify)", "certificate-authority")
		}
	}
	return nil
}
