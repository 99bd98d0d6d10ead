//go:build e2e

package rabbitmq_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/test/toxiproxy"
)

// A network that cuts, crumbles and resets: nothing is lost. A bus has two connections,
// and makes others where one was cut: as many as there must have been.
func TestBadNetwork(t *testing.T) {
	for _, tc := range []struct {
		reason string
		toxic  toxiproxy.Toxic
		cuts   int // at least
	}{
		{"cut in the middle of a frame", toxiproxy.Cut(150_001), 5},
		{"in crumbs", toxiproxy.Crumbs(100, 10*time.Microsecond), 0},
		{"slow", toxiproxy.Latency(20*time.Millisecond, 10*time.Millisecond), 0},
		{"reset for some", toxiproxy.Reset().For(0.3), 1},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := open(t)
			counts := newProxy(t, w.Addr) // behind the bad one, which it does not soften
			p := toxiproxy.Start(t).Proxy(t, counts.addr)
			p.Add(t, tc.toxic)
			cuts := 0
			for round := 1; round == 1 || cuts < tc.cuts; round++ { // chance may spare both
				if round > 20 {
					t.Fatalf("%d connections were cut: that shows nothing", cuts)
				}
				before := counts.came()
				survives(t, w, p.Addr, 1000)
				cuts += counts.came() - before - 2
			}
			t.Logf("%d connections were cut", cuts)
		})
	}
}
