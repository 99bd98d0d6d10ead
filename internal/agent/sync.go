package agent

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/runtime"
)

const (
	answerTime  = 15 * time.Second // of a message that is not held
	maxInterval = 10 * time.Minute
	maxBodies   = 200 // asked for in one message
)

// flight is one message under way.
type flight struct {
	message v1.Sync
	view    *view
	whole   map[int]uint64 // leaves of the buckets that it tells as a whole
	held    bool           // the one that carries the agent's place; beside it there are only news
	more    bool           // there is more to tell than it carries
	sent    time.Time

	answer v1.Synced
	err    error
}

// loop speaks to the control plane: one held message at rest, one beside it
// when there is something to tell.
type loop struct {
	*Agent
	teller
	answers  chan *flight
	number   int64
	newest   int64 // number of the newest message that was answered
	interval time.Duration
	held     bool // in flight
	beside   bool // likewise
	again    bool // something happened while one was beside
	ask      bool // there are bodies to ask for that the held message does not name
	failures int  // of held messages in a row
	lapses   int  // of those beside, likewise
	status   int  // of the last failure
	stuck    int  // answers in a row that came early and changed nothing
	view     *view
	looked   time.Time // when the view was made
	due      bool      // something has changed since, and the next message is to tell it
	facts    runtime.Facts
	trouble  string  // of the data plane, as it was told last
	last     v1.Sync // what the newest message said, but for items

	next *time.Timer // the next held message
	soon *time.Timer // the next one beside it
}

func newLoop(a *Agent) *loop {
	return &loop{Agent: a, answers: make(chan *flight, 2), interval: a.cfg.Heartbeat, view: &view{},
		teller: teller{said: map[string]uint64{}, asked: map[int]bool{}}}
}

func (l *loop) run(ctx context.Context) {
	l.next, l.soon = time.NewTimer(0), time.NewTimer(time.Hour)
	l.soon.Stop()
	defer l.next.Stop()
	defer l.soon.Stop()
	for armed := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-l.cfg.Runtime.Changed():
			if !armed {
				l.soon.Reset(l.gather())
				armed = true
			}
		case <-l.kick:
			if !armed {
				l.soon.Reset(l.gather())
				armed = true
			}
		case <-l.soon.C:
			armed = false
			l.tellNews(ctx)
		case <-l.next.C:
			l.send(ctx, true)
		case f := <-l.answers:
			if ctx.Err() != nil {
				return
			}
			l.land(ctx, f)
		}
	}
}

// gather is how long more changes are waited for. To look costs the more the more
// items there are, so that with ten thousand it is done five times a second.
func (l *loop) gather() time.Duration {
	return max(l.cfg.Coalesce, time.Duration(len(l.view.items))*20*time.Microsecond)
}

// tellNews sends a message beside the held one, if there is anything in it.
func (l *loop) tellNews(ctx context.Context) {
	switch {
	case l.beside:
		l.again = true
	case l.held || l.stuck > 0:
		l.send(ctx, false)
	default:
		l.due = true // the next held message is about to go, and observes then
	}
}

// compose makes a message of what is so now.
func (l *loop) compose(ctx context.Context, held bool) *flight {
	facts, failure := l.cfg.Runtime.Facts(ctx)
	trouble := facts.Unready
	if failure != nil {
		trouble = "the data plane cannot be asked what it holds"
	} else {
		l.facts = facts
	}
	// What has changed since the last look goes with a message beside this one.
	if !held || l.due || time.Since(l.looked) >= l.gather() {
		if v, err := l.look(ctx, l.view); err != nil {
			trouble, failure = "the data plane cannot be observed", err
		} else {
			l.view, l.looked, l.due = v, time.Now(), false
		}
	}
	if trouble != l.trouble && trouble != "" && ctx.Err() == nil {
		l.cfg.Logger.Warn("the data plane is not ready", "cluster", l.cfg.Cluster, "why", trouble, "error", failure)
	}
	l.trouble = trouble
	f := &flight{view: l.view, held: held, sent: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := v1.Sync{
		Protocol: v1.Protocol, Version: l.cfg.Version, Agent: l.id, Installation: l.home,
		Ledger: l.mark.Ledger, Epoch: l.mark.Epoch, Seq: l.seq, Desired: l.book.tree, Observed: l.view.tree,
		Capacity: l.facts.Capacity, Ready: l.followed && l.frozen == "" && trouble == "", Message: trouble,
	}
	for name, u := range l.facts.Units {
		if m.Units == nil {
			m.Units = map[string]v1.Units{}
		}
		m.Units[name] = v1.Units(u)
	}
	if l.facts.Kind != "" {
		e := l.facts.Engine
		m.Platform = &v1.Platform{Kind: l.facts.Kind, Version: l.facts.Version, Nodes: l.facts.Nodes, Routes: l.facts.Routes,
			Applications: e.Applications, Reconciled: e.Reconciled, Operations: e.Operations, Jsonnet: e.Jsonnet, NoHealth: e.NoHealth, Left: e.Left, Resting: l.cfg.Resting()}
	}
	if l.keys != nil {
		m.Keys = l.keys.digest
	}
	if l.frozen != "" {
		m.Message = l.frozen // and nobody else's control plane is told about these items
	} else {
		m.Items, f.whole, f.more = l.tell(l.view)
		l.continued(ctx, m.Items)
		m.Bodies = l.book.lacking(maxBodies)
		if n := len(l.book.refused); n > 0 && m.Message == "" {
			m.Message = "items are not followed because they are not signed by this control plane: " + strconv.Itoa(n)
		}
		m.Wait = held && l.followed && len(m.Items) == 0 && !f.more // what is told is to be acknowledged, and the first answer makes it ready
	}
	f.message = m
	return f
}

// send starts a message. One beside the held one is only sent with news.
func (l *loop) send(ctx context.Context, held bool) {
	f := l.compose(ctx, held)
	if ctx.Err() != nil {
		return
	}
	if err := l.forget(ctx, f.view, &l.teller); err != nil {
		l.cfg.Logger.Warn("cannot drop what was removed", "cluster", l.cfg.Cluster, "error", err)
	}
	if !held && !l.ask && len(f.message.Items) == 0 && f.message.Ready == l.last.Ready && f.message.Message == l.last.Message &&
		f.message.Capacity == l.last.Capacity && f.message.Epoch == l.last.Epoch {
		return
	}
	l.ask = false
	l.number++
	f.message.Number = l.number
	l.last = f.message
	l.last.Items = nil
	limit := answerTime
	if held {
		l.held, limit = true, max(l.interval+l.interval/5+l.cfg.Grace, answerTime)
	} else {
		l.beside = true
	}
	l.wg.Go(func() { // ends with the answer, the limit or ctx
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		f.answer, f.err = l.cfg.Client.Sync(ctx, l.cfg.Cluster, f.message)
		l.answers <- f // never blocks: there are two at most
	})
}

// land takes an answer and decides when the next message goes.
func (l *loop) land(ctx context.Context, f *flight) {
	if f.held {
		l.held = false
	} else {
		l.beside = false
	}
	if f.err == nil {
		f.err = check(f.answer)
	}
	if f.err != nil {
		l.fail(f)
		return
	}
	if f.answer.Interval > 0 {
		l.interval = min(time.Duration(f.answer.Interval)*time.Second, maxInterval)
	}
	news, err := l.take(f.answer)
	if err != nil {
		f.err = err
		l.fail(f)
		return
	}
	if l.lapses = 0; f.held {
		l.failures, l.status = 0, 0
	}
	l.handed(f.message.Items)
	newest := f.message.Number > l.newest
	l.newest = max(l.newest, f.message.Number)
	vain := false
	if !l.isFrozen() {
		if f.held && len(f.answer.Desired) == 0 {
			l.agree()
		}
		var wanted bool
		wanted, vain = l.answered(f, f.answer.Observed, newest)
		news = news || wanted
	}
	if !f.held {
		l.ask = news && l.lacks()
		if l.again || f.more || l.ask || len(l.asked) > 0 && news {
			l.again = false
			l.soon.Reset(l.gather())
		}
		return
	}
	// A newer message ends what is held, and so does the interval.
	if elapsed := time.Since(f.sent); f.message.Number < l.number || news || f.more || len(f.message.Items) > 0 && !vain || elapsed >= l.interval/2 {
		l.stuck = 0
		l.next.Reset(0)
		return
	}
	// Answered at once, and nothing came of it: the same again would spin.
	l.stuck++
	d := min(firstPause<<min(l.stuck-1, 10), l.interval)
	if l.isFrozen() {
		d = l.interval
	}
	l.next.Reset(d - mathrand.N(d/4+1))
}

// agree tells the runtime, once, that it was told of everything that there is: the
// control plane had nothing to add to what this side said that it knows.
func (l *loop) agree() {
	listener, ok := l.cfg.Runtime.(runtime.Listener)
	if !ok {
		return
	}
	var all []runtime.Item
	l.mu.Lock()
	if l.agreed || len(l.book.asked) > 0 {
		l.mu.Unlock()
		return
	}
	l.agreed = true
	for id, k := range l.book.items {
		if k.listed && k.head == nil {
			all = append(all, runtime.Item{ID: id, Kind: k.item.Kind, Epoch: k.epoch, Generation: k.item.Generation, Token: k.item.Token, Delete: k.item.Delete})
		}
	}
	l.mu.Unlock()
	listener.Told(all)
}

func (l *loop) lacks() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.book.asked) > 0
}

func (l *loop) isFrozen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frozen != ""
}

// fail says what is wrong once, and when to try again.
func (l *loop) fail(f *flight) {
	status := client.Status(f.err)
	if l.cfg.Tokens != nil && (status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound) {
		l.cfg.Tokens.refused() // to a token that is not this cluster's, the cluster does not exist
	}
	if !f.held {
		// The held message stands or fails by itself; the news go with the next
		// of either kind.
		l.lapses++
		l.soon.Reset(after(l.lapses, f.err))
		return
	}
	if status == http.StatusConflict && f.message.Number < l.number {
		// A later message of ours overtook it on the way.
		l.next.Reset(l.cfg.Coalesce)
		return
	}
	if l.failures++; l.failures == 1 || status != l.status {
		text := "cannot reach the control plane yet; what was kept keeps running"
		if l.met {
			text = "lost the control plane; everything keeps running"
		}
		l.cfg.Logger.Warn(text, "cluster", l.cfg.Cluster, "error", f.err)
	}
	l.status = status
	l.next.Reset(after(l.failures, f.err))
}

// after is the pause before the next attempt: never shorter than asked for.
func after(failures int, err error) time.Duration {
	d := pause(failures)
	var refusal *client.Error
	if errors.As(err, &refusal) && refusal.RetryAfter > 0 {
		wait := min(refusal.RetryAfter, maxInterval)
		d = max(d, wait+mathrand.N(wait/2+1))
	}
	return d
}
