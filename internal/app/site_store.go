package app

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// reader is the ledger of a site that does not lead: whatever would write is told
// where to.
type reader struct {
	store
	refuse func() error
}

func (r reader) why() error {
	if err := r.refuse(); err != nil {
		return err
	}
	return fault.New(fault.Unavailable, "this site is about to lead; try again")
}

// Commit implements ledger.Committer.
func (r reader) Commit(context.Context, ledger.Set) (ledger.Result, error) {
	return ledger.Result{}, r.why()
}

// Claim implements ledger.Queue.
func (r reader) Claim(context.Context, ledger.ClaimRequest) (ledger.Claimed, error) {
	return ledger.Claimed{}, r.why()
}

// PutBlob implements ledger.Keeper.
func (r reader) PutBlob(context.Context, []byte) (string, error) { return "", r.why() }

// Seal implements ledger.Keeper.
func (r reader) Seal(context.Context, []byte) (string, error) { return "", r.why() }

// Shred implements ledger.Keeper.
func (r reader) Shred(context.Context, string) error { return r.why() }

// Sweep implements ledger.Sweeper.
func (r reader) Sweep(context.Context, ledger.Sweep) (ledger.Swept, error) {
	return ledger.Swept{}, r.why()
}

// leased is the ledger of a site that leads: nothing is begun, and nothing is
// acknowledged, once it may not lead any more.
type leased struct {
	store
	leads func() error
}

// Commit implements ledger.Committer. What was written and may not be acknowledged is
// written: whoever asked cannot know.
func (l leased) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	if err := l.leads(); err != nil {
		return ledger.Result{}, err
	}
	out, err := l.store.Commit(ctx, set)
	if err == nil && l.leads() != nil {
		return ledger.Result{}, fault.New(fault.Unavailable, "this site stopped leading while it wrote").Because(ledger.ReasonUnknown)
	}
	return out, err
}

// Claim implements ledger.Queue.
func (l leased) Claim(ctx context.Context, request ledger.ClaimRequest) (ledger.Claimed, error) {
	if err := l.leads(); err != nil {
		return ledger.Claimed{}, err
	}
	out, err := l.store.Claim(ctx, request)
	if err == nil {
		err = l.leads()
	}
	if err != nil {
		return ledger.Claimed{}, err
	}
	return out, nil
}

// PutBlob implements ledger.Keeper.
func (l leased) PutBlob(ctx context.Context, data []byte) (string, error) {
	if err := l.leads(); err != nil {
		return "", err
	}
	return l.store.PutBlob(ctx, data)
}

// Seal implements ledger.Keeper.
func (l leased) Seal(ctx context.Context, plaintext []byte) (string, error) {
	if err := l.leads(); err != nil {
		return "", err
	}
	return l.store.Seal(ctx, plaintext)
}

// Shred implements ledger.Keeper.
func (l leased) Shred(ctx context.Context, ref string) error {
	if err := l.leads(); err != nil {
		return err
	}
	return l.store.Shred(ctx, ref)
}

// Sweep implements ledger.Sweeper.
func (l leased) Sweep(ctx context.Context, sweep ledger.Sweep) (ledger.Swept, error) {
	if err := l.leads(); err != nil {
		return ledger.Swept{}, err
	}
	return l.store.Sweep(ctx, sweep)
}

// Renew implements ledger.Queue.
func (l leased) Renew(ctx context.Context, leases []ledger.Lease, d time.Duration) ([]ledger.Lease, error) {
	if err := l.leads(); err != nil {
		return nil, err
	}
	return l.store.Renew(ctx, leases, d)
}

// AppendBlock implements ledger.Archive.
func (l leased) AppendBlock(ctx context.Context, block ledger.Block) error {
	if err := l.leads(); err != nil {
		return err
	}
	return l.store.AppendBlock(ctx, block)
}

// Truncate implements ledger.Archive.
func (l leased) Truncate(ctx context.Context, checkpoint ledger.Checkpoint) error {
	if err := l.leads(); err != nil {
		return err
	}
	return l.store.Truncate(ctx, checkpoint)
}

// Prune implements ledger.Archive.
func (l leased) Prune(ctx context.Context) (more bool, err error) {
	if err := l.leads(); err != nil {
		return false, err
	}
	return l.store.Prune(ctx)
}

// Erase implements ledger.Archive.
func (l leased) Erase(ctx context.Context, seq int64) error {
	if err := l.leads(); err != nil {
		return err
	}
	return l.store.Erase(ctx, seq)
}
