package reconcile

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// Resyncer is a Reconciler that can tell which of its objects are not settled.
// They are woken once in a while if nothing else is about to run them: the net
// under wakes that were never made, by a defect or by hand.
type Resyncer interface {
	// Unsettled returns up to limit objects after a place in any stable order,
	// and the place to go on from; an empty place ends it.
	Unsettled(ctx context.Context, after string, limit int) (wakes []ledger.Wake, next string, err error)
}

const resyncPage = 500

// resync wakes unsettled objects in long, jittered intervals. The first comes
// somewhere within the interval, so that replicas spread over it.
func (l *Loop) resync(ctx context.Context) {
	if l.cfg.Resync < 0 {
		return
	}
	for low := time.Duration(0); pause(ctx, l.jitter(low, l.cfg.Resync*5/4)); low = l.cfg.Resync * 3 / 4 {
		for _, kind := range l.kinds {
			resyncer, ok := l.cfg.Reconcilers[kind].(Resyncer)
			if !ok {
				continue
			}
			if err := l.resyncKind(ctx, resyncer); err != nil && ctx.Err() == nil {
				l.log.Warn("resync failed; the next one goes on", append([]any{"kind", kind, "err", err}, stack(err)...)...)
			}
		}
	}
}

func (l *Loop) resyncKind(ctx context.Context, resyncer Resyncer) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	after := ""
	for ctx.Err() == nil {
		wakes, next, err := resyncer.Unsettled(ctx, after, resyncPage)
		if err != nil {
			return fmt.Errorf("cannot list what is not settled: %w", err)
		}
		for i := range wakes {
			wakes[i].IfIdle = true
		}
		if len(wakes) > 0 {
			set := ledger.Set{Actor: "system", Cause: ledger.BySchedule("resync"), Wakes: wakes}
			if _, err := l.cfg.Ledger.Commit(ctx, set); err != nil {
				return fmt.Errorf("cannot wake what is not settled: %w", err)
			}
		}
		if next == "" || next == after {
			return nil
		}
		after = next
	}
	return nil
}
