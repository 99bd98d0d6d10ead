package environment

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/droverhq/drover/internal/ledger"
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
	text  []byte
	from  int64 // offset of the first byte that is kept
	open  []byte
	dirty bool // there is more than what was kept last
}

// begin returns the log of a resource's turn. Kept is what an earlier run left.
func (l *logs) begin(id string, v veil, kept []byte, from int64) *lines {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*lines{}
	}
	at := l.of[id]
	if at == nil {
		at = &lines{text: kept, from: from}
		l.of[id] = at
	}
	at.mu.Lock()
	at.veil = v
	at.mu.Unlock()
	return at
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
	// One that is left of a run which another replica has ended is not being said.
	if live := s.logs.live(id); live != nil && running {
		live.mu.Lock()
		text, from = bytes.Clone(live.text), live.from
		live.mu.Unlock()
	} else if digest != "" {
		var err error
		if text, err = s.Keeper.Blob(ctx, digest); err != nil {
			return Tail{}, err
		}
	}
	t.From = min(max(offset, from), from+int64(len(text)))
	t.Text, t.Next = text[t.From-from:], from+int64(len(text))
	return t, nil
}
