package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// maxLog is how much of a resource's log is kept: the end of it.
const maxLog = 256 << 10

// maxLine is how long a line may be before it is written without its end.
const maxLine = 32 << 10

// logs are those of the runs of this process, by resource.
type logs struct {
	mu sync.Mutex
	of map[string]*lines
}

// lines is what an executor says while it works. Secrets are struck out line by
// line, because one may be written in two halves.
type lines struct {
	mu    sync.Mutex
	veil  veil
	head  string // its first line, if anything is said
	text  []byte
	from  int64 // offset of the first byte that is kept
	open  []byte
	dirty bool // there is more than what was kept last

	turn int64
	// kept is the digest that it was kept under last, and the one before: whether that
	// was written down too is not known yet.
	kept [2]string
	idle time.Time // since when nobody writes to it here; zero: somebody does
}

// logRest is how long the lines of a run are at hand that has left: another replica
// may have gone on with it.
const logRest = 10 * time.Minute

// begin opens the log of a run. Kept is what was said before. What others have left
// for long goes.
func (l *logs) begin(id string, at *lines, now time.Time) *lines {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*lines{}
	}
	for id, other := range l.of {
		if left := other.left(); !left.IsZero() && now.Sub(left) > logRest {
			delete(l.of, id)
		}
	}
	l.of[id] = at
	return at
}

// resume goes on with the log of a turn that this process has left, unless another
// one has gone on with it since.
func (l *logs) resume(id string, turn int64, digest string, v veil) *lines {
	at := l.live(id)
	if at == nil {
		return nil
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.turn != turn || !at.is(digest) {
		return nil
	}
	at.dirty = at.dirty || at.kept[0] != digest // what was kept last is nowhere
	at.veil, at.idle = v, time.Time{}
	return at
}

// is: nobody but this process has kept anything since. Under the lock.
func (l *lines) is(digest string) bool { return digest == l.kept[0] || digest == l.kept[1] }

func (l *lines) keptAs(digest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = [2]string{digest, l.kept[0]}
}

func (l *lines) left() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle
}

// leave: nobody writes to it for now.
func (l *logs) leave(id string, now time.Time) {
	if at := l.live(id); at != nil {
		at.mu.Lock()
		at.idle = now
		at.mu.Unlock()
	}
}

// begin opens the log: of a turn that goes on where an earlier run left it, here or
// elsewhere.
func (n *run) begin(ctx context.Context, v veil) error {
	s := n.r.Status
	if n.log = n.logs.resume(n.r.ID, n.r.Spec.Turn, s.Log, v); n.log == nil {
		at := &lines{veil: v, turn: n.r.Spec.Turn, kept: [2]string{s.Log, s.Log}}
		if s.Log != "" && s.LogTurn == n.r.Spec.Turn {
			var err error
			if at.text, err = n.Keeper.Blob(ctx, s.Log); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			at.from = s.LogFrom
		}
		if len(at.text) == 0 {
			at.head = n.heading(ctx)
		}
		n.log = n.logs.begin(n.r.ID, at, n.Now())
	}
	if s.Attempts > 0 {
		n.log.say("-- try %d", s.Attempts+1)
	}
	return nil
}

// heading leads from what an executor says back to who asked for it. What cannot be
// found is left out: it is in the ledger, too.
func (n *run) heading(ctx context.Context) string {
	id := n.e.Status.Operation
	if id == "" {
		return fmt.Sprintf("-- of environment %s, %s\n", n.e.Name, n.task.Cause)
	}
	line := fmt.Sprintf("-- of environment %s, operation %s", n.e.Name, id)
	if o, err := n.Store.Get(ctx, ledger.Ref{Kind: operation.Kind.Name, ID: id}); err == nil {
		var spec operation.Spec
		if json.Unmarshal(o.Spec, &spec) == nil && spec.Cause != "" {
			line += ", " + string(spec.Cause)
		}
	}
	return line + "\n"
}

func (s *ResourceStatus) keepsLog(digest string, from, turn int64) {
	s.Log, s.LogFrom, s.LogTurn = digest, from, turn
}

func (l *logs) end(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, id)
}

func (l *logs) live(id string) *lines {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[id]
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, p...)
	for {
		end := bytes.IndexByte(l.open, '\n') + 1
		if end == 0 {
			if len(l.open) < maxLine {
				return len(p), nil
			}
			end = len(l.open)
		}
		l.add(l.open[:end])
		l.open = l.open[end:]
	}
}

func (l *lines) add(line []byte) {
	if len(l.text) == 0 && l.from == 0 {
		l.text = append(l.text, l.head...)
	}
	l.text = append(l.text, l.veil.text(string(bytes.ToValidUTF8(line, []byte("?"))))...)
	l.dirty = true
	if over := len(l.text) - maxLog; over > 0 {
		if end := bytes.IndexByte(l.text[over:], '\n'); end >= 0 {
			over += end + 1
		}
		l.text = append([]byte(nil), l.text[over:]...)
		l.from += int64(over)
	}
}

// say writes a line of Drover's own.
func (l *lines) say(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

// flush ends an open line and returns all of it, and whether that is news.
func (l *lines) flush(last bool) (text []byte, from int64, news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last && len(l.open) > 0 {
		l.add(append(l.open, '\n'))
		l.open = nil
	}
	news, l.dirty = l.dirty, false
	return bytes.Clone(l.text), l.from, news
}

// Tail is a part of a resource's log.
type Tail struct {
	Text []byte
	From int64 // where it begins: later than was asked for if the beginning is not kept
	Next int64 // where to go on
	// Running: more may come. It is told from the resource's phase, so that any
	// replica can: those that do not run it are a second behind.
	Running bool
}

// Log returns a resource's log of its last turn from an offset on.
func (s *Service) Log(ctx context.Context, environment, address string, offset int64) (Tail, error) {
	o, err := s.Resource(ctx, environment, address)
	if err != nil {
		return Tail{}, err
	}
	return s.tail(ctx, o, offset)
}

func (s *Service) tail(ctx context.Context, o ledger.Object, offset int64) (Tail, error) {
	r, err := DecodeResource(o)
	if err != nil {
		return Tail{}, err
	}
	return s.part(ctx, o.ID, r.Status.Log, r.Status.LogFrom, offset, r.Phase == Applying || r.Phase == Pending || r.Phase == ResourceLeaving)
}

// part returns a log from an offset on: what is kept under a digest, or what is
// being said.
func (s *Service) part(ctx context.Context, id, digest string, from, offset int64, running bool) (Tail, error) {
	t := Tail{Running: running}
	var text []byte
	live, said := s.logs.live(id), false
	if live != nil && running {
		live.mu.Lock()
		// What is left of a run that another replica has gone on with is not being said.
		if said = live.idle.IsZero() || live.is(digest); said {
			text, from = bytes.Clone(live.text), live.from
		}
		live.mu.Unlock()
	}
	if !said && digest != "" {
		var err error
		if text, err = s.Keeper.Blob(ctx, digest); err != nil {
			return Tail{}, err
		}
	}
	t.From = min(max(offset, from), from+int64(len(text)))
	t.Text, t.Next = text[t.From-from:], from+int64(len(text))
	return t, nil
}
