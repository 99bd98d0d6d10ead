package subscription_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/subscription"
	"github.com/droverhq/drover/test/postgres"
)

var things = ledger.Kind{Name: "thing"}

// databases are the two that a ledger can be kept in.
func databases(t *testing.T, run func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { run(t, filepath.Join(t.TempDir(), "ledger.db")) })
	t.Run("postgres", func(t *testing.T) { run(t, postgres.Database(t)) })
}

// sink takes events, unless it is told not to.
type sink struct {
	mu     sync.Mutex
	events []subscription.Event
	fails  error
	most   int // of one call; 0: all
	came   chan struct{}
}

func newSink() *sink { return &sink{came: make(chan struct{}, 1)} }

func (s *sink) Deliver(_ context.Context, _ subscription.Subscription, events []subscription.Event) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		select {
		case s.came <- struct{}{}:
		default:
		}
	}()
	if s.fails != nil {
		n := min(s.most, len(events))
		s.events = append(s.events, events[:n]...)
		return n, s.fails
	}
	s.events = append(s.events, events...)
	return len(events), nil
}

func (s *sink) fail(err error, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails, s.most = err, most
}

func (s *sink) told() []subscription.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]subscription.Event(nil), s.events...)
}

// until waits for what is told to be enough.
func (s *sink) until(t *testing.T, enough func([]subscription.Event) bool) []subscription.Event {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		if all := s.told(); enough(all) {
			return all
		}
		select {
		case <-s.came:
		case <-deadline:
			t.Fatalf("after a minute only %d events were told", len(s.told()))
		}
	}
}

// plain shows everybody everything but what is hidden.
type plain struct{}

func (plain) Encode(c *ledger.Change, _ string, _ bool) (subscription.Shown, bool) {
	data, _ := json.Marshal(map[string]string{"op": c.Op, "name": c.Object.Name})
	return subscription.Shown{Data: data}, c.Object.Name != "hidden"
}

// world is a ledger and a replica that tells of it.
type world struct {
	store   *sqlledger.Ledger
	service *subscription.Service
	bus     *sink
	answers *sink
	hook    *sink
}

func newWorld(t *testing.T, url string) *world {
	t.Helper()
	store, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: url, Key: bytes.Repeat([]byte{7}, ledger.KeySize), Kinds: []ledger.Kind{subscription.Kind, things, {Name: "command"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w := &world{store: store, bus: newSink(), answers: newSink(), hook: newSink()}
	w.service = w.replica()
	return w
}

func (w *world) replica() *subscription.Service {
	return subscription.NewService(subscription.Config{
		Store: w.store, Keeper: w.store, Log: w.store, Feed: ledger.NewFeed(w.store), Encoder: plain{}, Kinds: []string{"thing"},
		Sinks: map[string]subscription.Sink{subscription.ToBus: w.bus, subscription.ToAnswers: w.answers, subscription.ToWebhook: w.hook},
	})
}

// run has a replica work until the function that is returned is called.
func (w *world) run(t *testing.T) (stop func()) {
	t.Helper()
	s := w.replica()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	feed := s.Feed.(*ledger.Feed)
	loop := reconcile.New(reconcile.Config{
		Ledger: w.store, Reconcilers: map[string]reconcile.Reconciler{subscription.Kind.Name: s},
		Lease: 5 * time.Second, MaxBackoff: 50 * time.Millisecond, Poll: 100 * time.Millisecond,
	})
	for _, f := range []func(context.Context) error{feed.Run, s.Follow, loop.Run} {
		all.Go(func() { _ = f(ctx) })
	}
	stop = func() { cancel(); all.Wait() }
	t.Cleanup(stop)
	return stop
}

// write makes changes of things, each of its own.
func (w *world) write(t *testing.T, org string, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := w.store.Commit(t.Context(), ledger.Set{Actor: "alice", Cause: ledger.ByRequest("r"), Puts: []ledger.Put{{
			Object: ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: ledger.NewID()}, Org: org, Name: name}, Op: "create"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func numbered(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, prefix+strconv.Itoa(i))
	}
	return out
}

// names are those of the things and commands that events are about, each once, in the order in
// which they were first told.
func names(events []subscription.Event) (out []string) {
	seen := map[string]bool{}
	for _, e := range events {
		var d struct{ Name string }
		_ = json.Unmarshal(e.Data, &d)
		if (e.Type == "dev.drover.thing.created" || e.Type == "dev.drover.command.created") && !seen[e.ID] {
			seen[e.ID] = true
			out = append(out, d.Name)
		}
	}
	return out
}

func has(n int) func([]subscription.Event) bool {
	return func(events []subscription.Event) bool { return len(names(events)) >= n }
}

func admin(org string) context.Context {
	return access.With(context.Background(), access.Principal{User: "boss", Org: org, OrgAdmin: true})
}
