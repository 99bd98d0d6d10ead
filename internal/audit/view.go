package audit

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// Page asks for a piece of the records.
type Page struct {
	Filter
	// After begins behind this change and goes on to newer ones. Without it, Before
	// is where it ends, and the newest before that come first; 0: the end of the log.
	After  int64
	Oldest bool // from the beginning, as with After
	Before int64
	Limit  int
}

// Records is such a piece.
type Records struct {
	Items []Record
	// Next is what to ask with for the next piece, as After or Before: not all of the
	// log is looked at at once. 0: that was all.
	Next int64
	// History is when the log begins to be whole; zero: it always was. From before,
	// only the last change of each object is there.
	History time.Time
}

const (
	pageRead = 1000
	// scanned bounds how much of the log one call goes through.
	scanned = 20_000
)

// List returns a piece of what was done.
func (s *Service) List(ctx context.Context, p Page) (Records, error) {
	head, err := s.Store.Head(ctx)
	if err != nil {
		return Records{}, err
	}
	out := Records{Items: []Record{}, History: head.Since}
	q := ledger.ChangeQuery{Org: p.Org, Left: true, Limit: pageRead}
	if p.Kind != "" && ends[p.Kind] == nil && p.Outcome != "" && p.Outcome != Done {
		return out, nil // calls that were refused have done nothing to anything
	}
	q.Kind = p.Kind
	forward := p.Oldest || p.After > 0
	if forward {
		if q.After = p.After; !p.Since.IsZero() {
			from, err := s.before(ctx, p.Since, head.Seq)
			if err != nil {
				return out, err
			}
			q.After = max(q.After, from)
		}
		q.Until = head.Seq
	} else {
		q.Reverse = true
		if q.Until = head.Seq; p.Before > 0 {
			q.Until = min(p.Before-1, head.Seq)
		}
	}
	for seen := 0; q.Until > q.After; {
		if seen >= scanned {
			if out.Next = q.After; !forward {
				out.Next = q.Until + 1
			}
			break
		}
		changes, err := s.Store.Changes(ctx, q)
		if err != nil {
			return out, err
		}
		for i := range changes {
			c := &changes[i]
			if !forward && !p.Since.IsZero() && c.At.Before(p.Since) || forward && !p.Until.IsZero() && !c.At.Before(p.Until) {
				return out, nil
			}
			if r := RecordOf(c); p.Picks(&r) {
				open, err := s.open(ctx, c)
				if err != nil {
					return out, err
				}
				if open {
					out.Items = append(out.Items, r)
				}
			}
			if len(out.Items) == p.Limit {
				out.Next = c.Seq
				return out, nil
			}
		}
		if len(changes) < pageRead {
			break
		}
		seen += len(changes)
		if last := changes[len(changes)-1].Seq; forward {
			q.After = last
		} else {
			q.Until = last - 1
		}
	}
	return out, nil
}

// open reports whether a change is to be told: the beginning of an operator's call
// is, unless its end is told, too.
func (s *Service) open(ctx context.Context, c *ledger.Change) (bool, error) {
	if c.Object.Kind != operation.AuditKind.Name || c.Object.Phase != operation.AuditStarted {
		return true, nil
	}
	now, err := s.Store.Get(ctx, c.Object.Ref)
	return now.Phase == operation.AuditStarted, err
}

// before finds the last change before a time: times in the log never fall.
func (s *Service) before(ctx context.Context, t time.Time, last int64) (int64, error) {
	low, high := int64(0), last // what is asked for is in [low, high]
	for low < high {
		middle := low + (high-low+1)/2
		found, err := s.Store.Changes(ctx, ledger.ChangeQuery{After: middle - 1, Limit: 1, Left: true})
		if err != nil {
			return 0, err
		}
		if len(found) == 1 && found[0].At.Before(t) {
			low = max(middle, min(found[0].Seq, last))
		} else {
			high = middle - 1
		}
	}
	return low, nil
}
