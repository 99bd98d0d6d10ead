package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// FromNow as WatchOptions.After asks only for what is yet to come.
const FromNow = -1

// WatchOptions selects what a watch sees.
type WatchOptions struct {
	After    int64 // resume after this sequence; 0 = the whole log, FromNow
	Resource string
	ID       string // with Resource
	// Lost, if set, is told when the connection was lost and how long the pause
	// before the next attempt is.
	Lost func(err error, pause time.Duration)
}

// Watch yields changes in the order of their sequences, each once. A connection
// that is lost after it first stood is resumed from the last sequence for as
// long as ctx lives. The sequence ends with an error: of the first connection,
// a refusal (a 4xx), or ctx's.
func (c *Client) Watch(ctx context.Context, o WatchOptions) iter.Seq2[v1.Change, error] {
	return func(yield func(v1.Change, error) bool) {
		after, stood := o.After, false
		for failures := 0; ; {
			q := ChangeOptions{Resource: o.Resource, ID: o.ID}.query()
			if after >= 0 {
				q.Set("after", strconv.FormatInt(after, 10))
			}
			opened := func() { stood = true }
			err := c.stream(ctx, call{method: http.MethodGet, path: []string{"watch"}, query: q}, opened, func(e event) (bool, error) {
				failures = 0
				if seq, err := strconv.ParseInt(e.id, 10, 64); err == nil && seq > after {
					defer func() { after = seq }()
				} else if err == nil {
					return true, nil // seen before
				}
				if e.name != "" && e.name != "change" {
					return true, nil
				}
				var change v1.Change
				if err := json.Unmarshal(e.data, &change); err != nil {
					return false, fmt.Errorf("cannot read a change: %w", err)
				}
				return yield(change, nil), nil
			})
			switch {
			case errors.Is(err, errStopped):
				return
			case ctx.Err() != nil:
				yield(v1.Change{}, context.Cause(ctx))
				return
			case !stood || !resumable(err):
				yield(v1.Change{}, err)
				return
			}
			failures++
			pause := c.cfg.Backoff(failures)
			if o.Lost != nil {
				o.Lost(err, pause)
			}
			if !wait(ctx, pause) {
				yield(v1.Change{}, context.Cause(ctx))
				return
			}
		}
	}
}

var (
	errStopped = errors.New("the reader stopped")
	errSilent  = errors.New("the server fell silent")
	errEnded   = errors.New("the server ended the stream")
)

// resumable tells a lost connection from an answer that will not change.
func resumable(err error) bool {
	var lost *lostError
	return Away(err) || errors.As(err, &lost)
}

type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// event is one server-sent event.
type event struct {
	id, name string
	data     []byte
}

// stream reads server-sent events over one connection until handle says stop
// or the connection ends; it always returns an error.
func (c *Client) stream(ctx context.Context, r call, opened func(), handle func(event) (bool, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := c.request(ctx, r)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Accept-Encoding", "identity") // a compressor would hold events back
	silence := time.AfterFunc(c.cfg.Silence, func() { cancel(&lostError{errSilent}) })
	defer silence.Stop()
	resp, err := c.send(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if opened != nil {
		opened()
	}
	lines := &lineReader{r: bufio.NewReaderSize(resp.Body, 32<<10)}
	var e event
	for {
		line, err := lines.next(maxEvent - len(e.data))
		if errors.Is(err, errLarge) {
			return fmt.Errorf("an event is larger than %d MiB", maxEvent>>20)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			if errors.Is(err, io.EOF) {
				err = errEnded
			}
			return &lostError{err}
		}
		silence.Reset(c.cfg.Silence)
		if len(line) > 0 {
			e.field(line)
			continue
		}
		if len(e.data) > 0 {
			// The handler may take long, which is not the server's silence.
			silence.Stop()
			more, err := handle(e)
			silence.Reset(c.cfg.Silence)
			if err != nil {
				return err
			}
			if !more {
				return errStopped
			}
		}
		e = event{}
	}
}

// field adds one line to the event; comments and unknown fields are heartbeats.
func (e *event) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "id":
		e.id = string(value)
	case "event":
		e.name = string(value)
	case "data":
		if e.data != nil {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	}
}

var errLarge = errors.New("too large")

// lineReader reads lines of bounded length; a line is valid until the next.
type lineReader struct {
	r   *bufio.Reader
	buf []byte
}

func (l *lineReader) next(limit int) ([]byte, error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.buf)+len(part) > limit {
			return nil, errLarge
		}
		l.buf = append(l.buf, part...)
		if err == nil {
			return bytes.TrimRight(l.buf, "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}
