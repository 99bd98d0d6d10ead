package builtin

import (
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	freeUser    = 5  // failures of a name before it has to wait
	freeAddress = 20 // of an address: many people may share one
	maxWait     = 5 * time.Minute
	forget      = 30 * time.Minute
	maxKnown    = 20_000
)

// backoff slows guessing down. It is kept in memory: replicas do not share it,
// which multiplies an attacker's tries by their number and not by more. A name
// counts whether there is such a user or not.
type backoff struct {
	clock func() time.Time
	mu    sync.Mutex
	known map[string]tries
}

type tries struct {
	failed int
	last   time.Time
}

func newBackoff(clock func() time.Time) *backoff {
	return &backoff{clock: clock, known: map[string]tries{}}
}

func byUser(name string) string { return "user " + digest(strings.ToLower(name)) }

// byAddress takes a whole IPv6 network for one: everybody has billions of them.
func byAddress(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		if network, err := ip.WithZone("").Prefix(64); err == nil {
			address = network.String()
		}
	}
	return "address " + address
}

// wait tells how long this name or address must wait; 0: not at all.
func (b *backoff) wait(name, address string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.left(byUser(name), freeUser), b.left(byAddress(address), freeAddress))
}

func (b *backoff) left(key string, free int) time.Duration {
	t, ok := b.known[key]
	if !ok || t.failed < free {
		return 0
	}
	wait := min(time.Second<<min(t.failed-free, 20), maxWait)
	return max(0, wait-b.clock().Sub(t.last))
}

func (b *backoff) failed(name, address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tidy()
	for _, key := range []string{byUser(name), byAddress(address)} {
		t := b.known[key]
		if b.clock().Sub(t.last) > forget {
			t.failed = 0
		}
		b.known[key] = tries{t.failed + 1, b.clock()}
	}
}

// succeeded forgives the name. The address is not forgiven: its next guess may
// be at another's name.
func (b *backoff) succeeded(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, byUser(name))
}

// tidy bounds what is known: first goes what is long past, then anything.
func (b *backoff) tidy() {
	if len(b.known) < maxKnown {
		return
	}
	for key, t := range b.known {
		if b.clock().Sub(t.last) > forget {
			delete(b.known, key)
		}
	}
	for key := range b.known {
		if len(b.known) < maxKnown {
			return
		}
		delete(b.known, key)
	}
}
