package sqlledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// entry reads changeColumns as they are.
func entry(scan scanner) (e ledger.Entry, err error) {
	err = scan(&e.Seq, &e.At, &e.Actor, &e.Cause, &e.Op, &e.Kind, &e.ID, &e.Org, &e.Version, &e.From, &e.State)
	return e, err
}

// Entries implements ledger.Archive.
func (l *Ledger) Entries(ctx context.Context, after int64, limit int) ([]ledger.Entry, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	var out []ledger.Entry
	err := l.engine.read(ctx, "SELECT "+changeColumns+" FROM log WHERE seq > $1 ORDER BY seq LIMIT $2", []any{after, int64(limit)}, func(scan scanner) error {
		e, err := entry(scan)
		out = append(out, e)
		return err
	})
	return out, err
}

const headerColumns = "number, first_seq, last_seq, epoch, at, root, previous, key_id, signature"

// Blocks implements ledger.Archive.
func (l *Ledger) Blocks(ctx context.Context, after int64, limit int) ([]ledger.Block, error) {
	if limit < 0 {
		return l.blocks(ctx, "SELECT "+headerColumns+", '' FROM blocks WHERE number > $1 ORDER BY number DESC LIMIT $2", after, int64(-limit))
	}
	return l.blocks(ctx, "SELECT "+headerColumns+", seals FROM blocks WHERE number > $1 ORDER BY number LIMIT $2", after, int64(limit))
}

func (l *Ledger) blocks(ctx context.Context, sql string, args ...any) ([]ledger.Block, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	var out []ledger.Block
	err := l.engine.read(ctx, sql, args, func(scan scanner) error {
		var b ledger.Block
		var at int64
		var root, previous, seals []byte
		err := scan(&b.Number, &b.First, &b.Last, &b.Epoch, &at, &root, &previous, &b.Key, &b.Signature, &seals)
		b.At, b.Root, b.Previous, b.Seals = instant(at), hashOf(root), hashOf(previous), ledger.UnpackSeals(seals)
		out = append(out, b)
		return err
	})
	return out, err
}

// hashOf reads a sum; one of another size is none that anything has.
func hashOf(raw []byte) (h ledger.Hash) {
	if len(raw) == len(h) {
		copy(h[:], raw)
	}
	return h
}

// Checkpoints implements ledger.Archive.
func (l *Ledger) Checkpoints(ctx context.Context) ([]ledger.Checkpoint, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	var out []ledger.Checkpoint
	err := l.engine.read(ctx, "SELECT block, last_seq, last_at, head, kept, root, at, key_id, signature, pruned FROM checkpoints ORDER BY block", nil, func(scan scanner) error {
		var c ledger.Checkpoint
		var lastAt, at, pruned int64
		var head, root []byte
		err := scan(&c.Block, &c.Last, &lastAt, &head, &c.Count, &root, &at, &c.Key, &c.Signature, &pruned)
		c.Pruned = pruned >= c.Block
		c.LastAt, c.At, c.Head, c.Root = instant(lastAt), instant(at), hashOf(head), hashOf(root)
		out = append(out, c)
		return err
	})
	return out, err
}

// Standing implements ledger.Archive.
func (l *Ledger) Standing(ctx context.Context, kind, after string, limit int) ([]ledger.Entry, error) {
	s := l.stores[kind]
	if s == nil {
		return nil, nil
	}
	ctx, cancel := l.patient(ctx)
	defer cancel()
	var out []ledger.Entry
	r := s.reading(false)
	err := l.engine.read(ctx, "SELECT "+s.selected(false, "")+" FROM "+s.table.name+" WHERE id > $1 ORDER BY id LIMIT $2", []any{after, int64(limit)}, func(scan scanner) error {
		o, err := r.next(scan)
		out = append(out, ledger.Entry{Kind: o.Kind, ID: o.ID, Org: o.Org, Version: o.Version, State: []byte(encodeState(&o))})
		return err
	})
	return out, err
}

// Compare implements ledger.Archive. The object and its change are read by one
// statement: beside writers, two would see different moments.
func (l *Ledger) Compare(ctx context.Context, ref ledger.Ref) (ledger.Standing, error) {
	var out ledger.Standing
	s, err := l.store(ref.Kind)
	if err != nil {
		return out, err
	}
	ctx, cancel := l.patient(ctx)
	defer cancel()
	const last = "SELECT seq AS last_seq, state AS last_state FROM log WHERE kind = $1 AND id = $2 ORDER BY seq DESC LIMIT 1"
	var o ledger.Object
	var said ledger.Entry
	r := s.reading(false)
	err = l.engine.read(ctx, "SELECT "+s.selected(false, "o.")+", COALESCE(l.last_seq, 0), COALESCE(l.last_state, '') FROM "+s.table.name+
		" AS o LEFT JOIN ("+last+") AS l ON 1 = 1 WHERE o.id = $2", []any{ref.Kind, ref.ID}, func(scan scanner) error {
		out.Object = true
		o, err = r.next(func(dest ...any) error { return scan(append(slices.Clone(dest), &said.Seq, &said.State)...) })
		return err
	})
	if err != nil {
		return out, err
	}
	out.Seq, out.Version = said.Seq, o.Version
	if !out.Object {
		err := l.engine.read(ctx, last, []any{ref.Kind, ref.ID}, func(scan scanner) error { return scan(&out.Seq, &said.State) })
		if err == nil && out.Seq == 0 {
			err = fault.New(fault.NotFound, "%s does not exist", ref)
		}
		return out, err
	}
	if said.Seq == 0 {
		return out, nil
	}
	if out.Erased = said.Erased(); out.Erased {
		return out, nil
	}
	then, err := l.decodeState(said.State)
	if err != nil {
		return out, nil //nolint:nilerr // what cannot be read is not what the object is
	}
	for name := range then.Fields {
		if _, ok := s.field[name]; !ok { // of an older program, which declared it
			delete(then.Fields, name)
		}
	}
	out.Same = encodeState(&then) == encodeState(&o)
	return out, nil
}

// checkpoint is the last one, and the block up to which it was pruned.
func (l *Ledger) checkpoint(ctx context.Context) (block, last, pruned int64, err error) {
	err = l.engine.read(ctx, "SELECT block, last_seq, pruned FROM checkpoints ORDER BY block DESC LIMIT 1", nil, func(scan scanner) error {
		return scan(&block, &last, &pruned)
	})
	return block, last, pruned, err
}

// numbersOf reads a list of sequences.
func (l *Ledger) numbersOf(ctx context.Context, sql string, args ...any) ([]any, error) {
	var out []any
	err := l.engine.read(ctx, sql, args, func(scan scanner) error {
		var n int64
		err := scan(&n)
		out = append(out, n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read sequences: %w", err)
	}
	return out, nil
}
