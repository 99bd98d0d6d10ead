package app_test

import (
	"net"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
)

// What one that was killed had just started holds its address for a moment longer.
func TestAnAddressIsWaitedForAMoment(t *testing.T) {
	for _, tc := range []struct {
		reason string
		held   time.Duration
		ok     bool
	}{
		{"it is given back", 100 * time.Millisecond, true},
		{"another has it", time.Hour, false},
	} {
		held, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		end := time.AfterFunc(tc.held, func() { held.Close() })
		l, err := app.Listen(t.Context(), held.Addr().String(), "--routes", time.Second)
		if tc.ok != (err == nil) || err != nil && !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", tc.reason, err)
		}
		if err == nil {
			l.Close()
		}
		if end.Stop() {
			held.Close()
		}
	}
}
