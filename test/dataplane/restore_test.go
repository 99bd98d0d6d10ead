//go:build e2e

package dataplane_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The control plane comes back as it was at the time of its backup. What was
// ordered since then runs on, what was deleted since then stays away, and nobody
// follows the past before an operator says so.
func TestControlPlaneIsRestoredFromABackup(t *testing.T) {
	t.Parallel()
	p, ns := edge(t)
	late := p.order("closing", "north", map[string]any{"greeting": "last day"})
	p.is("shops", "closing", "ready")

	stop(t, p)
	backup := copyOf(t, p.s.DataDir)
	p.s.Start(t)
	p.await("ready")

	stray := p.order("young", "north", map[string]any{"greeting": "new here"})
	p.is("shops", "young", "ready")
	p.update("corner", map[string]any{"greeting": "much later"})
	p.greets(ns, "much later")
	p.is("shops", "corner", "ready")
	p.remove("shops", "closing")
	p.is("shops", "closing", "gone")
	before := look(t, p.k)
	if len(before.of(stray)) == 0 || len(before.of(late)) != 0 {
		t.Fatalf("before the fall: %v, %v", before.of(stray), before.of(late))
	}

	stop(t, p)
	restore(t, backup, p.s.DataDir)
	p.s.Start(t)
	// Whoever wonders reads why, and what to do, where they look.
	const why = "it was restored without a new epoch"
	p.says("cluster", "edge", why, "--epoch 2", "its agent is refused")
	p.until("the list to say so", func() bool {
		out, _, _ := p.s.Run("get", "clusters", "-o", "json")
		return strings.Contains(out, why)
	})
	p.until("the agent's log to say so", func() bool { return strings.Contains(p.agent.Log(), why) })
	p.spoil(stray)
	p.greets(stray, "new here") // it goes on with what it knows
	p.same(p.k, before)
	if got := p.greeting(ns); got != "much later" {
		t.Errorf("the past is followed: %q", got)
	}

	stop(t, p)
	p.s.Args = append(p.s.Args, "--epoch", "2")
	p.s.Start(t)
	p.says("cluster", "edge", "Strays", strings.TrimPrefix(stray, "drover-"))
	p.await("ready")
	p.converges(ns, "in the new life")
	p.same(p.k, before) // what was deleted is not made again
	p.says("shop", "closing", "it was deleted here at generation 2 and is not made again")
	p.remove("shops", "closing")
	p.is("shops", "closing", "gone")
	p.same(p.k, before)
	p.spoil(stray)
	p.greets(stray, "new here")
}

func stop(t *testing.T, p *plane) {
	t.Helper()
	if code := p.s.Stop(); code != 0 {
		t.Fatalf("the server ended with %d", code)
	}
}

// ledgerFiles are what a backup has.
func ledgerFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "drover.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no ledger in %s: %v", dir, err)
	}
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "lock") })
}

func copyOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, f := range ledgerFiles(t, dir) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = data
	}
	return out
}

func restore(t *testing.T, backup map[string][]byte, dir string) {
	t.Helper()
	for _, f := range ledgerFiles(t, dir) {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range backup {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
