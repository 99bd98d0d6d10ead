package app

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/resilience"
)

// insistent is the ledger as all rooms get it: what it could not do for a moment (a
// connection broke, a replica took over) is asked again before anybody is told. A
// run of a reconciler reads some dozen things, and a request of a user several: one
// lost answer would have all of it done again.
type insistent struct {
	store
	again *resilience.Policy
}

// insist puts the policy before a ledger. Its breaker is for those who ask again
// alone: while the ledger is away for good every call is made once.
func insist(l store, observer resilience.Observer) store {
	return &insistent{l, resilience.New(resilience.Config{
		Name: "the ledger", Retries: 3, Pause: 10 * time.Millisecond, Failures: 50, Rest: 5 * time.Second, Observer: observer,
	})}
}

// swift bounds what is asked again: whatever took longer than this to fail would
// take as long the next time.
const swift = time.Second

// repeatable tells that a call which changes nothing, or nothing more the second
// time, may help when it is made again.
func repeatable(err error) bool {
	return fault.Is(err, fault.Unavailable) && fault.Reason(err) != "disk-full"
}

// unwritten tells besides that nothing was written: a commit whose outcome is not
// known would fail its own guards the second time, and be taken for somebody
// else's. Whoever made it looks again.
func unwritten(err error) bool {
	switch fault.Reason(err) {
	case "", "database-away", "database-busy", "disk-fails":
		return fault.Is(err, fault.Unavailable)
	}
	return false
}

// insisted makes a call, and makes it again while that may help.
func insisted[T any](ctx context.Context, l *insistent, may func(error) bool, call func(context.Context) (T, error)) (T, error) {
	began := time.Now()
	out, err := call(ctx)
	l.again.Made(err, time.Since(began))
	if err == nil {
		l.again.Answered() // or the breaker would stay open until something fails again
		return out, nil
	}
	if !may(err) || ctx.Err() != nil || time.Since(began) > swift {
		return out, err
	}
	// Where not even that is tried, what the call itself said is what counts.
	_ = l.again.Do(ctx, func(ctx context.Context) error {
		if out, err = call(ctx); may(err) {
			return err
		}
		return nil
	})
	return out, err
}

// Commit implements ledger.Committer.
func (l *insistent) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	return insisted(ctx, l, unwritten, func(ctx context.Context) (ledger.Result, error) { return l.store.Commit(ctx, set) })
}

// Get implements ledger.Reader.
func (l *insistent) Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) (ledger.Object, error) { return l.store.Get(ctx, ref) })
}

// List implements ledger.Reader.
func (l *insistent) List(ctx context.Context, query ledger.Query) ([]ledger.Object, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) ([]ledger.Object, error) { return l.store.List(ctx, query) })
}

// Total implements ledger.Reader.
func (l *insistent) Total(ctx context.Context, query ledger.Query) (int64, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) (int64, error) { return l.store.Total(ctx, query) })
}

// Lookup implements ledger.Reader.
func (l *insistent) Lookup(ctx context.Context, name ledger.Name) (ledger.Ref, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) (ledger.Ref, error) { return l.store.Lookup(ctx, name) })
}

// Counter implements ledger.Reader.
func (l *insistent) Counter(ctx context.Context, name string) (int64, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) (int64, error) { return l.store.Counter(ctx, name) })
}

// Totals implements ledger.Tally.
func (l *insistent) Totals(ctx context.Context, kind string, scope []string) ([]ledger.Total, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) ([]ledger.Total, error) { return l.store.Totals(ctx, kind, scope) })
}

// Counters implements ledger.Tally.
func (l *insistent) Counters(ctx context.Context, prefix string) (map[string]int64, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) (map[string]int64, error) { return l.store.Counters(ctx, prefix) })
}

// CountersOf implements ledger.Tally.
func (l *insistent) CountersOf(ctx context.Context, names []string) (map[string]int64, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) (map[string]int64, error) { return l.store.CountersOf(ctx, names) })
}

// Reach implements ledger.Finder.
func (l *insistent) Reach(ctx context.Context, reach ledger.Reach) ([]ledger.Reached, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) ([]ledger.Reached, error) { return l.store.Reach(ctx, reach) })
}

// Search implements ledger.Finder.
func (l *insistent) Search(ctx context.Context, search ledger.Search) ([]ledger.Found, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) ([]ledger.Found, error) { return l.store.Search(ctx, search) })
}

// Head implements ledger.Log.
func (l *insistent) Head(ctx context.Context) (ledger.Head, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) (ledger.Head, error) { return l.store.Head(ctx) })
}

// Changes implements ledger.Log.
func (l *insistent) Changes(ctx context.Context, query ledger.ChangeQuery) ([]ledger.Change, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) ([]ledger.Change, error) { return l.store.Changes(ctx, query) })
}

// At implements ledger.Log.
func (l *insistent) At(ctx context.Context, ref ledger.Ref, moment ledger.Moment) (ledger.Change, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) (ledger.Change, error) { return l.store.At(ctx, ref, moment) })
}

// PutBlob implements ledger.Keeper. The same bytes are kept once.
func (l *insistent) PutBlob(ctx context.Context, data []byte) (string, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) (string, error) { return l.store.PutBlob(ctx, data) })
}

// Blob implements ledger.Keeper.
func (l *insistent) Blob(ctx context.Context, digest string) ([]byte, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) ([]byte, error) { return l.store.Blob(ctx, digest) })
}

// Seal implements ledger.Keeper. A secret whose reference nobody has learnt is one
// that nobody can open.
func (l *insistent) Seal(ctx context.Context, plaintext []byte) (string, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) (string, error) { return l.store.Seal(ctx, plaintext) })
}

// Unseal implements ledger.Keeper.
func (l *insistent) Unseal(ctx context.Context, ref string) ([]byte, error) {
	return insisted(ctx, l, repeatable, func(ctx context.Context) ([]byte, error) { return l.store.Unseal(ctx, ref) })
}

// Shred implements ledger.Keeper.
func (l *insistent) Shred(ctx context.Context, ref string) error {
	_, err := insisted(ctx, l, repeatable, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.store.Shred(ctx, ref) })
	return err
}
