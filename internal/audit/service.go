package audit

import (
	"context"
	"crypto/ed25519"
	"math"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Store is what the room needs of the ledger.
type Store interface {
	ledger.Committer
	ledger.Records
	ledger.Past
	ledger.Keeper
}

// Config of the room.
type Config struct {
	Store Store
	// Kinds are compared with the log when it is verified: all that there are.
	Kinds []string
	// Retain is how long changes are kept that a later one of the same object has
	// replaced; 0: for ever.
	Retain time.Duration
	// Sealed is told of each block that was sealed here, to be written down where
	// whoever can write the database cannot; default: nobody.
	Sealed func(ledger string, head ledger.SealedHead)
	Now    func() time.Time // default time.Now
}

// MinRetain is the least that can be retained: readers of the log that were away
// for less than this find everything when they come back.
const MinRetain = 24 * time.Hour

// Service seals the log and tells what is in it.
type Service struct {
	Config
	mu      sync.Mutex // of what follows, also while it is read
	private ed25519.PrivateKey
	since   time.Time // of that key
	refused time.Time // when a flaw kept the log from being truncated; zero: never

	looking sync.Mutex // of what follows, also while blocks are read
	newest  newest
}

// NewService makes the room.
func NewService(c Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Retain < 0 || c.Retain > 0 && c.Retain < MinRetain {
		return nil, fault.New(fault.Invalid, "changes are retained for at least %s, or for ever (0)", MinRetain)
	}
	if c.Sealed == nil {
		c.Sealed = func(string, ledger.SealedHead) {}
	}
	return &Service{Config: c}, nil
}

// Verify looks at the whole ledger, against heads that somebody has kept if there
// are any.
func (s *Service) Verify(ctx context.Context, kept ledger.Heads, progress func(changes, of int64)) (ledger.Report, error) {
	keys, err := Keys(ctx, s.Store)
	if err != nil {
		return ledger.Report{}, err
	}
	return ledger.Verification{Keys: keys, Kept: kept, Kinds: s.Kinds, Progress: progress}.Run(ctx, s.Store)
}

// Heads returns the newest n heads, newest first, with all keys.
func (s *Service) Heads(ctx context.Context, n int) (ledger.Heads, error) {
	head, err := s.Store.Head(ctx)
	if err != nil {
		return ledger.Heads{}, err
	}
	out := ledger.Heads{Ledger: head.Ledger}
	if out.Keys, err = Keys(ctx, s.Store); err != nil {
		return ledger.Heads{}, err
	}
	blocks, err := s.Store.Blocks(ctx, math.MinInt64, -n)
	for _, b := range blocks {
		out.Heads = append(out.Heads, sealedHead(head.Ledger, &b))
	}
	return out, err
}

func sealedHead(of string, b *ledger.Block) ledger.SealedHead {
	return ledger.SealedHead{Block: b.Number, Seq: b.Last, Epoch: b.Epoch, At: b.At, Hash: b.Hash(of), Key: b.Key, Signature: b.Signature}
}
