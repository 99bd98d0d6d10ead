package manifest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// renewing has no watch live for long. One that stalls without a word, anywhere
// between here and the server's memory, would tell nothing for ten minutes and more;
// whoever watches goes on from the last thing that it was told, so a new one brings
// what the old one kept back, and costs one request.
type renewing struct {
	next http.RoundTripper
	life time.Duration
}

// watchGrace is how much longer than it was asked to the server may take to end one.
const watchGrace = 5 * time.Second

// RoundTrip implements http.RoundTripper.
func (t renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	if watch, _ := strconv.ParseBool(q.Get("watch")); !watch || r.Method != http.MethodGet {
		return t.next.RoundTrip(r)
	}
	life := t.life + rand.N(t.life/8+1)
	var idle time.Duration
	// One that begins with everything that there is takes as long as it takes: it
	// ends when nothing has come for so long.
	if all, _ := strconv.ParseBool(q.Get("sendInitialEvents")); all {
		idle = life
	} else {
		q.Set("timeoutSeconds", strconv.Itoa(int(life.Seconds())+1))
	}
	ctx, cancel := context.WithCancel(r.Context())
	timer := time.AfterFunc(life+watchGrace, cancel)
	asked := r.Clone(ctx)
	asked.URL.RawQuery = q.Encode()
	res, err := t.next.RoundTrip(asked)
	if err != nil {
		timer.Stop()
		cancel()
		if r.Context().Err() == nil && ctx.Err() != nil {
			err = fmt.Errorf("a watch did not begin in time: %w", err)
		}
		return nil, err
	}
	res.Body = &watched{ReadCloser: res.Body, outer: r.Context(), inner: ctx, end: cancel, timer: timer, idle: idle}
	return res, nil
}

// watched is the body of a watch. When its time is over it ends as if the server had
// ended it.
type watched struct {
	io.ReadCloser
	outer, inner context.Context
	end          context.CancelFunc
	timer        *time.Timer
	idle         time.Duration // 0: its life is bounded, not its pauses
	closed       atomic.Bool
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 && w.idle > 0 && w.inner.Err() == nil && !w.closed.Load() {
		w.timer.Reset(w.idle + watchGrace)
	}
	if err != nil && w.inner.Err() != nil && w.outer.Err() == nil && !w.closed.Load() {
		err = io.EOF
	}
	return n, err
}

func (w *watched) Close() error {
	w.closed.Store(true)
	w.timer.Stop()
	w.end()
	return w.ReadCloser.Close()
}
