package ledger_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

var sealed = time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)

func signer(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

// shelf is an archive in memory.
type shelf struct {
	head        ledger.Head
	keys        []ledger.SealKey
	entries     []ledger.Entry
	blocks      []ledger.Block
	checkpoints []ledger.Checkpoint
	objects     map[ledger.Ref]ledger.Entry
}

// drawShelf writes and seals a log of some objects.
func drawShelf(t *rapid.T) *shelf {
	s := &shelf{head: ledger.Head{Ledger: "l1", Epoch: 1}, objects: map[ledger.Ref]ledger.Entry{}}
	s.keys = []ledger.SealKey{
		ledger.NewSealKey("l1", signer(1).Public().(ed25519.PublicKey), sealed, signer(1)),
		ledger.NewSealKey("l1", signer(2).Public().(ed25519.PublicKey), sealed.Add(time.Hour), signer(1)),
	}
	for range rapid.IntRange(1, 5).Draw(t, "blocks") {
		s.write(t, rapid.IntRange(1, 12).Draw(t, "changes"))
		s.seal(rapid.SampledFrom([]byte{1, 2}).Draw(t, "key"))
	}
	return s
}

func (s *shelf) write(t *rapid.T, n int) {
	for range n {
		s.head.Seq++
		e := ledger.Entry{
			Seq: s.head.Seq, At: sealed.UnixMicro() + s.head.Seq, Actor: "alice", Cause: "request:r1", Op: "update", Kind: "beast",
			ID: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id"), Org: "acme", From: "10.0.0.1",
		}
		e.Version = s.objects[e.Ref()].Version + 1
		e.State = fmt.Appendf(nil, `{"secret":"s%d"}`, e.Seq)
		s.entries = append(s.entries, e)
		s.objects[e.Ref()] = ledger.Entry{Kind: e.Kind, ID: e.ID, Org: e.Org, Version: e.Version, State: slices.Clone(e.State)}
	}
}

func (s *shelf) seal(key byte) {
	var before *ledger.Block
	from := 0
	if n := len(s.blocks); n > 0 {
		before = &s.blocks[n-1]
		from, _ = slices.BinarySearchFunc(s.entries, before.Last+1, func(e ledger.Entry, seq int64) int { return int(e.Seq - seq) })
	}
	b := ledger.NewBlock(s.head, before, s.entries[from:], sealed.Add(time.Duration(len(s.blocks))*time.Minute))
	b.Sign("l1", signer(key))
	s.blocks = append(s.blocks, b)
}

// truncate writes the checkpoint of a block.
func (s *shelf) truncate(t rapid.TB, block int64) {
	c, err := ledger.Verification{Keys: s.keys}.Checkpoint(context.Background(), s, block, sealed.Add(24*time.Hour))
	if err != nil {
		t.Fatalf("cannot make the checkpoint of block %d: %v", block, err)
	}
	c.Sign("l1", signer(2))
	s.checkpoints = append(s.checkpoints, c)
}

// prune drops what the checkpoint drops, and tells after each step.
func (s *shelf) prune(step func()) {
	edge := s.checkpoints[len(s.checkpoints)-1].Last
	kept := map[ledger.Ref]int64{}
	for _, e := range s.entries {
		if e.Seq <= edge {
			kept[e.Ref()] = e.Seq
		}
	}
	replaced := func(e ledger.Entry) bool { return e.Seq <= edge && kept[e.Ref()] != e.Seq }
	for i := 0; i < len(s.entries); {
		if !replaced(s.entries[i]) {
			i++
			continue
		}
		s.entries = slices.Delete(slices.Clone(s.entries), i, i+1)
		step()
	}
	for i := range s.blocks {
		if s.blocks[i].Last <= edge {
			s.blocks[i].Seals = slices.DeleteFunc(slices.Clone(s.blocks[i].Seals), func(x ledger.Seal) bool {
				return !slices.ContainsFunc(s.entries, func(e ledger.Entry) bool { return e.Seq == x.Seq })
			})
			step()
		}
	}
	s.checkpoints = slices.Clone(s.checkpoints)
	s.checkpoints[len(s.checkpoints)-1].Pruned = true
	step()
}

func (s *shelf) erase(seq int64) {
	for i := range s.entries {
		for b := range s.blocks {
			for n := range s.blocks[b].Seals {
				if x := s.blocks[b].Seals[n]; x.Seq == seq && s.entries[i].Seq == seq {
					s.blocks[b].Seals = slices.Clone(s.blocks[b].Seals)
					s.blocks[b].Seals[n], s.entries[i] = x.Erase(s.entries[i])
				}
			}
		}
	}
}

func (s *shelf) copy() *shelf {
	c := *s
	c.keys, c.entries, c.blocks = slices.Clone(s.keys), slices.Clone(s.entries), slices.Clone(s.blocks)
	c.checkpoints, c.objects = slices.Clone(s.checkpoints), maps.Clone(s.objects)
	for i := range c.blocks {
		c.blocks[i].Seals = slices.Clone(s.blocks[i].Seals)
	}
	return &c
}

func (s *shelf) verify(t rapid.TB, kept ledger.Heads) ledger.Report {
	r, err := ledger.Verification{Keys: s.keys, Kept: kept, Kinds: []string{"beast"}}.Run(context.Background(), s)
	if err != nil {
		t.Fatalf("cannot verify: %v", err)
	}
	return r
}

func (s *shelf) Head(context.Context) (ledger.Head, error) { return s.head, nil }

func (s *shelf) Entries(_ context.Context, after int64, limit int) ([]ledger.Entry, error) {
	var out []ledger.Entry
	for _, e := range slices.SortedFunc(slices.Values(s.entries), func(a, b ledger.Entry) int { return cmp.Compare(a.Seq, b.Seq) }) {
		if e.Seq > after && len(out) < limit {
			out = append(out, e)
		}
	}
	return out, nil
}

func (s *shelf) Blocks(ctx context.Context, after int64, limit int) ([]ledger.Block, error) {
	var out []ledger.Block
	if limit < 0 {
		all, err := s.Blocks(ctx, after, len(s.blocks))
		slices.Reverse(all)
		return all[:min(len(all), -limit)], err
	}
	for _, b := range slices.SortedFunc(slices.Values(s.blocks), func(a, b ledger.Block) int { return cmp.Compare(a.Number, b.Number) }) {
		if b.Number > after && len(out) < limit {
			b.Seals = ledger.UnpackSeals(ledger.PackSeals(b.Seals))
			out = append(out, b)
		}
	}
	return out, nil
}

func (s *shelf) Checkpoints(context.Context) ([]ledger.Checkpoint, error) { return s.checkpoints, nil }

func (s *shelf) Standing(_ context.Context, kind, after string, limit int) ([]ledger.Entry, error) {
	var out []ledger.Entry
	for _, ref := range slices.SortedFunc(maps.Keys(s.objects), func(a, b ledger.Ref) int { return strings.Compare(a.ID, b.ID) }) {
		if ref.Kind == kind && ref.ID > after && len(out) < limit {
			out = append(out, s.objects[ref])
		}
	}
	return out, nil
}

func (s *shelf) Compare(_ context.Context, ref ledger.Ref) (ledger.Standing, error) {
	o, is := s.objects[ref]
	out := ledger.Standing{Object: is, Version: o.Version}
	for i := range s.entries {
		if e := &s.entries[i]; e.Ref() == ref {
			out.Seq, out.Erased, out.Same = e.Seq, e.Erased(), is && bytes.Equal(e.State, o.State)
		}
	}
	if !is && out.Seq == 0 {
		return out, fault.New(fault.NotFound, "%s does not exist", ref)
	}
	return out, nil
}
