package instance

import (
	"context"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
)

// Watch implements executor.Watcher: every change of the instance is in the
// ledger, and the ledger tells of it.
func (e *Executor) Watch(ctx context.Context, r executor.Resource, changed func()) error {
	m, err := recall(r)
	if err != nil || e.feed == nil || m.ID == "" {
		return err
	}
	head, err := e.log.Head(ctx)
	if err != nil {
		return err
	}
	changed() // what happened before is to be looked at
	ref := ledger.Ref{Kind: Kind.Name, ID: m.ID}
	for after := head.Seq; ; {
		changes, err := e.feed.Next(ctx, after)
		if err != nil {
			return err
		}
		for i := range changes {
			after = changes[i].Seq
			if changes[i].Object.Ref == ref {
				changed()
			}
		}
	}
}
