//go:build unix

package app_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
)

// What one that was killed had just started holds its lock for a moment longer.
func TestALockIsWaitedForAMoment(t *testing.T) {
	for _, tc := range []struct {
		reason string
		held   time.Duration
		kind   fault.Kind
	}{
		{"it is let go of", 100 * time.Millisecond, 0},
		{"another works there", time.Hour, fault.Conflict},
	} {
		state := filepath.Join(t.TempDir(), "state")
		if err := app.Settle(state); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(state, "bootstrap.lock"))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		end := time.AfterFunc(tc.held, func() { _ = f.Close() })
		if err := app.BootstrapDestroy(t.Context(), localBoot(state)); tc.kind == 0 && err != nil || tc.kind != 0 && !fault.Is(err, tc.kind) {
			t.Errorf("%s: %v", tc.reason, err)
		}
		if end.Stop() {
			_ = f.Close()
		}
	}
}
