//go:build chaos

package app

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// steady has a share of the ledger's calls fail from a moment on: a server that
// cannot read its ledger when it is started does not start, which says nothing
// about the work that it would do.
func steady(l store, from <-chan struct{}) (store, error) {
	c, err := disorder()
	if err != nil || c.ledger == 0 {
		return l, err
	}
	return &badLedger{l, c, from}, nil
}

// badLedger is the ledger on a bad day. Hints and the end are as always: hints may
// be late or lost on any day.
type badLedger struct {
	store
	chaos *chaos
	from  <-chan struct{}
}

// begun tells whether calls fail yet.
func (b *badLedger) begun() bool {
	select {
	case <-b.from:
		return true
	default:
		return false
	}
}

// read makes a call that changes nothing.
func read[T any](b *badLedger, call func() (T, error)) (T, error) {
	if b.begun() {
		if fails, _ := b.chaos.draw(b.chaos.ledger); fails {
			var none T
			return none, fault.New(fault.Unavailable, "the ledger does not answer on a bad day")
		}
	}
	return call()
}

// write makes a call that changes something: of those that fail, half are not made,
// and of the other half nobody learns how they ended.
func write[T any](b *badLedger, call func() (T, error)) (T, error) {
	if b.begun() {
		if fails, how := b.chaos.draw(b.chaos.ledger); fails {
			var none T
			if how < 0.5 {
				return none, fault.New(fault.Unavailable, "the ledger takes nothing on a bad day")
			}
			if _, err := call(); err != nil {
				return none, err
			}
			return none, fault.New(fault.Unavailable, "the ledger's answer was lost on a bad day").Because(ledger.ReasonUnknown)
		}
	}
	return call()
}

// nothing is for calls that only succeed or fail.
func nothing(err error) (struct{}, error) { return struct{}{}, err }

// Commit implements ledger.Committer.
func (b *badLedger) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	return write(b, func() (ledger.Result, error) { return b.store.Commit(ctx, set) })
}

// Get implements ledger.Reader.
func (b *badLedger) Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error) {
	return read(b, func() (ledger.Object, error) { return b.store.Get(ctx, ref) })
}

// List implements ledger.Reader.
func (b *badLedger) List(ctx context.Context, query ledger.Query) ([]ledger.Object, error) {
	return read(b, func() ([]ledger.Object, error) { return b.store.List(ctx, query) })
}

// Total implements ledger.Reader.
func (b *badLedger) Total(ctx context.Context, query ledger.Query) (int64, error) {
	return read(b, func() (int64, error) { return b.store.Total(ctx, query) })
}

// Lookup implements ledger.Reader.
func (b *badLedger) Lookup(ctx context.Context, name ledger.Name) (ledger.Ref, error) {
	return read(b, func() (ledger.Ref, error) { return b.store.Lookup(ctx, name) })
}

// Counter implements ledger.Reader.
func (b *badLedger) Counter(ctx context.Context, name string) (int64, error) {
	return read(b, func() (int64, error) { return b.store.Counter(ctx, name) })
}

// Totals implements ledger.Tally.
func (b *badLedger) Totals(ctx context.Context, kind string, scope []string) ([]ledger.Total, error) {
	return read(b, func() ([]ledger.Total, error) { return b.store.Totals(ctx, kind, scope) })
}

// Counters implements ledger.Tally.
func (b *badLedger) Counters(ctx context.Context, prefix string) (map[string]int64, error) {
	return read(b, func() (map[string]int64, error) { return b.store.Counters(ctx, prefix) })
}

// CountersOf implements ledger.Tally.
func (b *badLedger) CountersOf(ctx context.Context, names []string) (map[string]int64, error) {
	return read(b, func() (map[string]int64, error) { return b.store.CountersOf(ctx, names) })
}

// Reach implements ledger.Finder.
func (b *badLedger) Reach(ctx context.Context, reach ledger.Reach) ([]ledger.Reached, error) {
	return read(b, func() ([]ledger.Reached, error) { return b.store.Reach(ctx, reach) })
}

// Search implements ledger.Finder.
func (b *badLedger) Search(ctx context.Context, search ledger.Search) ([]ledger.Found, error) {
	return read(b, func() ([]ledger.Found, error) { return b.store.Search(ctx, search) })
}

// Head implements ledger.Log.
func (b *badLedger) Head(ctx context.Context) (ledger.Head, error) {
	return read(b, func() (ledger.Head, error) { return b.store.Head(ctx) })
}

// Changes implements ledger.Log.
func (b *badLedger) Changes(ctx context.Context, query ledger.ChangeQuery) ([]ledger.Change, error) {
	return read(b, func() ([]ledger.Change, error) { return b.store.Changes(ctx, query) })
}

// At implements ledger.Log.
func (b *badLedger) At(ctx context.Context, ref ledger.Ref, moment ledger.Moment) (ledger.Change, error) {
	return read(b, func() (ledger.Change, error) { return b.store.At(ctx, ref, moment) })
}

// Claim implements ledger.Queue.
func (b *badLedger) Claim(ctx context.Context, request ledger.ClaimRequest) (ledger.Claimed, error) {
	return write(b, func() (ledger.Claimed, error) { return b.store.Claim(ctx, request) })
}

// Renew implements ledger.Queue.
func (b *badLedger) Renew(ctx context.Context, leases []ledger.Lease, d time.Duration) ([]ledger.Lease, error) {
	return write(b, func() ([]ledger.Lease, error) { return b.store.Renew(ctx, leases, d) })
}

// Release implements ledger.Queue.
func (b *badLedger) Release(ctx context.Context, leases []ledger.Lease) error {
	_, err := write(b, func() (struct{}, error) { return nothing(b.store.Release(ctx, leases)) })
	return err
}

// Backlog implements ledger.Queue.
func (b *badLedger) Backlog(ctx context.Context) ([]ledger.Backlog, error) {
	return read(b, func() ([]ledger.Backlog, error) { return b.store.Backlog(ctx) })
}

// PutBlob implements ledger.Keeper.
func (b *badLedger) PutBlob(ctx context.Context, data []byte) (string, error) {
	return write(b, func() (string, error) { return b.store.PutBlob(ctx, data) })
}

// Blob implements ledger.Keeper.
func (b *badLedger) Blob(ctx context.Context, digest string) ([]byte, error) {
	return read(b, func() ([]byte, error) { return b.store.Blob(ctx, digest) })
}

// Seal implements ledger.Keeper.
func (b *badLedger) Seal(ctx context.Context, plaintext []byte) (string, error) {
	return write(b, func() (string, error) { return b.store.Seal(ctx, plaintext) })
}

// Unseal implements ledger.Keeper.
func (b *badLedger) Unseal(ctx context.Context, ref string) ([]byte, error) {
	return read(b, func() ([]byte, error) { return b.store.Unseal(ctx, ref) })
}

// Sweep implements ledger.Sweeper.
func (b *badLedger) Sweep(ctx context.Context, how ledger.Sweep) (ledger.Swept, error) {
	return write(b, func() (ledger.Swept, error) { return b.store.Sweep(ctx, how) })
}

// Shred implements ledger.Keeper.
func (b *badLedger) Shred(ctx context.Context, ref string) error {
	_, err := write(b, func() (struct{}, error) { return nothing(b.store.Shred(ctx, ref)) })
	return err
}
