// Package ledger is the contract of the one store: objects, the log of every
// change to them, and the work that a change left to do, written in one commit.
//
// It owns the words (Object, Change, Set, Work), the pure decision which sets
// of a batch hold and what they write (Decide), and the interfaces that a store
// must satisfy. It must not know SQL, HTTP or any kind of object by name.
// Package sqlledger keeps it on disk; package ledgertest checks that it does.
package ledger

import (
	"context"
	"time"
)

// Ledger is everything a store offers. Consumers ask for the part they use.
type Ledger interface {
	Committer
	Records
	Past
	Queue
	Store
}

// Records is everything that is read of objects.
type Records interface {
	Reader
	Tally
	Finder
}

// Committer writes.
type Committer interface {
	// Commit writes the whole set or nothing. Many callers' sets share one
	// database commit; a set that fails a guard fails alone.
	//
	// Faults: Invalid (malformed, undeclared field, too large), NotFound (an
	// expected object is not there), Conflict (reasons "version", "exists",
	// "name-taken", "lease-lost", "blob"), Exhausted (a counter's bound; reason
	// "counter:<name>"), Unavailable (the store is away; reason
	// "outcome-unknown" if the set may yet have been written, "database-away",
	// "database-busy", "disk-full" or "disk-fails" if it was not).
	Commit(ctx context.Context, set Set) (Result, error)
}

// Reader answers from the present and the past. It never waits for writers.
type Reader interface {
	// Get returns one object, also a soft-deleted one; NotFound if it never was.
	Get(ctx context.Context, ref Ref) (Object, error)
	// List returns one page.
	List(ctx context.Context, query Query) ([]Object, error)
	// Total counts all that the query matches, Offset, Limit and Order aside:
	// from a transactional counter where the query is only a declared scope,
	// exactly and on a budget of its own otherwise.
	Total(ctx context.Context, query Query) (int64, error)
	// Lookup returns the holder of a claimed name; NotFound if it is free.
	Lookup(ctx context.Context, name Name) (Ref, error)
	// Counter returns a bounded counter's value, 0 if it was never moved.
	Counter(ctx context.Context, name string) (int64, error)
}

// Log reads changes. Sequences are dense and in commit order, so a reader that
// resumes after the last sequence it saw never skips one. Where the log was
// truncated, only the last change of each object is left up to Head.Whole: whoever
// asks for changes after a sequence before that, or for a moment before that, is
// told so (NotFound, reason "truncated").
type Log interface {
	// Head tells the newest sequence and who this ledger is.
	Head(ctx context.Context) (Head, error)
	// Changes returns changes in the order of their sequences. Those who look back
	// (Reverse) come to an end where the log is not whole any more, unless they
	// ask for what is left (Left).
	Changes(ctx context.Context, query ChangeQuery) ([]Change, error)
	// At returns the last change of an object at or before a moment; NotFound
	// if the object did not exist then, or if nobody knows any more.
	At(ctx context.Context, ref Ref, moment Moment) (Change, error)
	// Hints returns a channel that holds a signal when there may be new
	// changes or due work, of any replica. It closes when ctx ends. A hint can
	// be late or lost: poll slowly besides.
	Hints(ctx context.Context) <-chan struct{}
}

// Queue hands out due work under fenced leases. All times are the store's.
type Queue interface {
	// Claim leases due work, fairly over organisations.
	Claim(ctx context.Context, request ClaimRequest) (Claimed, error)
	// Renew prolongs leases and returns those that are lost.
	Renew(ctx context.Context, leases []Lease, d time.Duration) (lost []Lease, err error)
	// Release hands leased work back untouched, due at once.
	Release(ctx context.Context, leases []Lease) error
	// Backlog counts work per kind.
	Backlog(ctx context.Context) ([]Backlog, error)
}

// Store is what is kept beside objects.
type Store interface {
	Keeper
	Sweeper
}

// Keeper holds what does not belong into an object: large things and secrets.
type Keeper interface {
	// PutBlob stores bytes, encrypted, and returns their digest ("sha256:..."). They
	// are there as long as an object names them, and before that for a while: whoever
	// puts them names them soon.
	PutBlob(ctx context.Context, data []byte) (digest string, err error)
	Blob(ctx context.Context, digest string) ([]byte, error)
	// Seal encrypts a secret under a key of its own and returns a reference
	// ("secret:<id>") that may stand in objects and in the log.
	Seal(ctx context.Context, plaintext []byte) (ref string, err error)
	Unseal(ctx context.Context, ref string) ([]byte, error)
	// Shred destroys the secret's key, and with it every copy ever made.
	Shred(ctx context.Context, ref string) error
}

// Sweeper takes away what nobody can ask for any more.
type Sweeper interface {
	// Sweep erases blobs that no object names, as far as it is told that they may
	// go. A set that would name one of them afterwards is refused (Conflict, reason
	// "blob"); one that was committed before has kept it. Objects of a kind that the
	// store was not told of keep everything: then nothing is erased, which is an error.
	Sweep(ctx context.Context, sweep Sweep) (Swept, error)
}

// Head is the log's newest sequence, and the ledger's identity. The epoch moves
// when a ledger is restored or promoted: readers of a higher epoch must not
// follow a lower one.
type Head struct {
	Ledger string
	Epoch  int64
	Seq    int64
	At     time.Time
	// Whole: changes after this are all there. Since is the time of that one: from
	// then on there is history. 0 and zero: the log was never truncated.
	Whole int64
	Since time.Time
	// Began is where epochs begin, in order, as far as that is known. Nobody changes it.
	Began []Began
}

// Began is the beginning of an epoch: its changes come after this one.
type Began struct{ Epoch, After int64 }

// EpochOf is the epoch that a change was written in, whichever the ledger is in since.
func (h *Head) EpochOf(seq int64) int64 {
	if len(h.Began) == 0 {
		return h.Epoch
	}
	epoch := int64(1)
	for _, b := range h.Began {
		if seq > b.After {
			epoch = b.Epoch
		}
	}
	return epoch
}

// Moment is a point in the log: a sequence, or a time if Seq is zero.
type Moment struct {
	Seq  int64
	Time time.Time
}

// ChangeQuery selects changes. Zero fields select everything.
type ChangeQuery struct {
	After   int64 // only sequences greater than this
	Until   int64 // only sequences up to this; 0 = no bound
	Kind    string
	ID      string // with Kind
	Org     string
	Limit   int  // default 1000, at most 10000
	Reverse bool // newest first
	Left    bool // what truncation has left, too: it has gaps
}
