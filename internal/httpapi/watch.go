package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// storeAway is how long a stream waits before it asks the store again.
const storeAway = time.Second

// What replays of the log may take: a few read at a time, in small pieces, and
// no caller keeps more than so many streams open.
const (
	replayReads = 4
	replayPiece = 100
	maxStreams  = 256
)

var errNoBody = errors.New("the client wants no body")

// stream is an open answer of server-sent events. It belongs to one goroutine,
// the request's.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	patient time.Duration // with a client that does not read
	beat    time.Duration // the longest silence
	buf     []byte
	last    time.Time // of the last piece sent
	checked time.Time // when the token was looked at last
}

// quiet is how long nothing need be sent yet.
func (st *stream) quiet() time.Duration {
	return max(st.beat-time.Since(st.last), 10*time.Millisecond)
}

// openStream answers 200 and begins the stream.
func (s *server) openStream(w http.ResponseWriter, r *http.Request) (*stream, error) {
	s.streaming(w, r)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil, errNoBody
	}
	st := &stream{w: w, control: http.NewResponseController(w), patient: s.SlowReader, beat: s.Heartbeat, checked: time.Now()}
	st.buf = append(st.buf, ": welcome\n\n"...)
	return st, st.flush()
}

// event adds an event; data must not hold line breaks. id may be empty.
func (st *stream) event(name, id string, data []byte) {
	if id != "" {
		st.buf = append(append(append(st.buf, "id: "...), id...), '\n')
	}
	st.buf = append(append(append(st.buf, "event: "...), name...), '\n')
	st.buf = append(append(append(st.buf, "data: "...), data...), "\n\n"...)
}

// flush sends what was added; it fails if the client does not take it in time.
// Nothing is kept for it: the log remembers what it has not seen.
func (st *stream) flush() error {
	_ = st.control.SetWriteDeadline(time.Now().Add(st.patient)) // a test's recorder knows none
	if _, err := st.w.Write(st.buf); err != nil {
		return err
	}
	err := st.control.Flush()
	if errors.Is(err, http.ErrNotSupported) {
		err = nil
	}
	if cap(st.buf) > 1<<20 {
		st.buf = nil
	}
	st.buf, st.last = st.buf[:0], time.Now()
	return err
}

// alive keeps a quiet stream open, and ends one whose token counts no longer, or
// whose caller was shut out.
func (s *server) alive(ctx context.Context, st *stream, r *http.Request) error {
	if time.Since(st.checked) >= st.beat {
		token, _ := bearer(r)
		who, err := s.Authenticator.Authenticate(ctx, token)
		if err == nil && s.Policy != nil {
			err = s.Policy.Admit(who)
		}
		if fault.Is(err, fault.Denied) {
			return err
		}
		st.checked = time.Now()
	}
	if time.Since(st.last) < st.beat {
		return nil
	}
	st.buf = append(st.buf, ": alive\n\n"...)
	return st.flush()
}

// watch streams the log.
func (o *own) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f, err := o.newFilter(q.Get("kind"), q.Get("resource"), q.Get("id"))
	if err != nil {
		o.fail(w, r, err)
		return
	}
	ctx := r.Context()
	head, err := o.Ledger.Head(ctx)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	after, err := resumeAfter(r, head)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	who := access.From(ctx)
	if !o.streams.enter(who.Actor()) {
		o.fail(w, r, fault.New(fault.Exhausted, "%d streams are open for %s: close some", maxStreams, who.Actor()).Because("rate"))
		return
	}
	defer o.streams.leave(who.Actor())
	st, err := o.openStream(w, r)
	if err != nil {
		return
	}
	reader := &watcher{server: o.server, st: st, filter: f, sight: sight{store: o.Ledger, who: who, head: head.Seq}, after: after}
	for err == nil {
		err = reader.step(ctx)
		if err == nil {
			err = o.alive(ctx, st, r)
		}
	}
	// The client has gone, does not read, or may no longer: it comes back with
	// the last sequence it saw, and there is nobody to tell more.
}

// tally counts what each caller has open.
type tally struct {
	mu   sync.Mutex
	open map[string]int
}

func (t *tally) enter(who string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[who] >= maxStreams {
		return false
	}
	if t.open == nil {
		t.open = map[string]int{}
	}
	t.open[who]++
	return true
}

func (t *tally) leave(who string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[who]--; t.open[who] <= 0 {
		delete(t.open, who)
	}
}

// resumeAfter says where a watch begins.
func resumeAfter(r *http.Request, head ledger.Head) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	if text == "" {
		return head.Seq, nil
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if err != nil || after < 0 {
		return 0, fault.New(fault.Invalid, "after and Last-Event-ID are sequences of the log").Because("list")
	}
	if after > head.Seq {
		return 0, fault.New(fault.Conflict, "the log ends at %d: list again, then watch after what the list says", head.Seq).Because("ahead")
	}
	if after < head.Whole {
		return 0, ledger.Truncated(head) // before the stream: there is nobody to tell within
	}
	return after, nil
}

// watcher is one client's place in the log.
type watcher struct {
	*server
	st     *stream
	filter filter
	sight  sight
	after  int64
}

// step sends the next piece, waiting for it no longer than a heartbeat.
func (v *watcher) step(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, v.st.quiet())
	defer cancel()
	changes, until, err := v.next(wait)
	if err == nil {
		err = v.send(wait, changes)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		v.after = max(v.after, until)
		return v.flushed()
	case wait.Err() != nil:
		return v.flushed() // a heartbeat is due; what was added is sent and counted
	case fault.Is(err, fault.Unavailable):
		select {
		case <-wait.Done():
		case <-time.After(storeAway):
		}
		return v.flushed()
	}
	return err
}

// next reads what lies between the client's place and the head it met from the
// log, narrowed down; everything after that from the feed that all share.
func (v *watcher) next(ctx context.Context) (changes []ledger.Change, until int64, err error) {
	if v.after >= v.sight.head {
		changes, err = v.Feed.Next(ctx, v.after)
		if len(changes) > 0 {
			until = changes[len(changes)-1].Seq
		}
		return changes, until, err
	}
	q := v.filter.query(v.sight.who)
	q.After, q.Until, q.Limit = v.after, v.sight.head, replayPiece
	select {
	case v.replays <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	changes, err = v.Ledger.Changes(ctx, q)
	<-v.replays
	if until = v.sight.head; len(changes) == q.Limit {
		until = changes[len(changes)-1].Seq
	}
	return changes, until, err
}

// send adds the changes that the client asked for and may see. Its place moves
// with each, so that a failure in between repeats none.
func (v *watcher) send(ctx context.Context, changes []ledger.Change) error {
	for i := range changes {
		c := &changes[i]
		if v.filter.matches(&c.Object) {
			ok, err := v.sight.sees(ctx, c)
			if err != nil {
				return err
			}
			if ok {
				data, err := encodeChange(c, v.Offerings, v.sight.who)
				if err != nil {
					return err
				}
				v.st.event("change", strconv.FormatInt(c.Seq, 10), data)
			}
		}
		v.after = c.Seq
		if len(v.st.buf) > 256<<10 {
			if err := v.st.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *watcher) flushed() error {
	if len(v.st.buf) == 0 {
		return nil
	}
	return v.st.flush()
}
