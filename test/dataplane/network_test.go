//go:build e2e

package dataplane_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/toxiproxy"
)

// line is what goes between an agent and its control plane, past the network.
type line struct {
	mu   sync.Mutex
	said []*exchange
}

// exchange is a message and its answer, if that was given.
type exchange struct {
	sync   v1.Sync
	came   time.Time
	answer *v1.Synced
}

// tap writes down what a plane's agent says and is told.
func tap(p *plane) *line {
	l := &line{}
	p.server.Meddle(func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/sync") {
			return false
		}
		body, err := io.ReadAll(r.Body)
		e := &exchange{came: time.Now()}
		if err == nil && json.Unmarshal(body, &e.sync) == nil {
			l.mu.Lock()
			l.said = append(l.said, e)
			l.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Set("X-Number", fmt.Sprint(e.sync.Number))
		return false
	})
	p.server.Twist(func(r *http.Response) error {
		number := r.Request.Header.Get("X-Number")
		if number == "" || r.StatusCode != http.StatusOK {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var a v1.Synced
		if json.Unmarshal(body, &a) != nil {
			return nil
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, e := range slices.Backward(l.said) {
			if fmt.Sprint(e.sync.Number) == number {
				e.answer = &a
				break
			}
		}
		return nil
	})
	return l
}

// mark forgets what was said so far.
func (l *line) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = nil
}

// held is the newest message if it is a heartbeat that came just now and waits for its
// answer: the server holds it for seconds. nil: it is not.
func (l *line) held() *exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	var newest *exchange
	for _, e := range l.said {
		if newest == nil || e.sync.Number > newest.sync.Number {
			newest = e
		}
	}
	if newest == nil || !newest.sync.Wait || newest.answer != nil || time.Since(newest.came) >= 2*time.Second {
		return nil
	}
	return newest
}

// answered tells whether a message was, and with news.
func (l *line) answered(e *exchange) (is, news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return e.answer != nil, e.answer != nil && len(e.answer.Desired)+len(e.answer.Bodies) > 0
}

// agreed counts the messages, heartbeats and others, until the agent has been
// told all there is and knows it; not ok: it does not yet.
func (l *line) agreed() (heartbeats, beside int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := slices.Clone(l.said)
	slices.SortStableFunc(said, func(a, b *exchange) int { return int(a.sync.Number - b.sync.Number) })
	for _, e := range said {
		if e.sync.Wait {
			heartbeats++
		} else {
			beside++
		}
		// One that is held has nothing to tell either, once a later one was answered.
		if a := e.answer; a != nil && len(a.Desired)+len(a.Bodies) == 0 {
			return heartbeats, beside, true
		}
	}
	return heartbeats, beside, false
}

// The network between an agent and its control plane is as bad as networks get.
// What runs is kept as it was told last; where anything gets through at all, so
// does what is new; and once the network is well again both sides agree within
// two heartbeats.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	p, ns := edge(t)
	net := toxiproxy.Start(t).Proxy(t, p.server.Addr)
	p.agent.Kill()
	p.agent.Server = "http://" + net.Addr
	p.agent.Start(t)
	p.converges(ns, "through the proxy")
	before := look(t, p.k)
	l := tap(p)
	lost := func() int { return strings.Count(p.agent.Log(), "lost the control plane; everything keeps running") }

	type toxics = []toxiproxy.Toxic
	for i, c := range []struct {
		name, reason string
		bad          toxics // none: it is down
		silent       bool   // the cluster says so after a while
		passes       bool   // something gets through
		held         bool   // the answer that is held does, once
	}{
		{"half open", "Neither side hears the other, and nobody is told.", toxics{toxiproxy.Silence()}, true, false, false},
		{"answers are lost", "The server hears its agent, and speaks into the void: it must not take what it says for heard.", toxics{toxiproxy.Silence().On(toxiproxy.Answers)}, false, false, false},
		{"messages are lost", "The agent speaks into the void.", toxics{toxiproxy.Silence().On(toxiproxy.Requests)}, false, false, true},
		{"resets", "Connections break as soon as anything is said.", toxics{toxiproxy.Reset()}, false, false, false},
		{"cut in the head", "Half of the header of an answer.", toxics{toxiproxy.Cut(90).On(toxiproxy.Answers)}, false, false, false},
		{"cut in the body", "Half of what is wanted is not what is wanted.", toxics{toxiproxy.Cut(700).On(toxiproxy.Answers)}, false, false, false},
		{"cut in a message", "Half of what an agent sees is not what it sees.", toxics{toxiproxy.Cut(600).On(toxiproxy.Requests)}, false, false, true},
		{"down", "Nobody listens.", nil, false, false, false},
		{"far away", "Two seconds there, and two back.", toxics{toxiproxy.Latency(2*time.Second, 500*time.Millisecond)}, false, true, false},
		{"thin", "A kilobyte per second each way.", toxics{toxiproxy.Slow(1)}, false, true, false},
		{"in crumbs", "A few bytes at a time.", toxics{toxiproxy.Crumbs(20, 5*time.Millisecond)}, false, true, false},
		{"breaks now and then", "Two of three connections break.", toxics{toxiproxy.Reset().For(0.66)}, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			was, word := p.greeting(ns), fmt.Sprint("word ", i)
			losses := 0
			worsen := func() {
				losses = lost()
				if c.bad == nil {
					net.Down(t)
				}
				for _, x := range c.bad {
					net.Add(t, x)
				}
			}
			if !c.held {
				worsen()
			}
			for try, done := 0, !c.held; !done; try++ {
				var e *exchange
				p.until("an answer to be held", func() bool { e = l.held(); return e != nil })
				worsen()
				was = fmt.Sprint("last ", word, " ", try)
				p.update("corner", map[string]any{"greeting": was})
				p.until("the answer", func() (is bool) { is, done = l.answered(e); return is })
				if !done { // it was given before, on a machine that is busy
					net.Heal(t)
				}
				p.greets(ns, was)
			}
			p.update("corner", map[string]any{"greeting": word})
			p.spoil(ns)
			if c.passes {
				p.greets(ns, word)
				p.is("shops", "corner", "ready")
				net.Heal(t)
				unharmed(t, p.k, before)
				return
			}
			p.greets(ns, was) // kept, without a word from anybody
			p.until("the agent to notice", func() bool { return lost() > losses })
			if c.silent {
				p.says("cluster", "edge", "silent since")
			}
			unharmed(t, p.k, before)
			if got := p.greeting(ns); got != was {
				t.Errorf("%s It says %q before anybody could tell it", c.reason, got)
			}
			net.Heal(t)
			l.mark() // what was said before the network was well does not count
			beats, beside := 0, 0
			p.until("both sides to agree", func() (ok bool) { beats, beside, ok = l.agreed(); return ok })
			if beats > 2 || beats+beside > 5 {
				t.Errorf("%s They agree after %d heartbeats and %d messages beside them", c.reason, beats, beside)
			}
			p.greets(ns, word)
			p.is("shops", "corner", "ready")
			p.await("ready")
			unharmed(t, p.k, before)
		})
	}
	p.same(p.k, before)
	if strings.Contains(p.agent.Log(), "panic") || strings.Contains(p.s.Log(), "panic") {
		t.Error("somebody panicked")
	}
}
