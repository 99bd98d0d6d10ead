package sqlledger

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// pruneRows is how many changes are dropped in one transaction: few enough that
// nobody who writes beside it notices.
const pruneRows = 256

func other(what string) error {
	return fault.New(fault.Conflict, "%s by somebody else meanwhile", what).Because("sealed")
}

// AppendBlock implements ledger.Sealer. Blocks are never removed, so that the
// number alone keeps two sealers apart.
func (l *Ledger) AppendBlock(ctx context.Context, b ledger.Block) error {
	last, err := l.Blocks(ctx, 0, -1)
	if err != nil {
		return err
	}
	number, first := int64(1), int64(1)
	if len(last) > 0 {
		number, first = last[0].Number+1, last[0].Last+1
	}
	switch {
	case b.Number < number:
		return other("the block was sealed")
	case b.Number > number || b.First != first || b.Last < b.First || int64(len(b.Seals)) != b.Last-b.First+1 || len(b.Signature) == 0:
		return fault.New(fault.Invalid, "block %d does not follow block %d", b.Number, number-1)
	}
	_, err = l.submit(ctx, &request{exec: []statement{{op: raw,
		sql:  "INSERT INTO blocks (" + headerColumns + ", seals) VALUES (" + params(1, 10) + ") ON CONFLICT (number) DO NOTHING",
		args: []any{b.Number, b.First, b.Last, b.Epoch, micros(b.At), b.Root[:], b.Previous[:], b.Key, b.Signature, ledger.PackSeals(b.Seals)}}}})
	if err != nil {
		return err
	}
	stored, err := l.Blocks(ctx, b.Number-1, 1)
	if err == nil && (len(stored) != 1 || !bytes.Equal(stored[0].Signature, b.Signature)) {
		err = other("the block was sealed")
	}
	return err
}

// Truncate implements ledger.Sealer.
func (l *Ledger) Truncate(ctx context.Context, c ledger.Checkpoint) error {
	at, err := l.Blocks(ctx, c.Block-1, 1)
	if err != nil {
		return err
	}
	if len(at) != 1 || at[0].Number != c.Block || at[0].Last != c.Last || len(c.Signature) == 0 {
		return fault.New(fault.Invalid, "a checkpoint is at the end of a sealed block")
	}
	block, _, _, err := l.checkpoint(ctx)
	if err != nil {
		return err
	}
	if block >= c.Block {
		return other("the log was truncated")
	}
	_, err = l.submit(ctx, &request{exec: []statement{{op: raw,
		sql:  "INSERT INTO checkpoints (block, last_seq, last_at, head, kept, root, at, key_id, signature, pruned) VALUES (" + params(1, 9) + ", 0) ON CONFLICT (block) DO NOTHING",
		args: []any{c.Block, c.Last, micros(c.LastAt), c.Head[:], c.Count, c.Root[:], micros(c.At), c.Key, c.Signature}}}})
	return err
}

// Prune implements ledger.Sealer. The rows of a block go first, a few at a time,
// then their seals: whatever is left of both when it is stopped is dropped by the
// next call, and holds until then.
func (l *Ledger) Prune(ctx context.Context) (more bool, err error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	block, last, pruned, err := l.checkpoint(ctx)
	if err != nil || pruned >= block {
		return false, err
	}
	found, err := l.blocks(ctx, "SELECT "+headerColumns+", seals FROM blocks WHERE number > $1 AND number <= $2 AND length(seals) > 0 ORDER BY number LIMIT 1", pruned, block)
	if err != nil {
		return false, err
	}
	done := statement{op: raw, sql: "UPDATE checkpoints SET pruned = $1 WHERE block = $2 AND pruned < $1", args: []any{block, block}}
	if len(found) == 0 {
		_, err = l.submit(ctx, &request{exec: []statement{done}})
		return false, err
	}
	b := found[0]
	gone, err := l.numbersOf(ctx, `SELECT a.seq FROM log AS a WHERE a.seq >= $1 AND a.seq <= $2 AND EXISTS
		(SELECT 1 FROM log AS b WHERE b.kind = a.kind AND b.id = a.id AND b.seq > a.seq AND b.seq <= $3) ORDER BY a.seq LIMIT $4`, b.First, b.Last, last, int64(pruneRows))
	if err != nil {
		return false, err
	}
	if len(gone) > 0 {
		var bind binder
		where := l.dialect.among("seq", gone, false, &bind)
		_, err := l.submit(ctx, &request{exec: []statement{{op: raw, sql: "DELETE FROM log WHERE " + where, args: bind.args}}})
		return err == nil, err
	}
	left, err := l.numbersOf(ctx, "SELECT seq FROM log WHERE seq >= $1 AND seq <= $2 ORDER BY seq", b.First, b.Last)
	if err != nil {
		return false, err
	}
	seals := slices.DeleteFunc(slices.Clone(b.Seals), func(s ledger.Seal) bool {
		_, is := slices.BinarySearchFunc(left, s.Seq, func(a any, seq int64) int { return int(a.(int64) - seq) })
		return !is
	})
	done.args[0] = b.Number
	_, err = l.submit(ctx, &request{exec: []statement{l.reseal(b, seals), done}})
	return err == nil && b.Number < block, err
}

// reseal replaces the seals of a block unless somebody else has meanwhile.
func (l *Ledger) reseal(b ledger.Block, seals []ledger.Seal) statement {
	return statement{op: raw, sql: "UPDATE blocks SET seals = $1 WHERE number = $2 AND seals = $3",
		args: []any{ledger.PackSeals(seals), b.Number, ledger.PackSeals(b.Seals)}}
}

// Erase implements ledger.Sealer. SQLite overwrites what is replaced (see connect);
// PostgreSQL does when it vacuums the table.
func (l *Ledger) Erase(ctx context.Context, seq int64) error {
	const tries = 3
	for range tries {
		done, err := l.erase(ctx, seq)
		if done && err == nil && l.dialect.scrub != "" {
			// Readers may keep it from that; then the log of writes has it until its next turn.
			err = l.engine.read(ctx, l.dialect.scrub, nil, func(scanner) error { return nil })
		}
		if done || err != nil {
			return err
		}
	}
	return fault.New(fault.Unavailable, "the seals around change %d keep changing: try again", seq)
}

func (l *Ledger) erase(ctx context.Context, seq int64) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	found, err := l.Entries(ctx, seq-1, 1)
	if err != nil {
		return false, err
	}
	if len(found) == 0 || found[0].Seq != seq {
		return false, fault.New(fault.NotFound, "there is no change %d", seq)
	}
	e := found[0]
	if e.Erased() {
		return true, nil
	}
	later, err := l.numbersOf(ctx, "SELECT seq FROM log WHERE kind = $1 AND id = $2 AND seq > $3 ORDER BY seq LIMIT 1", e.Kind, e.ID, seq)
	if err != nil {
		return false, err
	}
	if len(later) == 0 {
		how := "change it first, before it is deleted"
		if was, err := l.decodeState(e.State); err == nil && !was.Deleted.IsZero() {
			how = "it is deleted, and the last change of an object is never erased; what must not be kept is changed before that"
		}
		return false, fault.New(fault.Conflict, "%s is still what change %d says: %s", e.Ref(), seq, how).Because("present")
	}
	at, err := l.blocks(ctx, "SELECT "+headerColumns+", seals FROM blocks WHERE last_seq >= $1 ORDER BY last_seq LIMIT 1", seq)
	if err != nil {
		return false, err
	}
	if len(at) == 0 || at[0].First > seq {
		return false, fault.New(fault.Conflict, "change %d is not sealed yet: it will be within a minute", seq).Because("unsealed")
	}
	b := at[0]
	i := slices.IndexFunc(b.Seals, func(s ledger.Seal) bool { return s.Seq == seq })
	if i < 0 || !b.Seals[i].Holds(&e) {
		return false, fault.New(fault.Conflict, "change %d is not what was sealed: verify the ledger", seq).Because("flaw")
	}
	seals := slices.Clone(b.Seals)
	seals[i], e = seals[i].Erase(e)
	// The seals first: whoever is second changes neither.
	_, err = l.submit(ctx, &request{exec: []statement{l.reseal(b, seals), {op: raw,
		sql:  "UPDATE log SET state = $1 WHERE seq = $2 AND EXISTS (SELECT 1 FROM blocks WHERE number = $3 AND seals = $4)",
		args: []any{string(e.State), seq, b.Number, ledger.PackSeals(seals)}}}})
	if err != nil {
		return false, err
	}
	found, err = l.Entries(ctx, seq-1, 1)
	return err == nil && len(found) == 1 && found[0].Erased(), err
}
