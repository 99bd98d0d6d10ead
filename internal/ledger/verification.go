package ledger

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Evidence is what a verification reads.
type Evidence interface {
	Head(ctx context.Context) (Head, error)
	Archive
}

// Verification is a look at a whole ledger, beside those who write.
type Verification struct {
	Keys  []SealKey // the ledger's own, from the first to the last
	Kept  Heads     // what somebody has of it elsewhere; none if empty
	Kinds []string  // of objects that are compared with the log
	// Progress is told now and then how far it is; default: nobody.
	Progress func(changes, of int64)
}

const (
	verifyRows = 1000
	// verifyTries: where the log is truncated meanwhile, or something in it erased, changes
	// are read that are gone in the next moment. A flaw is one if it is still there.
	verifyTries = 3
	// checkpointTries are fewer: whoever truncates comes again by himself.
	checkpointTries = 2
)

// Run reads the log once, then the objects. The error says that it could not; a
// flaw is in the report.
func (c Verification) Run(ctx context.Context, e Evidence) (Report, error) {
	for try := 1; ; try++ {
		before, err := e.Checkpoints(ctx)
		if err != nil {
			return Report{}, err
		}
		v, err := c.fold(ctx, e, before, 0)
		if err == nil && v.Flaw == nil {
			v.Flaw, err = beyond(ctx, e, v.last)
		}
		if err == nil && v.Flaw == nil {
			err = c.objects(ctx, e, v)
		}
		if err != nil || v.Flaw == nil || try == verifyTries {
			return v.Report, err
		}
	}
}

// Checkpoint looks at the log up to the end of a block, and returns the
// checkpoint that would keep what is left then; it is yet to be signed. A flaw
// is an error: what is not what was written must not be sealed anew.
func (c Verification) Checkpoint(ctx context.Context, e Evidence, block int64, now time.Time) (Checkpoint, error) {
	var v *Verifier
	for try := 1; ; try++ { // as in Run: something may be erased or truncated meanwhile
		before, err := e.Checkpoints(ctx)
		if err == nil {
			v, err = c.fold(ctx, e, before, block)
		}
		if err != nil {
			return Checkpoint{}, err
		}
		if v.Flaw == nil || try == checkpointTries {
			break
		}
	}
	switch {
	case v.Flaw != nil:
		return Checkpoint{}, fault.New(fault.Conflict, "the log is not truncated, because it is not what was written: %w", v.Flaw).Because("flaw")
	case v.before == nil || v.before.Number != block:
		return Checkpoint{}, fault.New(fault.Invalid, "there is no block %d", block)
	}
	out := Checkpoint{Block: block, Last: v.before.Last, Head: v.head, At: now.UTC().Truncate(time.Microsecond)}
	out.Count, out.Root = v.Kept()
	last, err := e.Entries(ctx, out.Last-1, 1)
	if err == nil && (len(last) != 1 || last[0].Seq != out.Last) {
		err = fault.New(fault.Conflict, "the log was truncated meanwhile").Because("sealed")
	}
	if err != nil {
		return Checkpoint{}, err
	}
	out.LastAt = time.UnixMicro(last[0].At).UTC()
	return out, nil
}

// fold goes through blocks and changes, up to the end of a block or, if that is
// zero, of the log.
func (c Verification) fold(ctx context.Context, e Evidence, checkpoints []Checkpoint, until int64) (*Verifier, error) {
	// The last block before the head: what was sealed then was written by then.
	last, err := e.Blocks(ctx, math.MinInt64, -1)
	if err != nil {
		return &Verifier{}, err
	}
	head, err := e.Head(ctx)
	if err != nil {
		return &Verifier{}, err
	}
	v, flaw := NewVerifier(head.Ledger, c.Keys, c.Kept, checkpoints)
	if flaw != nil {
		return v, nil
	}
	f := folding{Verification: c, Evidence: e, Verifier: v, end: head.Seq, read: math.MinInt64}
	// From before the first: what was numbered away would be read by nobody.
	for number := int64(math.MinInt64); flaw == nil && len(last) > 0 && (until == 0 || number < until); {
		blocks, err := e.Blocks(ctx, number, 4)
		if err != nil {
			return v, err
		}
		behind := 0
		for _, b := range blocks {
			if b.Number > last[0].Number || until > 0 && b.Number > until {
				behind++
				continue
			}
			if flaw = v.Block(b); flaw == nil {
				flaw, err = f.entries(ctx, b.Last)
			}
			if flaw != nil || err != nil {
				return v, err
			}
			number = b.Number
		}
		if len(blocks) == behind {
			break
		}
	}
	if until > 0 {
		v.finish()
		return v, nil
	}
	if flaw, err = f.entries(ctx, head.Seq); flaw == nil && err == nil {
		v.End(head.Seq)
	}
	return v, err
}

// folding reads the log a piece at a time.
type folding struct {
	Verification
	Evidence
	*Verifier
	end    int64
	read   int64 // sequence up to which it was read
	buffer []Entry
}

// entries hands the fold what is there up to a sequence.
func (f *folding) entries(ctx context.Context, until int64) (*Flaw, error) {
	for {
		if len(f.buffer) == 0 && f.read < until {
			found, err := f.Entries(ctx, f.read, verifyRows)
			if err != nil {
				return nil, err
			}
			f.buffer = found
			if f.read = f.end; len(found) == verifyRows {
				f.read = found[len(found)-1].Seq
			}
			if f.Progress != nil {
				f.Progress(min(f.read, f.end), f.end)
			}
		}
		n := slices.IndexFunc(f.buffer, func(e Entry) bool { return e.Seq > until })
		if n < 0 {
			n = len(f.buffer)
		}
		for i := range f.buffer[:n] {
			if flaw := f.Entry(&f.buffer[i]); flaw != nil {
				return flaw, nil
			}
		}
		f.buffer = f.buffer[n:]
		if len(f.buffer) > 0 || f.read >= until {
			return nil, ctx.Err()
		}
	}
}

// objects compares what is there with what the log said of it last.
func (c Verification) objects(ctx context.Context, e Evidence, v *Verifier) error {
	for _, kind := range c.Kinds {
		for after := ""; ; {
			found, err := e.Standing(ctx, kind, after, verifyRows)
			if err != nil {
				return err
			}
			if c.Progress != nil {
				c.Progress(v.last, v.last)
			}
			for i := range found {
				if after = found[i].ID; v.Object(&found[i]) {
					continue
				}
				if flaw, err := differs(ctx, e, found[i].Ref()); flaw != nil || err != nil {
					v.Flaw = flaw
					return err
				}
			}
			if len(found) < verifyRows {
				break
			}
		}
	}
	for _, seq := range v.Rest() {
		last, err := e.Entries(ctx, seq-1, 1)
		if err != nil {
			return err
		}
		if len(last) == 0 || last[0].Seq != seq {
			continue // it was dropped because there is a later one, whose object was looked at
		}
		if !slices.Contains(c.Kinds, last[0].Kind) {
			v.Unknown++
			continue
		}
		if flaw, err := differs(ctx, e, last[0].Ref()); flaw != nil || err != nil {
			v.Flaw = flaw
			return err
		}
	}
	return nil
}

// beyond looks for a change behind the head, which nobody has written: what is
// new since the log was read has moved the head in the same commit.
func beyond(ctx context.Context, e Evidence, after int64) (*Flaw, error) {
	for {
		found, err := e.Entries(ctx, after, 1)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		head, err := e.Head(ctx)
		if err != nil {
			return nil, err
		}
		if found[0].Seq > head.Seq {
			return extra(found[0].Seq, found[0].Ref(), head.Seq), nil
		}
		after = head.Seq
	}
}

func extra(seq int64, ref Ref, head int64) *Flaw {
	return &Flaw{Kind: FlawExtra, Seq: seq, Ref: ref, Text: fmt.Sprintf("change %d of %s is there, and the log ends at change %d: somebody added it", seq, ref, head)}
}

// differs looks at an object that is not, byte by byte, what was read of the log:
// it may have been changed since, or written by another version of the program.
func differs(ctx context.Context, e Evidence, ref Ref) (*Flaw, error) {
	s, err := e.Compare(ctx, ref)
	if err != nil {
		return nil, err
	}
	// After the comparison: whatever was written by then has moved the head.
	head, err := e.Head(ctx)
	if err != nil {
		return nil, err
	}
	flaw := &Flaw{Kind: FlawObject, Seq: s.Seq, Ref: ref}
	switch {
	case s.Seq > head.Seq:
		return extra(s.Seq, ref, head.Seq), nil
	case s.Object && s.Erased:
		// Erase refuses the last change of an object: without its content anything could be put in the object's place.
		flaw.Text = fmt.Sprintf("the content of change %d, the last of %s, was erased, which is never done: nothing proves what it is", s.Seq, ref)
	case s.Object && s.Same:
		return nil, nil
	case !s.Object:
		flaw.Text = fmt.Sprintf("%s is gone, and change %d says that it is there: somebody removed it behind the log's back", ref, s.Seq)
	case s.Seq == 0:
		flaw.Text = fmt.Sprintf("%s is there, and the log knows nothing of it: somebody added it behind the log's back", ref)
	default:
		flaw.Text = fmt.Sprintf("%s is not what change %d, its last, says: somebody edited it behind the log's back", ref, s.Seq)
	}
	return flaw, nil
}
