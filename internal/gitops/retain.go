package gitops

import (
	"context"

	"github.com/droverhq/drover/internal/ledger"
)

const (
	// keptRuns is how many ended sync runs of one deployment there are, the newest
	// ones. Those that a custom resource asks for are its owner's, and leave with it.
	keptRuns = 20
	// surplusMost is how many runs one look goes through.
	surplusMost = 200
)

// surplus removes the oldest runs of the deployment of one that ends now.
func (r *SyncRuns) surplus(ctx context.Context, ending SyncRun) ([]ledger.Put, error) {
	if ending.Parent == "" || ending.Spec.Origin != nil {
		return nil, nil
	}
	found, err := r.Store.List(ctx, ledger.Query{
		Kind: KindSyncRun.Name, Scope: map[string]any{"parent": ending.Parent}, Limit: surplusMost,
		Where: ledger.Compare{Column: "phase", Op: ledger.In, Values: []any{Succeeded, RunFailed, Terminated}},
		Order: []ledger.Order{{Column: "created", Desc: true}},
	})
	if err != nil {
		return nil, err
	}
	var puts []ledger.Put
	kept := 1 // the one that ends
	for _, o := range found {
		run, err := sound(ctx, r.Service, o, DecodeSyncRun)
		if err != nil {
			return nil, err
		}
		if run.Spec.Origin != nil || o.ID == ending.ID {
			continue
		}
		if kept++; kept > keptRuns && len(puts) < ledger.MaxGone-1 {
			o.Deleted = r.Now().UTC()
			puts = append(puts, ledger.Put{Object: o, Expect: o.Version, Op: "delete"})
		}
	}
	return puts, nil
}
