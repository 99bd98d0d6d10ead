//go:build e2e

package dataplane_test

import (
	"testing"

	"github.com/droverhq/drover/test/kubernetes"
)

// The storage of a cluster is full: what runs goes on, what is new says why it
// does not, and when there is room again everything comes true.
func TestStorageOfTheClusterIsFull(t *testing.T) {
	p, ns := edge(t, kubernetes.WithQuota(24<<20))
	before := look(t, p.k)
	p.k.Fill(t, "default")
	p.update("corner", map[string]any{"greeting": "in spite of all"})
	p.says("shop", "corner", "full")
	unharmed(t, p.k, before)
	if got := p.greeting(ns); got != "hello" {
		t.Errorf("it says %q", got)
	}
	p.k.Reclaim(t, "default")
	p.greets(ns, "in spite of all")
	p.is("shops", "corner", "ready")
	p.await("ready")
	p.same(p.k, before)
}
