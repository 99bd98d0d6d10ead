package sqlledger

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// gather reads single objects of a kind for many callers in few queries: those
// who come while others are being read share the next one. What they get was read
// after they had asked. It starts at most gatherAtOnce goroutines, which end when
// nobody waits.
type gather struct {
	mu      sync.Mutex
	running int
	waiting []asked
}

type asked struct {
	id   string
	done chan got // has room for the one answer
}

type got struct {
	object ledger.Object
	err    error
}

const (
	gatherAtOnce = 3
	gatherMost   = 256
)

// gathered is Get where each read is a round trip.
func (l *Ledger) gathered(ctx context.Context, s *store, id string) (ledger.Object, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	me := asked{id: id, done: make(chan got, 1)}
	s.gather.mu.Lock()
	if s.gather.waiting = append(s.gather.waiting, me); s.gather.running < gatherAtOnce {
		s.gather.running++
		go l.readGathered(s)
	}
	s.gather.mu.Unlock()
	select {
	case g := <-me.done:
		return g.object, g.err
	case <-ctx.Done():
		return ledger.Object{}, fault.New(fault.Unavailable, "the database did not answer in time: %w", ctx.Err()).Because("database-away")
	}
}

func (l *Ledger) readGathered(s *store) {
	for {
		s.gather.mu.Lock()
		batch := s.gather.waiting
		if s.gather.waiting = nil; len(batch) > gatherMost {
			batch, s.gather.waiting = batch[:gatherMost], batch[gatherMost:]
		}
		if len(batch) == 0 {
			s.gather.running--
			s.gather.mu.Unlock()
			return
		}
		s.gather.mu.Unlock()
		l.readBatch(s, batch)
	}
}

// readBatch answers all of a batch. Its time is bounded by its own context: that of
// one caller is not to end the others'.
func (l *Ledger) readBatch(s *store, batch []asked) {
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Timeout)
	defer cancel()
	ids := make([]any, 0, len(batch))
	for _, a := range batch {
		if !slices.Contains(ids, any(a.id)) {
			ids = append(ids, a.id)
		}
	}
	var b binder
	sql := "SELECT " + s.selected(false, "") + " FROM " + s.table.name + " WHERE " + l.dialect.among("id", ids, true, &b)
	found := make(map[string]ledger.Object, len(ids))
	r := s.reading(false)
	err := l.engine.read(ctx, sql, b.args, func(scan scanner) error {
		o, err := r.next(scan)
		found[o.ID] = o
		return err
	})
	for _, a := range batch {
		o, ok := found[a.id]
		switch {
		case err != nil:
			a.done <- got{err: err}
		case !ok:
			a.done <- got{err: fault.New(fault.NotFound, "%s does not exist", ledger.Ref{Kind: s.kind.Name, ID: a.id})}
		default:
			// Each has an object of its own to change; documents are replaced, not changed.
			o.Fields, o.Labels, o.Links = maps.Clone(o.Fields), maps.Clone(o.Labels), slices.Clone(o.Links)
			a.done <- got{object: o}
		}
	}
}
