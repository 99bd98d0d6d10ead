package httpapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/httpapi"
)

// A server that has just begun reads what there is, and its first agent gets an
// answer all the same.
func TestAnAgentThatComesEarlyIsKeptWaiting(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	w.place(w.create("alice", "rex").ID, "c1")
	begin := make(chan struct{})
	close(begin)
	for name, r := range map[string]*world{
		"begun":     w.replica(func(c *httpapi.Config) { c.Begin = begin }),
		"not begun": w.replica(func(c *httpapi.Config) { c.Begin = make(chan struct{}) }),
		"unsaid":    w.replica(),
	} {
		a := r.agent("c1")
		q := a.message()
		status, out, err := a.post(t.Context(), q)
		if err != nil || status != 200 || len(out.Desired) != 1 {
			t.Errorf("%s: the first message is answered %d with %+v, %v", name, status, out, err)
		}
		r.clusters.Leave("c1", a.process)
	}
}

// Who has to wait for long is told for how long, keeps the place, and is no
// error in the log.
func TestAnAgentWhoseTurnIsFarAwayIsToldWhenToCome(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	w.register("c2")
	var ahead atomic.Int64
	r := w.replica(func(c *httpapi.Config) {
		c.Admissions = 1
		c.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	ahead.Store(int64(time.Minute)) // the queue is as long as that
	r.agent("c1").sync()
	ahead.Store(0)
	b := r.agent("c2")
	var e v1.Error
	resp := r.want(503, "agent-c2", http.MethodPost, "/api/v1/clusters/c2/sync", text(t, b.message()), &e)
	if wait, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || wait < 59 || wait > 63 {
		t.Errorf("it is to come again after %q", resp.Header.Get("Retry-After"))
	}
	if strings.Contains(r.logged(), "level=ERROR") {
		t.Errorf("the log calls it an error: %s", r.logged())
	}
	ahead.Store(int64(62 * time.Second))
	if status, _, err := b.post(t.Context(), b.message()); status != 200 {
		t.Errorf("in its turn it is answered %d, %v", status, err)
	}
}

// An agent that does not take what it is told is told it less and less often; that
// must not keep it from hearing of anything else.
func TestNewsDoNotWaitBehindWhatIsSaidAgain(t *testing.T) {
	var p httpapi.Paces
	now, least := time.Unix(0, 0), -time.Hour
	for range 12 {
		p.Answered(now, 7, time.Minute)
		if wait, again := p.Wait(now, 7); wait <= 0 || wait > time.Second || again {
			t.Fatalf("a breath is %s (%v)", wait, again)
		}
		now = now.Add(time.Second)
		wait, _ := p.Wait(now, 7)
		if wait < least || wait > time.Minute {
			t.Fatalf("the same again waits %s, after %s before", wait, least)
		}
		least, now = wait, now.Add(max(wait, 0))
	}
	if least != time.Minute-time.Second {
		t.Errorf("the same again waits %s at most", least)
	}
	now = now.Add(-time.Minute + 2*time.Second)
	if wait, again := p.Wait(now, 7); wait <= 0 || !again {
		t.Errorf("the same waits %s (%v)", wait, again)
	}
	if wait, again := p.Wait(now, 8); wait > 0 || again {
		t.Errorf("something else waits %s (%v)", wait, again)
	}
}
