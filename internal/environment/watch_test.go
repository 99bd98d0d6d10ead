package environment_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
)

// sentry is a garden that tells of changes.
type sentry struct {
	*garden
	mu    sync.Mutex
	tells map[string]func() // by address, of those that are watched
	began chan string
	ended chan string
	fails map[string]int // by address: how often it cannot be watched
}

func (s *sentry) Watch(ctx context.Context, r executor.Resource, changed func()) error {
	s.mu.Lock()
	if s.fails[r.Address] > 0 {
		s.fails[r.Address]--
		s.mu.Unlock()
		return errors.New("not now")
	}
	s.tells[r.Address] = changed
	s.mu.Unlock()
	s.began <- r.Address
	<-ctx.Done()
	s.ended <- r.Address
	return ctx.Err()
}

func (s *sentry) tell(address string) {
	s.mu.Lock()
	changed := s.tells[address]
	s.mu.Unlock()
	changed()
}

func heard(t *testing.T, from chan string, want string) {
	t.Helper()
	select {
	case got := <-from:
		if got != want {
			t.Fatalf("heard of %s, want %s", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("nothing is heard of %s", want)
	}
}

// What is ready is watched, what is not is not; a change wakes the resource; all
// watches end with the server.
func TestWatch(t *testing.T) {
	w := newWorld(t, t.TempDir())
	s := &sentry{garden: &garden{forge: w.forge}, tells: map[string]func(){}, began: make(chan string, 8), ended: make(chan string, 8), fails: map[string]int{"web": 1}}
	w.forge.trouble = map[string]string{}
	w.configs = append(w.configs, func(c *environment.Config) { c.Executors["forge"] = s })
	w.open()
	defer w.store.Close()
	w.add("1", drifting(map[string]string{"quiet": "ignore"}, "db", "quiet"))
	e := w.up("staging", nil)

	ctx, stop := context.WithCancel(context.Background())
	feed := ledger.NewFeed(w.store.Ledger)
	var tasks sync.WaitGroup
	tasks.Go(func() { _ = feed.Run(ctx) })
	tasks.Go(func() { _ = w.s.Watch(ctx, feed) })
	defer tasks.Wait()
	defer stop()
	heard(t, s.began, "db") // it was there before

	looks := s.looks
	s.spoil(w.resources(e.ID)["db"])
	s.tell("db")
	w.clock = w.clock.Add(2 * time.Second)
	w.work(5 * time.Second)
	if found := w.drifts(e)["db"]; s.looks == looks || len(found) != 1 || found[0].Phase != "open" {
		t.Fatalf("a change that was told is not known: %+v", found)
	}

	_, _, err := w.s.Change(alice, environment.PlanOrder{Environment: e.ID, Parameters: map[string]any{"size": "large"}})
	w.must(err)
	w.work(time.Minute)
	heard(t, s.ended, "db")
	heard(t, s.began, "db") // as it was made now
	_, _, err = w.s.Destroy(alice, e.ID, "")
	w.must(err)
	w.work(time.Minute)
	heard(t, s.ended, "db")

	w.add("2", shop("web"))
	w.up("other", nil)
	heard(t, s.began, "web") // at the second try
	stop()
	heard(t, s.ended, "web")
}

// Two changes are told in a burst, and looked at in one run, before the time for which
// the second was put off. What changes within that time is known all the same.
func TestWatchForgetsNothingAfterABurst(t *testing.T) {
	w := newWorld(t, t.TempDir())
	s := &sentry{garden: &garden{forge: w.forge}, tells: map[string]func(){}, began: make(chan string, 8), ended: make(chan string, 8)}
	w.configs = append(w.configs, func(c *environment.Config) { c.Executors["forge"] = s })
	w.open()
	defer w.store.Close()
	w.add("1", drifting(nil, "db"))
	e := w.up("staging", nil)
	ctx, stop := context.WithCancel(context.Background())
	feed := ledger.NewFeed(w.store.Ledger)
	var tasks sync.WaitGroup
	tasks.Go(func() { _ = feed.Run(ctx) })
	tasks.Go(func() { _ = w.s.Watch(ctx, feed) })
	defer tasks.Wait()
	defer stop()
	heard(t, s.began, "db")

	looks := s.looks
	s.tell("db")
	s.tell("db")
	for end := time.Now().Add(time.Minute); s.looks == looks; time.Sleep(time.Millisecond) {
		if w.work(10 * time.Millisecond); time.Now().After(end) {
			t.Fatal("nobody has looked")
		}
	}
	s.spoil(w.resources(e.ID)["db"])
	s.tell("db")
	for range 100 { // a minute by its clock: nobody looks by himself before
		w.work(600 * time.Millisecond)
		if len(w.drifts(e)["db"]) > 0 {
			return
		}
		time.Sleep(30 * time.Millisecond)
	}
	t.Error("a change right after a look is not known")
}
