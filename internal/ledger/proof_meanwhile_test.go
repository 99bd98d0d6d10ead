package ledger_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// busy is a shelf that somebody does something to after changes were read from it.
type busy struct {
	*shelf
	then func() // nil: nothing
}

func (b *busy) Entries(ctx context.Context, after int64, limit int) ([]ledger.Entry, error) {
	found, err := b.shelf.Entries(ctx, after, limit)
	if then := b.then; then != nil {
		b.then = nil
		then()
	}
	return found, err
}

// Changes are read ahead of their seals: what is erased between the two is no edit. What
// somebody did edit still is.
func TestCheckpointBesideAnErasure(t *testing.T) {
	const blocks = 9
	for _, c := range []struct {
		reason string
		edited string // what the change before the last was made to say; empty: nothing
		then   func(s *shelf)
		flaw   bool
	}{
		{"nothing happens", "", func(*shelf) {}, false},
		{"a change is erased", "", func(s *shelf) { s.erase(blocks - 1) }, false},
		{"a change was edited", `{"secret":"edited"}`, func(*shelf) {}, true},
	} {
		s := &shelf{head: ledger.Head{Ledger: "l1", Epoch: 1}, objects: map[ledger.Ref]ledger.Entry{}}
		s.keys = []ledger.SealKey{ledger.NewSealKey("l1", signer(1).Public().(ed25519.PublicKey), sealed, signer(1))}
		for range blocks {
			s.head.Seq++
			e := ledger.Entry{Seq: s.head.Seq, At: sealed.UnixMicro() + s.head.Seq, Op: "update", Kind: "beast", ID: "a", Version: s.head.Seq}
			e.State = fmt.Appendf(nil, `{"secret":"s%d"}`, e.Seq)
			s.entries = append(s.entries, e)
			s.seal(1)
		}
		if c.edited != "" {
			s.entries[blocks-2].State = []byte(c.edited)
		}
		b := &busy{shelf: s}
		b.then = func() { c.then(s) }
		_, err := ledger.Verification{Keys: s.keys}.Checkpoint(t.Context(), b, blocks, sealed.Add(time.Hour))
		if got := fault.Reason(err) == "flaw"; got != c.flaw || !c.flaw && err != nil {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}
