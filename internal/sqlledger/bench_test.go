package sqlledger_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

const committers = 64

// BenchmarkTransition moves objects through phases, each a durable commit of
// the object, its log entry and its due work, with 64 callers at once.
func BenchmarkTransition(b *testing.B) {
	for name, url := range engines {
		b.Run(name, func(b *testing.B) {
			var seen tally
			m := newMover(b, open(b, sqlledger.Config{URL: url(b), Kinds: things, Observer: &seen}))
			var next atomic.Int64
			seen.batches.Store(0)
			b.ResetTimer()
			m.run(b, func() bool { return next.Add(1) <= int64(b.N) })
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "transitions/s")
			b.ReportMetric(float64(b.N)/float64(seen.batches.Load()), "sets/commit")
		})
	}
}

// mover has 64 callers with 16 objects each.
type mover struct {
	l       *sqlledger.Ledger
	objects []ledger.Object
}

func newMover(t testing.TB, l *sqlledger.Ledger) *mover {
	m := &mover{l: l, objects: make([]ledger.Object, committers*16)}
	for i := range m.objects {
		m.objects[i] = commit(t, l, put(fmt.Sprintf("%05d", i), fmt.Sprintf("org-%d", i%50), "accepted", 0)).Objects[0]
	}
	return m
}

// run makes transitions while there are more to make.
func (m *mover) run(t testing.TB, more func() bool) {
	spread(func(worker int) {
		for n := 0; more(); n++ {
			o := &m.objects[worker*16+n%16]
			o.Phase = [...]string{"preparing", "provisioning", "ready"}[o.Version%3]
			o.Status = fmt.Appendf(nil, `{"step":%d,"conditions":[{"type":"Ready","status":"False","reason":"Working"}]}`, n)
			o.View = fmt.Appendf(nil, `{"id":"%s","kind":"Dinosaur","status":"%s","name":"%s","region":"us-east-1","n":%d}`, o.ID, o.Phase, o.Name, n)
			r, err := m.l.Commit(context.Background(), ledger.Set{Actor: "system", Cause: ledger.BySchedule("bench"),
				Puts:  []ledger.Put{{Object: *o, Expect: o.Version, Op: o.Phase}},
				Wakes: []ledger.Wake{{Ref: o.Ref, Org: o.Org}}})
			if err != nil {
				t.Error(err)
				return
			}
			*o = r.Objects[0]
		}
	})
}

// BenchmarkCreate adds objects with a name, a counter and work.
func BenchmarkCreate(b *testing.B) {
	for name, url := range engines {
		b.Run(name, func(b *testing.B) {
			l := open(b, sqlledger.Config{URL: url(b), Kinds: things})
			var next atomic.Int64
			b.ResetTimer()
			spread(func(int) {
				for {
					n := next.Add(1)
					if n > int64(b.N) {
						return
					}
					id := ledger.NewID()
					s := put(id, fmt.Sprintf("org-%d", n%50), "accepted", 0)
					ref := s.Puts[0].Object.Ref
					s.Claims = []ledger.Claim{{Name: ledger.Name{Space: "host", Name: id + ".example"}, Holder: ref}}
					s.Counts = []ledger.Count{{Name: fmt.Sprintf("quota/org-%d", n%50), Delta: 1, Max: -1}}
					s.Wakes = []ledger.Wake{{Ref: ref}}
					if _, err := l.Commit(context.Background(), s); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
		})
	}
}

func spread(work func(worker int)) {
	var wg sync.WaitGroup
	for w := range committers {
		wg.Go(func() { work(w) })
	}
	wg.Wait()
}

// tally counts commits.
type tally struct{ batches atomic.Int64 }

func (t *tally) Committed(int, int, time.Duration, error) { t.batches.Add(1) }
func (t *tally) Warned(string)                            {}
