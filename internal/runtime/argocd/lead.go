package argocd

import (
	"context"
	"sync/atomic"

	"github.com/droverhq/drover/internal/fault"
)

// successor is a runtime whose replicas take turns, after those of another.
type successor interface {
	LeadAfter(ctx context.Context, ready func() bool, work func(context.Context) error) error
}

// Lead waits until it is this replica's turn here and beside, calls work, and
// returns what it returns. Both leases are stood for at the same time: those of a
// replica that died run out together. There is one goroutine for the one beside,
// which ends before Lead does.
func (r *Runtime) Lead(ctx context.Context, work func(context.Context) error) error {
	beside, ok := r.beside.(successor)
	if !ok {
		return r.Desk.Lead(ctx, work)
	}
	all, stop := context.WithCancel(ctx)
	defer stop()
	var held atomic.Bool
	turn, done, ended := make(chan context.Context), make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- beside.LeadAfter(all, held.Load, func(lease context.Context) error {
			select {
			case turn <- lease:
				return <-done
			case <-lease.Done():
				return lease.Err()
			case <-all.Done():
				return all.Err()
			}
		})
	}()
	err := r.Desk.Lead(all, func(lease context.Context) error {
		held.Store(true)
		select {
		case <-lease.Done():
			return lease.Err()
		case err := <-ended:
			ended <- err
			return err
		case theirs := <-turn:
			both, end := context.WithCancel(lease)
			defer end()
			defer context.AfterFunc(theirs, end)()
			err := work(both)
			done <- err
			return err
		}
	})
	stop()
	if other := <-ended; fault.Is(other, fault.Unavailable) && !fault.Is(err, fault.Unavailable) {
		return other // the work ended because it lost its turn beside
	}
	return err
}
