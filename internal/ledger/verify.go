package ledger

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"time"
)

// Verifier is a fold over blocks and changes in their order: it is handed each
// block, then the changes of that block, then those that are not sealed yet.
// It reads nothing and keeps, of each object, a few dozen bytes.
type Verifier struct {
	Report
	ring   ring
	paper  []SealedHead
	edge   *Checkpoint // the last one; nil: nothing was truncated
	block  *Block      // the present one; nil: behind the last
	before *Block
	head   Hash // of the chain, with the present block
	root   hash.Hash
	count  int64
	at     int // of the next seal
	last   int64
	passed bool // the edge was
	things map[thing]known
}

// thing names an object.
type thing [16]byte

// known is what the log said of an object last.
type known struct {
	seq    int64
	state  [16]byte // digest of what it was
	digest Hash     // of the change
	erased bool
	loose  bool // its block has lost seals to truncation: only a checkpoint proves it
}

// NewVerifier begins. Keys are the ledger's own, from the first to the last;
// kept is what somebody has of it elsewhere; checkpoints are all that there are.
func NewVerifier(ledger string, keys []SealKey, kept Heads, checkpoints []Checkpoint) (*Verifier, *Flaw) {
	v := &Verifier{Report: Report{Ledger: ledger}, paper: kept.Heads, things: map[thing]known{}}
	if kept.Ledger != "" && kept.Ledger != ledger {
		return v, v.fail(Flaw{Kind: FlawHead, Text: fmt.Sprintf("the heads are of ledger %s, and this is ledger %s", kept.Ledger, ledger)})
	}
	var flaw *Flaw
	if v.ring, flaw = newRing(ledger, keys); flaw != nil {
		return v, v.fail(*flaw)
	}
	for _, k := range kept.Keys {
		if is := v.ring[k.ID]; is == nil || !slices.Equal(is.Public, k.Public) {
			return v, v.fail(Flaw{Kind: FlawKey, Text: "key " + k.ID + ", which was kept elsewhere, is not among the ledger's: everything may have been written anew with another one"})
		}
	}
	for i := range checkpoints {
		c := &checkpoints[i]
		if !v.ring.signed(c.Key, c.Hash(ledger), c.Signature) {
			return v, v.fail(Flaw{Kind: FlawSignature, Block: c.Block, Seq: c.Last, Text: fmt.Sprintf("the checkpoint at change %d was not signed by this ledger's key", c.Last)})
		}
		if v.edge != nil && c.Last <= v.edge.Last {
			return v, v.fail(Flaw{Kind: FlawChain, Block: c.Block, Text: fmt.Sprintf("the checkpoint at change %d comes after one at change %d", c.Last, v.edge.Last)})
		}
		v.edge = c
	}
	if v.edge != nil {
		v.History, v.Truncated = v.edge.LastAt, v.edge.Last
	}
	return v, nil
}

func (v *Verifier) fail(f Flaw) *Flaw {
	if v.Flaw == nil {
		v.Flaw = &f
	}
	return v.Flaw
}

// kept reports whether a sequence is in the part of which only the last change
// of each object is there.
func (v *Verifier) kept(seq int64) bool { return v.edge != nil && seq <= v.edge.Last }

// Block takes the next block.
func (v *Verifier) Block(b Block) *Flaw {
	if f := v.finish(); f != nil {
		return f
	}
	if f := v.pass(b.First); f != nil {
		return f
	}
	number, first, previous := int64(1), int64(1), Hash{}
	if v.before != nil {
		number, first, previous = v.before.Number+1, v.before.Last+1, v.head
	}
	here := Flaw{Block: b.Number, Seq: b.First}
	head := b.Hash(v.Ledger)
	switch {
	case b.Number != number:
		here.Kind, here.Block, here.Text = FlawChain, number, fmt.Sprintf("block %d is missing: block %d comes in its place", number, b.Number)
	case !v.ring.signed(b.Key, head, b.Signature):
		here.Kind, here.Text = FlawSignature, fmt.Sprintf("block %d (changes %d to %d) was not signed by this ledger's key: it was made or changed by somebody else", b.Number, b.First, b.Last)
	case b.Previous != previous:
		here.Kind, here.Text = FlawChain, fmt.Sprintf("block %d does not follow the block that is before it: one of the two was replaced", b.Number)
	case b.First != first || b.Last < b.First:
		here.Kind, here.Text = FlawChain, fmt.Sprintf("block %d is about changes %d to %d, and the block before ends at %d", b.Number, b.First, b.Last, first-1)
	}
	if here.Kind != "" {
		return v.fail(here)
	}
	v.block, v.head, v.root, v.count, v.at = &b, head, begin("drover block 1"), 0, 0
	v.Last = &SealedHead{Block: b.Number, Seq: b.Last, Epoch: b.Epoch, At: b.At, Hash: head, Key: b.Key, Signature: b.Signature}
	for _, p := range v.paper {
		if p.Block != b.Number {
			continue
		}
		if p.Hash != head {
			return v.fail(Flaw{Kind: FlawHead, Block: b.Number, Seq: b.Last, Text: rewritten(p, &b)})
		}
		v.Heads++
	}
	return nil
}

func rewritten(p SealedHead, b *Block) string {
	text := fmt.Sprintf("block %d is another one than the head that was kept elsewhere says: changes up to %d were written anew", b.Number, b.Last)
	if b.Epoch != p.Epoch {
		text += fmt.Sprintf(" (the ledger has been restored since: it was in epoch %d then, and the block is of epoch %d)", p.Epoch, b.Epoch)
	}
	return text
}

// Entry takes the next change of the log.
func (v *Verifier) Entry(e *Entry) *Flaw {
	here := Flaw{Seq: e.Seq, Ref: e.Ref()}
	if v.block != nil && e.Seq > v.block.Last {
		if f := v.finish(); f != nil {
			return f
		}
	}
	if f := v.pass(e.Seq); f != nil {
		return f
	}
	if next := v.last + 1; e.Seq <= v.last || e.Seq != next && !v.kept(next) {
		return v.gap(e.Seq)
	}
	var digest Hash
	if v.block == nil {
		v.Unsealed++
	} else {
		here.Block = v.block.Number
		seal := v.seal(e.Seq)
		switch {
		case seal == nil && v.kept(e.Seq):
			here.Kind, here.Text = FlawExtra, fmt.Sprintf("change %d of %s is there, and truncation had removed it or nobody wrote it", e.Seq, e.Ref())
		case seal == nil:
			here.Kind, here.Text = FlawContent, fmt.Sprintf("the seal of change %d of %s is gone", e.Seq, e.Ref())
		case !seal.Holds(e):
			here.Kind, here.Text = FlawContent, fmt.Sprintf("what change %d says of %s is not what was sealed at %s", e.Seq, e.Ref(), v.block.At.Format(time.RFC3339))
		}
		if here.Kind != "" {
			return v.fail(here)
		}
		digest = seal.Digest
		v.root.Write(digest[:])
		v.count++
		v.Changes++
		if e.Erased() {
			if v.Erased++; len(v.Erasures) < maxErasures {
				v.Erasures = append(v.Erasures, Erasure{e.Seq, e.Ref()})
			}
		}
	}
	v.last = e.Seq
	thing := thingOf(e.Ref())
	if f := v.replaced(v.things[thing], e); f != nil {
		return f
	}
	v.things[thing] = known{e.Seq, stateOf(e.State), digest, e.Erased(), v.block != nil && !v.block.whole()}
	return nil
}

// replaced takes what the log said of an object before the present change. Up to the
// edge truncation drops it, so that it is there no longer or not yet; what was put back
// since has a seal, but no checkpoint is about it.
func (v *Verifier) replaced(before known, by *Entry) *Flaw {
	switch {
	case before.seq == 0 || !v.kept(by.Seq):
	case v.edge.Pruned:
		return v.fail(Flaw{Kind: FlawExtra, Seq: before.seq, Ref: by.Ref(),
			Text: fmt.Sprintf("change %d of %s is there, and truncation has removed it, because change %d replaces it: somebody added it", before.seq, by.Ref(), by.Seq)})
	case before.loose:
		v.Leftover++
	}
	return nil
}

// gap says what is wrong with a sequence that is not the next.
func (v *Verifier) gap(seq int64) *Flaw {
	if seq <= v.last {
		return v.fail(Flaw{Kind: FlawExtra, Seq: seq, Text: fmt.Sprintf("change %d comes after change %d", seq, v.last)})
	}
	first := v.last + 1
	text := fmt.Sprintf("change %d is missing", first)
	if seq > first+1 {
		text = fmt.Sprintf("changes %d to %d are missing", first, seq-1)
	}
	return v.fail(Flaw{Kind: FlawMissing, Seq: first, Text: text})
}

// seal finds that of a change in the present block.
func (v *Verifier) seal(seq int64) *Seal {
	for ; v.at < len(v.block.Seals); v.at++ {
		if s := &v.block.Seals[v.at]; s.Seq >= seq {
			if s.Seq == seq {
				return s
			}
			return nil
		}
	}
	return nil
}

// finish ends the present block.
func (v *Verifier) finish() *Flaw {
	b := v.block
	if b == nil {
		return nil
	}
	v.Blocks++
	root := sum(v.root)
	if v.kept(b.Last) && b.whole() { // changes of it may be gone, but its seals tell of all
		root = b.sealed()
	}
	truncated := v.kept(b.Last) && !b.whole()
	v.before, v.block = b, nil
	b.Seals = nil
	if v.kept(b.Last) {
		v.last = b.Last // some of it may be gone; the checkpoint tells
	}
	if truncated {
		return nil
	}
	if v.last != b.Last {
		return v.gap(b.Last + 1)
	}
	if root != b.Root {
		// Every change holds by its own seal: the seals are not those that were signed.
		return v.fail(Flaw{Kind: FlawContent, Block: b.Number, Seq: b.First,
			Text: fmt.Sprintf("one of the changes %d to %d (block %d) was changed together with its seal", b.First, b.Last, b.Number)})
	}
	return nil
}

// pass is called before anything of a sequence is looked at: the first that is
// beyond the edge has all that was kept before it.
func (v *Verifier) pass(seq int64) *Flaw {
	if v.edge == nil || v.passed || seq <= v.edge.Last {
		return nil
	}
	v.passed = true
	here := Flaw{Kind: FlawCheckpoint, Block: v.edge.Block, Seq: v.edge.Last}
	if v.before == nil || v.before.Number != v.edge.Block || v.before.Last != v.edge.Last || v.head != v.edge.Head {
		here.Text = fmt.Sprintf("the checkpoint at change %d is not about this chain of blocks", v.edge.Last)
		return v.fail(here)
	}
	count, root := v.Kept()
	if count != v.edge.Count {
		here.Kind = FlawMissing
		if count > v.edge.Count {
			here.Kind = FlawExtra
		}
		here.Text = fmt.Sprintf("of the changes up to %d, %d were kept when the log was truncated, and %d are there", v.edge.Last, v.edge.Count, count)
		return v.fail(here)
	}
	if root != v.edge.Root {
		here.Kind, here.Text = FlawContent, fmt.Sprintf("one of the %d changes that were kept up to %d is not what it was when the log was truncated", count, v.edge.Last)
		return v.fail(here)
	}
	v.last = v.edge.Last
	return nil
}

// Kept is what a checkpoint at the present place would keep.
func (v *Verifier) Kept() (count int64, root Hash) {
	all := make([]known, 0, len(v.things))
	for _, k := range v.things {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b known) int { return int(min(max(a.seq-b.seq, -1), 1)) })
	w := begin("drover checkpoint root 1")
	for i := range all {
		w.Write(all[i].digest[:])
	}
	return int64(len(all)), sum(w)
}

// End takes the log's head, which tells how many changes there must be.
func (v *Verifier) End(seq int64) *Flaw {
	if f := v.finish(); f != nil {
		return f
	}
	if f := v.pass(seq + 1); f != nil {
		return f
	}
	if v.last < seq {
		return v.gap(seq + 1)
	}
	for _, p := range v.paper {
		if p.Block > v.Blocks {
			return v.fail(Flaw{Kind: FlawHead, Block: p.Block, Seq: p.Seq,
				Text: fmt.Sprintf("the ledger has %d blocks, and the head that was kept elsewhere is that of block %d: its end was cut off, or it was restored from an older copy", v.Blocks, p.Block)})
		}
	}
	return nil
}

// Object tells whether an object is, byte by byte, what the log said of it last,
// and takes it off those that are to come.
func (v *Verifier) Object(standing *Entry) bool {
	k, ok := v.things[thingOf(standing.Ref())]
	delete(v.things, thingOf(standing.Ref()))
	v.Objects++
	return ok && !k.erased && k.state == stateOf(standing.State)
}

// Rest lists the last changes of the objects that did not come.
func (v *Verifier) Rest() []int64 {
	var out []int64
	for _, k := range v.things {
		out = append(out, k.seq)
	}
	slices.Sort(out)
	return out
}

func thingOf(r Ref) (t thing) {
	w := sha256.New()
	text(w, r.Kind)
	text(w, r.ID)
	copy(t[:], w.Sum(nil))
	return t
}

func stateOf(state []byte) (s [16]byte) {
	h := sha256.Sum256(state)
	copy(s[:], h[:])
	return s
}
