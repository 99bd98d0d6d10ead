//go:build bench

package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/subscription"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
)

// reader are the two readers of the log that there are for a broker, without it.
type reader struct {
	leave   func() // before its ledger is closed
	l       *sqlledger.Ledger
	service *subscription.Service
	to      *nowhere
}

func newReader(t *testing.T, l *sqlledger.Ledger) *reader {
	t.Helper()
	feed, to := ledger.NewFeed(l), &nowhere{}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = feed.Run(ctx) })
	leave := func() { stop(); wg.Wait() }
	t.Cleanup(leave)
	return &reader{leave, l, subscription.NewService(subscription.Config{Store: l, Keeper: l, Log: l, Feed: feed,
		Encoder: httpapi.Events{Offerings: &offering.Registry{}}, Kinds: httpapi.EventKinds(), Sinks: map[string]subscription.Sink{subscription.ToBus: to, subscription.ToAnswers: &nowhere{}}}), to}
}

// read takes a turn of one of them, as the loop gives it.
func (r *reader) read(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	out, err := r.service.Reconcile(ctx, reconcile.Task{Ref: ledger.Ref{Kind: subscription.Kind.Name, ID: id}})
	if err == nil && len(out.Write.Puts) > 0 {
		out.Write.Cause = ledger.BySchedule("bench") // which the loop fills in
		_, err = r.l.Commit(context.WithoutCancel(ctx), out.Write)
	}
	if err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// beside has both read all the while, until it is called.
func (r *reader) beside(t *testing.T) (leave func()) {
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, id := range []string{subscription.BusID, subscription.AnswersID} {
		wg.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				r.read(ctx, t, id)
			}
		})
	}
	return func() { stop(); wg.Wait() }
}

// TestReaderCost writes by turns without and with somebody who reads and encodes the
// log all the while: as fast as it goes, and at a thousand changes a second.
func TestReaderCost(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := rabbitmq.Start(t)
		args, database := e.args(t), ""
		if len(args) > 0 {
			database = args[1]
		}
		s := drover.Serve(t, append(args, "--bus", "rabbitmq", "--bus-options", "url="+b.URL)...)
		ctx, leave := context.WithCancel(context.Background())
		gone := simulateUntil(ctx, t, s, 1000)
		if _, err := create(user(t, s, "alice", "acme"), "one"); err != nil {
			t.Fatal(err)
		}
		leave()
		<-gone
		s.Stop()
		l := direct(t, s, database)
		defer l.Close()
		found, err := l.List(t.Context(), ledger.Query{Kind: instance.Kind.Name, Limit: 1})
		if err != nil || len(found) == 0 {
			t.Fatalf("no instance to copy: %v", err)
		}
		r := newReader(t, l)
		var written, told atomic.Int64
		// write commits for half a second and tells how many a second, and how long each took.
		write := func(pause time.Duration) (rate float64, took []time.Duration) {
			var mu sync.Mutex
			var wg sync.WaitGroup
			began := time.Now()
			end := began.Add(500 * time.Millisecond)
			for range 16 {
				wg.Go(func() {
					for next := time.Now(); time.Now().Before(end); next = next.Add(pause) {
						if pause > 0 {
							time.Sleep(time.Until(next))
						}
						o := variant(found[0], int(written.Add(1)))
						began := time.Now()
						if _, err := l.Commit(context.Background(), ledger.Set{Actor: "bench", Cause: ledger.BySchedule("bench"), Puts: []ledger.Put{{Object: o, Op: "create"}}}); err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						took = append(took, time.Since(began))
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			return float64(len(took)) / time.Since(began).Seconds(), took
		}
		// caughtUp has the reader read what was written without it: that is not its work
		// of the next turn.
		caughtUp := func() {
			leave := r.beside(t)
			defer leave()
			for end := time.Now().Add(time.Minute); r.to.n.Load()-told.Load() < written.Load(); time.Sleep(time.Millisecond) {
				if time.Now().After(end) || t.Failed() {
					t.Fatalf("%d of %d were told", r.to.n.Load()-told.Load(), written.Load())
				}
			}
		}
		func() { // what there was before
			leave := r.beside(t)
			defer leave()
			for before := int64(-1); before != r.to.n.Load(); time.Sleep(time.Second) {
				before = r.to.n.Load()
			}
			told.Store(r.to.n.Load())
		}()
		for _, c := range []struct {
			what  string
			pause time.Duration
		}{{"as fast as it goes", 0}, {"at 1,000/s", 16 * time.Millisecond}} {
			var took [2][]time.Duration
			measured := byTurns(rounds(30), func(with bool) float64 {
				caughtUp()
				i := 0
				if with {
					i = 1
					leave := r.beside(t)
					defer leave()
				}
				rate, each := write(c.pause)
				took[i] = append(took[i], each...)
				return rate
			})
			for i := range took {
				slices.Sort(took[i])
			}
			report("commits without / with a reader of the log beside, "+c.what, e.name, fmt.Sprintf("%s, p50 %s / %s, p99 %s / %s (load %s)", measured,
				ms(quantile(took[0], .5)), ms(quantile(took[1], .5)), ms(quantile(took[0], .99)), ms(quantile(took[1], .99)), load1()), "< 5 %")
		}
	})
}
