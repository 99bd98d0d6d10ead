package fault

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

// The database goes away under load, for a while and then for good crashes:
// requests are refused or succeed, none hangs, none is written by half, and
// work goes on by itself when it is back.
func TestDatabaseGoesAway(t *testing.T) {
	db := postgres.Start(t)
	s := drover.Up(t, "--database", db.URL("postgres"))
	l := newLoad(t, s)

	l.until("orders before the outage", func() bool { return l.accepted.Load() >= 5 && len(drover.Instances(s.DataDir)) > 0 })
	l.ease()
	db.Stop()
	l.press()
	back := time.NewTimer(10 * time.Second) // the outage; long enough for every timeout inside to pass
	l.until("refusals", func() bool { return l.refused.Load() >= 5 && l.unread.Load() >= 5 })
	l.until("somebody to be told why", func() bool { return l.heard("the database does not answer; try again") })
	l.until("/readyz to say so", func() bool { return readyz(s) == http.StatusServiceUnavailable })
	if got := alive(s); got != http.StatusOK {
		t.Errorf("/healthz answers %d: a restart would not bring the database back", got)
	}
	if got := status(s, "/metrics"); got != http.StatusOK {
		t.Errorf("/metrics answers %d: it is what tells of the outage", got)
	}
	l.until("the doctor to say so", func() bool {
		out, _, code := s.Run("doctor")
		return code == 7 && strings.Contains(out, "CRITICAL  the ledger cannot be read")
	})
	// The agent needs no database: what dies is started again.
	died := drover.KillInstances(s.DataDir)
	l.until("what died to run again", func() bool { return len(drover.Instances(s.DataDir)) >= died })
	if got := readyz(s); died == 0 || got != http.StatusServiceUnavailable {
		t.Errorf("%d died, and /readyz answers %d", died, got)
	}
	<-back.C
	l.ease()
	db.Start(t)
	l.until("/readyz to come back", func() bool { return readyz(s) == http.StatusOK })
	l.more("after the outage")
	l.well("after the outage")

	// A crash of the database, in the midst of everything.
	l.burst(24)
	db.Kill()
	db.Start(t)
	l.more("after the crash")

	l.end()
	l.check()
	l.well("after the crash")
}

// load is a handful of clients that order and read without pause for breath.
type load struct {
	t      *testing.T
	s      *drover.Server
	client *client.Client

	accepted, refused, read atomic.Int64
	unread                  atomic.Int64 // lists that were refused
	most                    atomic.Int64 // orders that the workers have taken before they pause
	mu                      sync.Mutex
	asked                   map[string]bool // true: acknowledged
	stop                    chan struct{}
	wg                      sync.WaitGroup
	words                   map[string]int  // that whoever was refused was told
	ready                   map[string]bool // seen by a watch that stays
	endWatch                context.CancelFunc
	watched                 chan struct{}
}

// hangs is longer than any request of the server may take.
const hangs = 90 * time.Second

// late is what nobody has to wait for who is refused.
const late = 30 * time.Second

func newLoad(t *testing.T, s *drover.Server) *load {
	token, err := s.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{Server: s.URL(), Token: token, Timeout: hangs})
	if err != nil {
		t.Fatal(err)
	}
	l := &load{t: t, s: s, client: c, asked: map[string]bool{}, words: map[string]int{}, ready: map[string]bool{}, stop: make(chan struct{}), watched: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	l.endWatch = cancel
	go l.watch(ctx)
	l.ease()
	for i := range 4 {
		l.wg.Go(func() { l.order(i) })
	}
	l.wg.Go(l.look)
	t.Cleanup(func() { // nobody complains once the test is over
		l.end()
		l.endWatch()
		<-l.watched
	})
	return l
}

// press has the workers order without end: while none is taken, as long as it takes.
func (l *load) press() { l.most.Store(math.MaxInt64) }

// ease has them order a few more and then pause: a data plane on a laptop has room
// for a hundred, and nobody knows how long the rest of the test takes.
func (l *load) ease() { l.most.Store(l.accepted.Load() + 8) }

// order orders one after the other, a few each second: each becomes a process.
func (l *load) order(worker int) {
	tick := time.NewTicker(400 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		if l.accepted.Load() < l.most.Load() {
			l.one(fmt.Sprintf("d%d-%d", worker, n))
		}
	}
}

func (l *load) one(name string) {
	l.mu.Lock()
	l.asked[name] = false
	l.mu.Unlock()
	began := time.Now()
	_, err := l.client.Create(context.Background(), "dinosaurs", v1.CreateInstance{Name: name})
	switch took := time.Since(began); {
	case err == nil:
		l.mu.Lock()
		l.asked[name] = true
		l.mu.Unlock()
		l.accepted.Add(1)
	case client.Status(err) == http.StatusServiceUnavailable && took > late:
		l.t.Errorf("an order was refused after %s", took)
	case client.Status(err) == http.StatusServiceUnavailable:
		l.refused.Add(1)
		l.told(err)
	default:
		l.t.Errorf("an order got neither 202 nor 503: %v", err)
	}
}

// told notes what somebody was told who was refused.
func (l *load) told(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.words[word(err)]++
}

// heard tells whether some were told what is wrong, and that nobody was told anything
// else than what the server has a word for.
func (l *load) heard(wrong string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for word, n := range l.words {
		switch word {
		case "the database does not answer; try again", "the database does not keep up; try again",
			"whether it was done is not known; try again", "the request took too long; try again":
		default:
			l.t.Errorf("%d were told %q", n, word)
		}
	}
	return l.words[wrong] > 0
}

// word is the reason that a refusal gives.
func word(err error) string {
	var e *client.Error
	if errors.As(err, &e) {
		return e.Detail.Reason
	}
	return ""
}

// burst has many orders under way and returns when the first has got its answer.
func (l *load) burst(n int) {
	first := make(chan struct{}, n)
	for i := range n {
		l.wg.Go(func() {
			l.one(fmt.Sprintf("burst%d", i))
			first <- struct{}{}
		})
	}
	<-first
}

// look reads all the while.
func (l *load) look() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		began := time.Now()
		_, err := l.client.List(context.Background(), "dinosaurs", client.ListOptions{})
		switch took := time.Since(began); {
		case err == nil:
			l.read.Add(1)
		case client.Status(err) != http.StatusServiceUnavailable:
			l.t.Errorf("a list got neither 200 nor 503: %v", err)
		case took > late:
			l.t.Errorf("a list was refused after %s", took)
		default:
			l.unread.Add(1)
			l.told(err)
		}
	}
}

func (l *load) watch(ctx context.Context) {
	defer close(l.watched)
	for c, err := range l.client.Watch(ctx, client.WatchOptions{}) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				l.t.Errorf("the watch ended: %v", err)
			}
			return
		}
		if c.Object.Kind == "instance" && c.Object.Phase == "ready" {
			l.mu.Lock()
			l.ready[c.Object.Name] = true
			l.mu.Unlock()
		}
	}
}

func (l *load) until(what string, so func() bool) {
	l.t.Helper()
	drover.Until(l.t, what, func() bool {
		select {
		case <-l.s.Done():
			l.t.Fatalf("the server ended while the test waited for %s", what)
		default:
		}
		return so()
	})
}

// more waits until orders are taken and come true again.
func (l *load) more(when string) {
	l.t.Helper()
	l.ease()
	before, reads := l.accepted.Load(), l.read.Load()
	l.until("orders "+when, func() bool { return l.accepted.Load() >= before+4 && l.read.Load() > reads })
}

// well waits until the doctor finds nothing any more: what an outage left behind goes by
// itself.
func (l *load) well(when string) {
	l.t.Helper()
	l.until("the doctor to be well "+when, func() bool {
		out, errs, code := l.s.Run("doctor")
		if code != 0 {
			l.t.Logf("%s the doctor says %d: %s%s", when, code, out, errs)
		}
		return code == 0
	})
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.wg.Wait()
}

// check holds what was answered against what is there.
func (l *load) check() {
	l.t.Helper()
	t := l.t
	t.Logf("%d acknowledged, %d refused", l.accepted.Load(), l.refused.Load())
	var there []v1.Object
	l.until("all that is there to be ready", func() bool {
		list, err := l.client.List(context.Background(), "dinosaurs", client.ListOptions{Size: 1000})
		if err != nil {
			return false
		}
		there = list.Items
		for _, o := range there {
			if o.Phase != "ready" {
				return false
			}
		}
		return true
	})
	seen := map[string]bool{}
	for _, o := range there {
		if _, asked := l.asked[o.Name]; !asked {
			t.Errorf("%s is there and nobody asked for it", o.Name)
		}
		if seen[o.Name] {
			t.Errorf("%s is there twice", o.Name)
		}
		seen[o.Name] = true
	}
	for name, acknowledged := range l.asked {
		if acknowledged && !seen[name] {
			t.Errorf("%s was acknowledged and is not there", name)
		}
	}
	if got := len(drover.Instances(l.s.DataDir)); got != len(there) {
		t.Errorf("%d processes run for %d instances", got, len(there))
	}
	l.until("the watch to have seen all of them", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for name := range seen {
			if !l.ready[name] {
				return false
			}
		}
		return true
	})
	l.endWatch()
	<-l.watched
}

func readyz(s *drover.Server) int { return status(s, "/readyz") }
func alive(s *drover.Server) int  { return status(s, "/healthz") }

func status(s *drover.Server, path string) int {
	a, err := drover.Ask(drover.Request{Method: http.MethodGet, URL: s.URL() + path, Timeout: hangs})
	if err != nil {
		return 0
	}
	return a.Status
}
