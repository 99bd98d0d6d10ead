//go:build e2e

package dataplane_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/kubernetes"
)

// The storage of a cluster is full: what runs goes on, what is new says why it
// does not, and when there is room again everything comes true.
func TestStorageOfTheClusterIsFull(t *testing.T) {
	p, ns := edge(t, kubernetes.WithQuota(24<<20))
	again := func(args []string) {
		t.Helper()
		p.agent.Kill()
		p.agent.Args = args
		p.agent.Start(t)
	}
	// A replica that cannot renew its lease stops within seconds. Who is to say why has
	// none to renew.
	leased, alone := p.agent.Args, slices.Clone(p.agent.Args)
	alone[len(alone)-1] += ",lease=none"
	again(alone)
	p.converges(ns, "before")
	before := look(t, p.k)
	p.k.Fill(t, "default")
	p.update("corner", map[string]any{"greeting": "in spite of all"})
	p.says("shop", "corner", "full")
	unharmed(t, p.k, before)
	if got := p.greeting(ns); got != "before" {
		t.Errorf("it says %q", got)
	}
	const lacks = "cannot have the lease"
	said := strings.Count(p.agent.Log(), lacks)
	again(leased)
	p.until("the next one to say that it waits for its lease", func() bool { return strings.Count(p.agent.Log(), lacks) > said })
	p.k.Reclaim(t, "default")
	p.greets(ns, "in spite of all")
	p.is("shops", "corner", "ready")
	p.await("ready")
	p.same(p.k, before)
}
