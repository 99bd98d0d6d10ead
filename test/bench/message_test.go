//go:build bench

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/subscription"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
)

// listener hears of every event on a broker.
type listener struct {
	mu    sync.Mutex
	n     int
	first time.Time
	last  time.Time
	late  []time.Duration // from the commit, of each
	more  chan struct{}
}

// listen follows a broker's events from the moment that there are any.
func listen(t *testing.T, url, pattern string) *listener {
	t.Helper()
	l := &listener{more: make(chan struct{}, 1)}
	ch := rabbitmq.Channel(t, url)
	if err := ch.ExchangeDeclare("drover.events", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	if err == nil {
		err = ch.QueueBind(q.Name, pattern, "drover.events", false, nil)
	}
	var all <-chan amqp.Delivery
	if err == nil {
		all, err = ch.Consume(q.Name, "", true, true, false, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for d := range all {
			now := time.Now()
			var e struct{ Time time.Time }
			if json.Unmarshal(d.Body, &e) != nil {
				continue
			}
			l.mu.Lock()
			if l.n++; l.n == 1 {
				l.first = now
			}
			l.last, l.late = now, append(l.late, now.Sub(e.Time))
			l.mu.Unlock()
			select {
			case l.more <- struct{}{}:
			default:
			}
		}
	}()
	return l
}

// await waits until n events have come.
func (l *listener) await(t *testing.T, n int, d time.Duration) {
	t.Helper()
	for late := time.After(d); ; {
		l.mu.Lock()
		have := l.n
		l.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-l.more:
		case <-late:
			t.Fatalf("%d of %d events after %s", have, n, d)
		}
	}
}

// TestEventLatency measures from a commit to a follower of the broker while
// instances are ordered and made, each of which is several changes.
func TestEventLatency(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := rabbitmq.Start(t)
		s := drover.Serve(t, append(e.args(t), "--bus", "rabbitmq", "--bus-options", "url="+b.URL)...)
		simulate(t, s, 10_000_000)
		u := user(t, s, "alice", "acme")
		l := listen(t, b.URL, "#")
		if _, err := create(u, "warm"); err != nil {
			t.Fatal(err)
		}
		l.await(t, 5, time.Minute)
		seen := watch(t, s)
		l.mu.Lock()
		l.n, l.late = 0, nil
		l.mu.Unlock()
		rate, seconds := setting("DROVER_BENCH_CREATES", 150), setting("DROVER_BENCH_SECONDS", 20)
		n := rate * seconds
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		began := time.Now()
		var wg sync.WaitGroup
		for i := range n {
			<-tick.C
			wg.Go(func() {
				if status, err := create(u, fmt.Sprintf("event-%d", i)); err != nil || status/100 != 2 {
					t.Errorf("%d, %v", status, err)
				}
			})
		}
		wg.Wait()
		seen.await(t, "ready", n, time.Minute)
		l.mu.Lock()
		took, heard := slices.Clone(l.late), l.n
		per := float64(heard) / l.last.Sub(began).Seconds()
		l.mu.Unlock()
		report(fmt.Sprintf("change → event at a follower of RabbitMQ while %d/s are ordered and made: p50 / p99 / max", rate), e.name,
			fmt.Sprintf("%s (%.0f changes/s; load %s)", quantiles(took), per, load1()), "p99 < 200 ms at 1,000 changes/s")
	})
}

// TestCommandRate sends commands as fast as the broker takes them, and measures until
// each sender has heard that his is accepted, which is said behind the commit.
func TestCommandRate(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := rabbitmq.Start(t)
		s := drover.Serve(t, append(e.args(t), "--bus", "rabbitmq", "--bus-options", "url="+b.URL)...)
		token, err := s.Client(t).Token(t.Context(), v1.TokenRequest{User: "alice", Org: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		ch := rabbitmq.Channel(t, b.URL)
		q, err := ch.QueueDeclare("", false, false, true, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		answers, err := ch.Consume(q.Name, "", true, true, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := setting("DROVER_BENCH_COMMANDS", 10_000)
		command := func(id string) amqp.Publishing {
			body := fmt.Appendf(nil, `{"specversion":"1.0","id":%q,"source":"/bench","type":"dev.drover.command.instance.create","subject":"dinosaurs","data":{"name":%q}}`, id, id)
			return amqp.Publishing{ReplyTo: q.Name, Body: body, ContentType: subscription.ContentType, DeliveryMode: amqp.Persistent, Headers: amqp.Table{"authorization": "Bearer " + token.Token}}
		}
		send := func(id string) {
			if err := ch.PublishWithContext(context.Background(), "", "drover.commands", false, false, command(id)); err != nil {
				t.Error(err)
			}
		}
		heard := func(most int) {
			accepted := map[string]bool{}
			for late := time.After(5 * time.Minute); len(accepted) < most; {
				select {
				case d := <-answers:
					var m struct {
						Type string
						Data struct{ Message, Reason string }
					}
					if err := json.Unmarshal(d.Body, &m); err != nil {
						t.Fatal(err)
					}
					if strings.HasSuffix(m.Type, ".rejected") {
						t.Fatalf("refused: %s", d.Body)
					}
					if strings.HasSuffix(m.Type, ".accepted") {
						accepted[m.Data.Message] = true
					}
				case <-late:
					t.Fatalf("%d of %d are accepted", len(accepted), most)
				}
			}
		}
		// A queue that was just made is there before it takes anything: what nobody confirms
		// may be lost.
		drover.Until(t, "the queue of commands", func() bool {
			first := rabbitmq.Channel(t, b.URL)
			if _, err := first.QueueDeclarePassive("drover.commands", true, false, false, false, nil); err != nil || first.Confirm(false) != nil {
				return false
			}
			sent, err := first.PublishWithDeferredConfirm("", "drover.commands", true, false, command("warm"))
			return err == nil && sent.Wait()
		})
		heard(1)
		before, began := cpu(s.PID()), time.Now()
		go func() {
			for i := range n {
				send(fmt.Sprintf("order-%d", i))
			}
		}()
		heard(n)
		took := time.Since(began)
		report(fmt.Sprintf("%d commands on RabbitMQ, each heard to be accepted", n), e.name,
			fmt.Sprintf("%.0f/s (%.2f ms of the server's processor each; load %s)", float64(n)/took.Seconds(), (cpu(s.PID())-before).Seconds()*1000/float64(n), load1()), ">= 500/s")
	})
}

// TestBacklog has very many changes happen while nobody reads the log, and measures
// how fast they are read, and how fast they are published when a broker is there again.
func TestBacklog(t *testing.T) {
	n := setting("DROVER_BENCH_EVENTS", 1_000_000)
	each(t, func(t *testing.T, e engine) {
		b := rabbitmq.Start(t)
		args := e.args(t)
		database := ""
		if len(args) > 0 {
			database = args[1]
		}
		s := drover.Serve(t, append(args, "--bus", "rabbitmq", "--bus-options", "url="+b.URL)...)
		l := listen(t, b.URL, "#")
		ctx, leave := context.WithCancel(context.Background())
		gone := simulateUntil(ctx, t, s, 1000)
		if _, err := create(user(t, s, "alice", "acme"), "one"); err != nil {
			t.Fatal(err)
		}
		l.await(t, 5, time.Minute)
		leave()
		<-gone
		s.Stop()
		seed(t, s, database, 0, n)

		store := direct(t, s, database)
		bus, err := store.Get(t.Context(), ledger.Ref{Kind: subscription.Kind.Name, ID: subscription.BusID})
		if err != nil {
			t.Fatal(err)
		}
		read, took := readAll(t, store, n)
		store.Close()
		store = direct(t, s, database) // and once more from there
		now, err := store.Get(t.Context(), bus.Ref)
		if err == nil {
			_, err = store.Commit(t.Context(), ledger.Set{Actor: "bench", Cause: ledger.BySchedule("bench"), Puts: []ledger.Put{{Object: bus, Expect: now.Version, Op: subscription.Moved}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		store.Close()
		report(fmt.Sprintf("%d events of the log, read and encoded", read), e.name, fmt.Sprintf("%.0f/s (load %s)", float64(read)/took.Seconds(), load1()), ">= 20,000/s")

		l.mu.Lock()
		l.n, l.late = 0, nil
		l.mu.Unlock()
		s.Start(t)
		l.await(t, n, time.Hour)
		l.mu.Lock()
		took = l.last.Sub(l.first)
		l.mu.Unlock()
		report(fmt.Sprintf("%d events that waited, published and confirmed", n), e.name, fmt.Sprintf("%.0f/s (load %s)", float64(n)/took.Seconds(), load1()), ">= 4,000/s")
	})
}

// nowhere is a sink that makes of every event what is sent, and sends nothing.
type nowhere struct{ n atomic.Int64 }

// Deliver implements subscription.Sink.
func (w *nowhere) Deliver(_ context.Context, _ subscription.Subscription, events []subscription.Event) (int, error) {
	for i := range events {
		if _, err := subscription.Message(&events[i]); err != nil {
			return 0, err
		}
	}
	w.n.Add(int64(len(events)))
	return len(events), nil
}

// readAll has the reader of the bus read a log to its end, without a broker.
func readAll(t *testing.T, l *sqlledger.Ledger, most int) (n int, took time.Duration) {
	t.Helper()
	r := newReader(t, l)
	defer r.leave()
	began := time.Now()
	for int(r.to.n.Load()) < most && !t.Failed() {
		r.read(t.Context(), t, subscription.BusID)
	}
	return int(r.to.n.Load()), time.Since(began)
}
