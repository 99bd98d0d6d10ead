package sqlledger

import (
	"context"
	"math"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Head implements ledger.Log.
func (l *Ledger) Head(ctx context.Context) (ledger.Head, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	var h ledger.Head
	var at int64
	var since int64
	err := l.engine.read(ctx, "SELECT ledger, epoch, seq, at, "+wholeAfter+", COALESCE((SELECT MAX(last_at) FROM checkpoints), 0) FROM head", nil, func(scan scanner) error {
		return scan(&h.Ledger, &h.Epoch, &h.Seq, &at, &h.Whole, &since)
	})
	if at != 0 {
		h.At = instant(at)
	}
	if h.Whole != 0 {
		h.Since = instant(since)
	}
	if err == nil && h.Epoch > 1 {
		h.Began, err = l.began(ctx, h.Epoch)
	}
	return h, err
}

// began is where epochs begin, up to the one that the ledger is in. Another process may
// have begun that.
func (l *Ledger) began(ctx context.Context, epoch int64) ([]ledger.Began, error) {
	if known := l.epochs.Load(); known != nil && len(*known) > 0 && (*known)[len(*known)-1].Epoch == epoch {
		return *known, nil
	}
	var out []ledger.Began
	err := l.engine.read(ctx, "SELECT epoch, after_seq FROM epochs ORDER BY epoch", nil, func(scan scanner) error {
		var b ledger.Began
		err := scan(&b.Epoch, &b.After)
		out = append(out, b)
		return err
	})
	if err == nil {
		l.epochs.Store(&out)
	}
	return out, err
}

// wholeAfter is the sequence after which no change was dropped.
const wholeAfter = "COALESCE((SELECT MAX(last_seq) FROM checkpoints), 0)"

const changeColumns = "seq, at, actor, cause, op, kind, id, org, version, origin, state"

// Changes implements ledger.Log.
func (l *Ledger) Changes(ctx context.Context, q ledger.ChangeQuery) ([]ledger.Change, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	if q.ID != "" && q.Kind == "" {
		return nil, fault.New(fault.Invalid, "an id needs its kind")
	}
	limit := q.Limit
	if limit <= 0 {
		limit = 1000
	}
	var b binder
	until := q.Until
	if until == 0 {
		until = math.MaxInt64
	}
	parts := []string{"seq > " + b.bind(q.After), "seq <= " + b.bind(until)}
	for _, f := range []struct{ column, value string }{{"kind", q.Kind}, {"id", q.ID}, {"org", q.Org}} {
		if f.value == "" {
			continue
		}
		v, err := constant(ledger.Text, f.column, f.value)
		if err != nil {
			return nil, err
		}
		column := f.column
		if q.Until > 0 && q.ID == "" && column == "kind" {
			column += " || ''" // a stretch of the log is short; the index of a kind holds all its past
		}
		parts = append(parts, column+" = "+b.bind(v))
	}
	way := ""
	if q.Reverse {
		way = " DESC"
	}
	switch {
	case q.Left:
	case q.Reverse:
		parts = append(parts, "seq > "+wholeAfter)
	default: // in the same statement, so that nothing is dropped between the two
		parts = append(parts, b.bind(q.After)+" >= "+wholeAfter)
	}
	var out []ledger.Change
	err := l.engine.read(ctx, "SELECT "+changeColumns+" FROM log WHERE "+strings.Join(parts, " AND ")+
		" ORDER BY seq"+way+" LIMIT "+b.bind(int64(min(limit, 10_000))), b.args, func(scan scanner) error {
		c, err := l.change(scan)
		out = append(out, c)
		return err
	})
	if err == nil && len(out) == 0 && !q.Left && !q.Reverse {
		err = l.reaches(ctx, ledger.Moment{Seq: max(q.After, 0)})
	}
	return out, err
}

// reaches tells whoever asks for what was before the log's beginning so.
func (l *Ledger) reaches(ctx context.Context, m ledger.Moment) error {
	head, err := l.Head(ctx)
	if err != nil || head.Whole == 0 || m.Seq >= head.Whole || m.Seq == 0 && !m.Time.IsZero() && !m.Time.Before(head.Since) {
		return err
	}
	return ledger.Truncated(head)
}

// At implements ledger.Log.
func (l *Ledger) At(ctx context.Context, ref ledger.Ref, m ledger.Moment) (ledger.Change, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	if _, err := l.store(ref.Kind); err != nil {
		return ledger.Change{}, err
	}
	column, value := "seq", m.Seq
	if m.Seq == 0 {
		column, value = "at", micros(m.Time)
	}
	if _, err := constant(ledger.Text, "id", ref.ID); err != nil {
		return ledger.Change{}, fault.New(fault.NotFound, "%.100q did not exist then", ref)
	}
	if err := l.reaches(ctx, m); err != nil {
		return ledger.Change{}, err
	}
	var out ledger.Change
	err := l.engine.read(ctx, "SELECT "+changeColumns+" FROM log WHERE kind = $1 AND id = $2 AND "+column+" <= $3 ORDER BY seq DESC LIMIT 1",
		[]any{ref.Kind, ref.ID, value}, func(scan scanner) (err error) {
			out, err = l.change(scan)
			return err
		})
	if err == nil && out.Seq == 0 {
		if err = l.reaches(ctx, m); err != nil { // it was there a moment ago
			return out, err
		}
		err = fault.New(fault.NotFound, "%s did not exist then", ref)
	}
	return out, err
}

func (l *Ledger) change(scan scanner) (ledger.Change, error) {
	e, err := entry(scan)
	c := ledger.Change{Seq: e.Seq, At: instant(e.At), Actor: e.Actor, Op: e.Op, From: e.From}
	c.Cause, c.Trace = ledger.SplitCause(e.Cause)
	if err != nil {
		return c, err
	}
	if e.Erased() {
		c.Object = ledger.Object{Ref: e.Ref(), Org: e.Org, Version: e.Version, Updated: c.At}
		return c, nil
	}
	c.Object, err = l.decodeState(e.State)
	return c, err
}
