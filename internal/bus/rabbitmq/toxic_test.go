//go:build e2e

package rabbitmq_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/test/toxiproxy"
)

// A network that cuts, crumbles and resets: nothing is lost.
func TestBadNetwork(t *testing.T) {
	for _, tc := range []struct {
		reason string
		toxic  toxiproxy.Toxic
	}{
		{"cut in the middle of a frame", toxiproxy.Cut(150_001)},
		{"in crumbs", toxiproxy.Crumbs(100, 10*time.Microsecond)},
		{"slow", toxiproxy.Latency(20*time.Millisecond, 10*time.Millisecond)},
		{"reset for some", toxiproxy.Reset().For(0.3)},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := open(t)
			p := toxiproxy.Start(t).Proxy(t, w.Addr)
			p.Add(t, tc.toxic)
			survives(t, w, p.Addr, 1000)
		})
	}
}
