package dnstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/fault"
)

func blind(t *testing.T, b *bench) {
	b.ensure(t, b.record("one"))
	edits := b.faults.Edits()
	b.faults.Set(func(f *Faults) { f.Blind = true })
	expect(t, b.records.Remove(t.Context(), "instance/one", []string{b.host("one")}), fault.Unavailable, "")
	expect(t, b.records.Ensure(t.Context(), []dns.Record{b.record("one")}), fault.Unavailable, "")
	if n := b.faults.Edits(); n != edits {
		t.Errorf("%d edits were made without knowing what is there", n-edits)
	}
	b.want(t, "after failed look-ups", b.made("one", "router.elsewhere.test")...)
}

func slow(t *testing.T, b *bench) {
	b.faults.Set(func(f *Faults) { f.Slow = true })
	r, err := dns.New(dns.Config{
		Zones: []dns.Zone{
			{Name: b.Zone, Provider: b.faults},
			{Name: "quick." + b.Zone, Provider: dns.Libdns(NewMemory())},
		},
		Installation: installation, Timeout: 250 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() { expect(t, r.Ensure(t.Context(), []dns.Record{b.record("one")}), fault.Unavailable, "timeout") })
	if err := r.Ensure(t.Context(), []dns.Record{b.record("one.quick")}); err != nil {
		t.Errorf("another zone waits along: %v", err)
	}
	wait.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Ensure(ctx, []dns.Record{b.record("one")}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who left is told %v", err)
	}
	b.want(t, "with a slow server")
}

func lie(t *testing.T, b *bench) {
	b.faults.Set(func(f *Faults) { f.Lie = true })
	expect(t, b.records.Ensure(t.Context(), []dns.Record{b.record("one")}), fault.Unavailable, "dns-pending")
	b.faults.Set(func(f *Faults) { f.Lie = false })
	b.ensure(t, b.record("one"))
	b.faults.Set(func(f *Faults) { f.Lie = true })
	expect(t, b.records.Remove(t.Context(), "instance/one", []string{b.host("one")}), fault.Unavailable, "dns-pending")
	b.want(t, "after lies", b.made("one", "router.elsewhere.test")...)
}

// race lets somebody else come between reading and writing.
func race(t *testing.T, b *bench) {
	if b.Guarded {
		var once sync.Once
		b.faults.Set(func(f *Faults) {
			f.Before = func() { once.Do(func() { b.Add(t, b.host("one"), "CNAME", "theirs.elsewhere.test") }) }
		})
		expect(t, b.records.Ensure(t.Context(), []dns.Record{b.record("one")}), fault.Conflict, "not-ours")
		b.want(t, "after somebody was quicker", b.host("one")+" CNAME theirs.elsewhere.test")
		return
	}
	b.Add(t, "_drover."+b.host("one"), "TXT", "heritage=drover,installation=a,owner=instance/one")
	b.Add(t, "_drover."+b.host("one"), "TXT", "heritage=drover,installation=here,owner=instance/one")
	b.Add(t, b.host("one"), "CNAME", "theirs.elsewhere.test")
	expect(t, b.records.Ensure(t.Context(), []dns.Record{b.record("one")}), fault.Conflict, "not-ours")
	b.remove(t, "one")
	b.want(t, "after the loser has gone", b.host("one")+" CNAME theirs.elsewhere.test",
		"_drover."+b.host("one")+" TXT heritage=drover,installation=a,owner=instance/one")
}

func rounds(t *testing.T, b *bench) {
	b.faults.Set(func(f *Faults) { f.Failing = 0.2 })
	var wait sync.WaitGroup
	for i := range 100 {
		wait.Go(func() {
			name := fmt.Sprintf("h%d", i)
			again(t, func() error { return b.records.Ensure(t.Context(), []dns.Record{b.record(name)}) })
			again(t, func() error {
				return b.records.Remove(t.Context(), "instance/"+name, []string{b.host(name)})
			})
		})
	}
	wait.Wait()
	b.want(t, "after bad days")
}

// Faults stands between the port and a provider. Its fields are changed by Set.
type Faults struct {
	Provider dns.Provider

	Down    bool    // nothing is answered
	Blind   bool    // look-ups fail
	Slow    bool    // nothing ends by itself
	Lie     bool    // edits are said to be made, and are not
	Refuse  string  // a host that no edit may have
	Failing float64 // the share of calls that fail, edits before or after they were made
	Before  func()  // each edit

	mu    sync.Mutex
	edits int
}

// Set changes what goes wrong.
func (f *Faults) Set(change func(*Faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// Edits counts the edits that reached the provider.
func (f *Faults) Edits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.edits
}

func (f *Faults) now() *Faults {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &Faults{Provider: f.Provider, Down: f.Down, Blind: f.Blind, Slow: f.Slow, Lie: f.Lie, Refuse: f.Refuse, Failing: f.Failing, Before: f.Before}
}

var errAway = fault.New(fault.Unavailable, "the server is away")

// Lookup implements dns.Provider.
func (f *Faults) Lookup(ctx context.Context, zone string, names []string) ([]dns.RR, error) {
	now := f.now()
	switch {
	case now.Slow:
		<-ctx.Done()
		return nil, ctx.Err()
	case now.Down, now.Blind, rand.Float64() < now.Failing:
		return nil, errAway
	}
	return f.Provider.Lookup(ctx, zone, names)
}

// Edit implements dns.Provider.
func (f *Faults) Edit(ctx context.Context, zone string, edits []dns.Edit) error {
	now := f.now()
	refused := func(r dns.RR) bool { return r.Name == now.Refuse }
	switch {
	case now.Down, rand.Float64() < now.Failing:
		return errAway
	case now.Lie:
		return nil
	case slices.ContainsFunc(edits, func(e dns.Edit) bool { return slices.ContainsFunc(e.Want, refused) }):
		return errors.New("no such record here")
	}
	if now.Before != nil {
		now.Before()
	}
	f.Set(func(f *Faults) { f.edits++ })
	err := f.Provider.Edit(ctx, zone, edits)
	if err == nil && rand.Float64() < now.Failing {
		return errAway
	}
	return err
}
