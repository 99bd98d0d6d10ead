package app

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// handover is how long an address or a lock of the process before is waited for. One that was
// killed as it started a program has left a copy of itself, which holds both until it is
// that program: a fifth of a second on a busy machine.
const handover = 2 * time.Second

// listen takes an address, also one that is about to be given back within the patience. The
// flag is the one that names another.
func listen(ctx context.Context, address, flag string, patience time.Duration) (net.Listener, error) {
	for deadline := time.Now().Add(patience); ; {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) || !rested(ctx, 20*time.Millisecond) {
			return nil, fault.New(fault.Unavailable, "cannot listen on %s: %w (is another drover running? use %s for another address)", address, err, flag)
		}
	}
}
