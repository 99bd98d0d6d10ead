// Package providertest is what every provider of clusters must keep to. It
// knows no provider.
package providertest

import (
	"bytes"
	"context"
	"testing"

	"github.com/droverhq/drover/internal/provider"
)

// World is a provider with a cluster that it can make.
type World struct {
	// Open returns the provider as a new process would, which has forgotten
	// everything but what is outside of it.
	Open func(t *testing.T) provider.Provider
	// Cluster that it is asked for, without State and Save.
	Cluster provider.Cluster
	// Count tells how many clusters there are outside; nil: it cannot be told.
	Count func(t *testing.T) int
}

// Run checks a provider.
func Run(t *testing.T, w World) {
	t.Run("makes one, and the same one again", func(t *testing.T) {
		k := &keeper{World: w}
		first := k.ensure(t)
		again := k.ensure(t)
		if !bytes.Equal(first.Kubeconfig, again.Kubeconfig) || first.External != again.External || first.Domain != again.Domain {
			t.Errorf("the second Ensure tells of another cluster: %+v, then %+v", bare(first), bare(again))
		}
		k.count(t, 1)
		k.remove(t)
		k.count(t, 0)
	})
	t.Run("what is not there can be removed", func(t *testing.T) {
		k := &keeper{World: w}
		k.remove(t)
		k.ensure(t)
		k.remove(t)
		k.remove(t)
		k.count(t, 0)
	})
	t.Run("a caller that ends is obeyed, and the work is found again", func(t *testing.T) {
		k := &keeper{World: w}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if p, err := w.Open(t).Ensure(ended, k.cluster()); err == nil && p.Done {
			t.Error("Ensure was done after its caller had ended")
		}
		k.ensure(t)
		k.count(t, 1)
		k.remove(t)
		k.count(t, 0)
	})
}

// keeper keeps what a provider saves, over its lives.
type keeper struct {
	World
	state []byte
}

func (k *keeper) cluster() provider.Cluster {
	c := k.Cluster
	c.State = k.state
	c.Save = func(_ context.Context, state []byte) error {
		k.state = bytes.Clone(state)
		return nil
	}
	return c
}

// attempts bound how often a provider may ask to be called again.
const attempts = 100

func (k *keeper) ensure(t *testing.T) provider.Progress {
	t.Helper()
	for range attempts {
		p, err := k.Open(t).Ensure(t.Context(), k.cluster())
		if err != nil {
			t.Fatalf("Ensure: %v", err)
		}
		if p.Done {
			return p
		}
	}
	t.Fatalf("Ensure was not done after %d calls", attempts)
	return provider.Progress{}
}

func (k *keeper) remove(t *testing.T) {
	t.Helper()
	for range attempts {
		p, err := k.Open(t).Remove(t.Context(), k.cluster())
		if err != nil {
			t.Fatalf("Remove: %v", err)
		}
		if p.Done {
			return
		}
	}
	t.Fatalf("Remove was not done after %d calls", attempts)
}

func (k *keeper) count(t *testing.T, want int) {
	t.Helper()
	if k.Count == nil {
		return
	}
	if n := k.Count(t); n != want {
		t.Errorf("there are %d clusters outside, want %d", n, want)
	}
}

// bare is a progress without what must not be printed.
func bare(p provider.Progress) provider.Progress {
	p.Kubeconfig = nil
	return p
}
