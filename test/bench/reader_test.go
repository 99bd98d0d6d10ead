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

// reader is the reader of the bus, without a broker.
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
		Encoder: httpapi.Events{Offerings: &offering.Registry{}}, Kinds: httpapi.EventKinds(), Sinks: map[string]subscription.Sink{subscription.ToBus: to}}), to}
}

// read takes a turn, as the loop gives it.
func (r *reader) read(t *testing.T) (more bool) {
	t.Helper()
	before := r.to.n
	out, err := r.service.Reconcile(t.Context(), reconcile.Task{Ref: ledger.Ref{Kind: subscription.Kind.Name, ID: subscription.BusID}})
	if err == nil && len(out.Write.Puts) > 0 {
		out.Write.Cause = ledger.BySchedule("bench") // which the loop fills in
		_, err = r.l.Commit(t.Context(), out.Write)
	}
	if err != nil {
		t.Error(err)
		return false
	}
	return r.to.n > before
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
		var names atomic.Int64
		// write commits for two seconds and tells how many, and how long each took.
		write := func(pause time.Duration) (n int, took []time.Duration) {
			var mu sync.Mutex
			var wg sync.WaitGroup
			end := time.Now().Add(2 * time.Second)
			for range 16 {
				wg.Go(func() {
					for next := time.Now(); time.Now().Before(end); next = next.Add(pause) {
						if pause > 0 {
							time.Sleep(time.Until(next))
						}
						o := variant(found[0], int(names.Add(1)))
						began := time.Now()
						if _, err := l.Commit(context.Background(), ledger.Set{Actor: "bench", Cause: ledger.BySchedule("bench"), Puts: []ledger.Put{{Object: o, Op: "create"}}}); err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						n, took = n+1, append(took, time.Since(began))
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			return n, took
		}
		for _, c := range []struct {
			what  string
			pause time.Duration
		}{{"as fast as it goes", 0}, {"at 1,000/s", 16 * time.Millisecond}} {
			var counts [2][]int
			var took [2][]time.Duration
			for round := range 12 {
				with := round % 2
				for r.read(t) { // what was written without it is not its work now
				}
				stop, done := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(done)
					for tick := time.NewTicker(5 * time.Millisecond); with == 1; {
						select {
						case <-stop:
							tick.Stop()
							return
						case <-tick.C:
							for r.read(t) {
							}
						}
					}
				}()
				n, each := write(c.pause)
				close(stop)
				<-done
				counts[with], took[with] = append(counts[with], n), append(took[with], each...)
			}
			middle := func(all []int) float64 { slices.Sort(all); return float64(all[len(all)/2]) / 2 }
			alone, beside := middle(counts[0]), middle(counts[1])
			for i := range took {
				slices.Sort(took[i])
			}
			report("commits without / with a reader of the log beside, "+c.what, e.name, fmt.Sprintf("%.0f / %.0f per second (%.1f %%), p50 %s / %s, p99 %s / %s (load %s)", alone, beside, 100*(alone-beside)/alone,
				ms(quantile(took[0], .5)), ms(quantile(took[1], .5)), ms(quantile(took[0], .99)), ms(quantile(took[1], .99)), load1()), "< 5 %")
		}
	})
}
