package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

var errAway = errors.New("away")

// logFake is a log in memory that can be away, and lose its hints.
type logFake struct {
	mu    sync.Mutex
	log   []ledger.Change
	away  bool
	reads int
	hints chan struct{}
	body  json.RawMessage // of every object that is written
}

func (l *logFake) write(n int, hint bool) {
	l.mu.Lock()
	for range n {
		l.log = append(l.log, ledger.Change{Seq: int64(len(l.log)) + 1, Object: ledger.Object{Spec: l.body}})
	}
	l.mu.Unlock()
	if hint {
		select {
		case l.hints <- struct{}{}:
		default:
		}
	}
}

func (l *logFake) setAway(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

func (l *logFake) Head(context.Context) (ledger.Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return ledger.Head{}, errAway
	}
	return ledger.Head{Seq: int64(len(l.log))}, nil
}

func (l *logFake) Changes(_ context.Context, q ledger.ChangeQuery) ([]ledger.Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	if l.away {
		return nil, errAway
	}
	return l.log[q.After:min(int(q.After)+q.Limit, len(l.log))], nil
}

func (l *logFake) At(context.Context, ledger.Ref, ledger.Moment) (ledger.Change, error) {
	return ledger.Change{}, errors.New("not asked for")
}

func (l *logFake) Hints(context.Context) <-chan struct{} { return l.hints }

// followers reads from each starting point until a sequence, and checks the order.
func followers(t *testing.T, feed *ledger.Feed, until int64, from ...int64) *sync.WaitGroup {
	var wg sync.WaitGroup
	for _, after := range from {
		wg.Go(func() {
			for last := after; last < until; {
				changes, err := feed.Next(t.Context(), last)
				if errors.Is(err, errAway) { // far behind, it asks the store itself
					time.Sleep(time.Second)
					continue
				}
				if err != nil || len(changes) == 0 {
					t.Errorf("follower from %d stopped at %d: %v", after, last, err)
					return
				}
				for _, c := range changes {
					if c.Seq != last+1 {
						t.Errorf("follower from %d saw %d after %d", after, c.Seq, last)
						return
					}
					last = c.Seq
				}
			}
		})
	}
	return &wg
}

func TestFeed(t *testing.T) {
	cases := []struct {
		reason string
		run    func(l *logFake)
	}{
		{"changes come one by one", func(l *logFake) {
			for range 100 {
				l.write(1, true)
				synctest.Wait()
			}
			l.write(19_900, true)
		}},
		{"far more than the feed remembers", func(l *logFake) { l.write(20_000, true) }},
		{"every hint is lost", func(l *logFake) {
			for range 20 {
				l.write(1000, false)
				time.Sleep(3 * time.Second) // of the bubble: the slow poll finds it
			}
		}},
		{"the store is away for a while", func(l *logFake) {
			l.write(5000, true)
			l.setAway(true)
			l.write(15_000, true)
			time.Sleep(time.Minute)
			l.setAway(false)
		}},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &logFake{hints: make(chan struct{}, 1)}
				l.write(500, false)
				feed := ledger.NewFeed(l)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- feed.Run(ctx) }()
				synctest.Wait()
				wg := followers(t, feed, 20_500, 0, 1, 499, 500, 501, 3000)
				c.run(l)
				wg.Wait()
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Somebody else has moved the head: the sequences between are nobody's, and who follows
// goes on behind them.
func TestFeedWithAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &gapFake{logFake{hints: make(chan struct{}, 1)}}
		feed := ledger.NewFeed(l)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- feed.Run(ctx) }()
		for _, n := range []int{0, 2, 3} {
			l.write(n, true)
			synctest.Wait()
		}
		var seen []int64
		for last := int64(0); last < 15; last = seen[len(seen)-1] {
			changes, err := feed.Next(t.Context(), last)
			if err != nil || len(changes) == 0 {
				t.Fatalf("after %v: %v", seen, err)
			}
			seen = append(seen, changes[0].Seq)
		}
		if want := []int64{1, 2, 13, 14, 15}; !slices.Equal(seen, want) {
			t.Errorf("%v are seen, want %v", seen, want)
		}
		stop()
		<-ended
	})
}

// gapFake has ten sequences less behind the second change.
type gapFake struct{ logFake }

func (l *gapFake) Head(ctx context.Context) (ledger.Head, error) {
	h, err := l.logFake.Head(ctx)
	h.Seq = gapped(h.Seq)
	return h, err
}

func (l *gapFake) Changes(ctx context.Context, q ledger.ChangeQuery) ([]ledger.Change, error) {
	if q.After > 2 {
		q.After = max(q.After-10, 2)
	}
	found, err := l.logFake.Changes(ctx, q)
	found = slices.Clone(found)
	for i := range found {
		found[i].Seq = gapped(found[i].Seq)
	}
	return found, err
}

func gapped(seq int64) int64 {
	if seq > 2 {
		seq += 10
	}
	return seq
}

// TestFeedReadsOnceForAll counts what a change costs with many followers.
func TestFeedReadsOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logFake{hints: make(chan struct{}, 1)}
		feed := ledger.NewFeed(l)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go feed.Run(ctx) //nolint:errcheck // ends with its context
		synctest.Wait()
		wg := followers(t, feed, 50, make([]int64, 1000)...)
		for range 50 {
			l.write(1, true)
			synctest.Wait()
		}
		wg.Wait()
		if l.reads > 200 {
			t.Errorf("50 changes for 1000 followers cost %d reads of the log", l.reads)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := feed.Next(gone, 50); !errors.Is(err, context.Canceled) {
			t.Errorf("a follower that has left got %v", err)
		}
		stop()
	})
}

// A log that is closed gives no more hints, and is not asked all the time because of it.
func TestFeedOfAClosedLogRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logFake{hints: make(chan struct{}), away: true}
		close(l.hints)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = ledger.NewFeed(l).Run(ctx) })
		synctest.Wait() // never, if it does not rest
		stop()
		running.Wait()
	})
}

// TestFeedRemembersBytesNotOnlyChanges looks from where followers are served:
// what the feed has let go comes from the log.
func TestFeedRemembersBytesNotOnlyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logFake{hints: make(chan struct{}, 1), body: make(json.RawMessage, ledger.MaxObject)}
		feed := ledger.NewFeed(l)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go feed.Run(ctx) //nolint:errcheck // ends with its context
		synctest.Wait()
		l.write(2000, true)
		synctest.Wait()
		for _, c := range []struct {
			reason string
			after  int64
			reads  int
		}{
			{"the newest are remembered", 1950, 0},
			{"what would take hundreds of megabytes is not", 500, 1},
		} {
			before := l.reads
			changes, err := feed.Next(t.Context(), c.after)
			if err != nil || changes[0].Seq != c.after+1 || l.reads-before != c.reads {
				t.Errorf("%s: %d reads of the log, %v", c.reason, l.reads-before, err)
			}
		}
		stop()
	})
}

func TestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := regexp.MustCompile(`^[0-9a-v]{24}$`)
		seen, last := map[string]bool{}, ""
		for range 1000 {
			id := ledger.NewID()
			if !host.MatchString(id) || seen[id] {
				t.Fatalf("id %q is odd, or was there before", id)
			}
			if id <= last {
				t.Fatalf("id %q sorts before %q, which is older", id, last)
			}
			seen[id], last = true, id
			time.Sleep(time.Millisecond)
		}
	})
}
