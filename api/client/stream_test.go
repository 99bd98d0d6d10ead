package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/api/client"
)

// script answers each connection to the watch with the next piece; what a
// connection was asked for is recorded. After the last piece it hangs until the
// client leaves.
type script struct {
	pieces []func(w http.ResponseWriter)
	mu     sync.Mutex
	asked  []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	n := len(s.asked)
	s.asked = append(s.asked, r.URL.Query().Encode())
	s.mu.Unlock()
	if n >= len(s.pieces) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	s.pieces[n](w)
}

func events(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, text)
	}
}

func change(seq int) string {
	return fmt.Sprintf("id: %d\nevent: change\ndata: {\"seq\":%d}\n\n", seq, seq)
}

// cut sends events and breaks the connection in the middle of one.
func cut(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		events(text + "id: 99\ndata: {\"seq\"")(w)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

func TestWatchResumes(t *testing.T) {
	for _, tc := range []struct {
		reason string
		after  int64
		pieces []func(http.ResponseWriter)
		want   []int64
		asked  []string
		status int // of the error at the end; 0: ends when the reader has all
	}{
		{reason: "a connection that ends is resumed from the last sequence", after: 4,
			pieces: []func(http.ResponseWriter){events(change(5) + change(6)), events(change(7))},
			want:   []int64{5, 6, 7}, asked: []string{"after=4&id=x&resource=dinosaurs", "after=6&id=x&resource=dinosaurs"}},
		{reason: "half an event does not count",
			pieces: []func(http.ResponseWriter){cut(change(1)), events(change(2))},
			want:   []int64{1, 2}, asked: []string{"after=0&id=x&resource=dinosaurs", "after=1&id=x&resource=dinosaurs"}},
		{reason: "what was seen is not seen twice",
			pieces: []func(http.ResponseWriter){events(change(1) + change(2)), events(change(1) + change(2) + change(3))},
			want:   []int64{1, 2, 3}, asked: []string{"after=0&id=x&resource=dinosaurs", "after=2&id=x&resource=dinosaurs"}},
		{reason: "a server that is away for a while is waited for",
			pieces: []func(http.ResponseWriter){events(change(1)), status(503), status(502), status(429), events(change(2))},
			want:   []int64{1, 2}},
		{reason: "from now on, until there is a sequence to resume from", after: client.FromNow,
			pieces: []func(http.ResponseWriter){events(": hello\n\n"), events(change(8)), events(change(9))},
			want:   []int64{8, 9}, asked: []string{"id=x&resource=dinosaurs", "id=x&resource=dinosaurs", "after=8&id=x&resource=dinosaurs"}},
		{reason: "comments, other events, carriage returns and split data are part of the format",
			pieces: []func(http.ResponseWriter){events(": beat\n\nevent: bye\ndata: {}\n\nid: 3\r\nevent: change\r\ndata: {\"seq\":\r\ndata:3}\r\n\r\n")},
			want:   []int64{3}},
		{reason: "a refusal ends it", pieces: []func(http.ResponseWriter){events(change(1)), status(401)}, want: []int64{1}, status: 401},
		{reason: "so does a server that is not there at first", pieces: []func(http.ResponseWriter){status(503)}, status: 503},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := &script{pieces: tc.pieces}
			c := dial(t, s.ServeHTTP)
			var got []int64
			var end error
			for ch, err := range c.Watch(t.Context(), client.WatchOptions{After: tc.after, Resource: "dinosaurs", ID: "x"}) {
				if end = err; err != nil {
					break
				}
				if got = append(got, ch.Seq); tc.status == 0 && len(got) == len(tc.want) {
					break
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if client.Status(end) != tc.status {
				t.Errorf("ended with %v, want status %d", end, tc.status)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if tc.asked != nil {
				if diff := cmp.Diff(tc.asked, s.asked); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestWatchNoticesSilence(t *testing.T) {
	connections := make(chan struct{}, 8)
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		connections <- struct{}{}
		if len(connections) > 1 {
			events(change(2))(w)
			return
		}
		events(change(1))(w)
		w.(http.Flusher).Flush()
		<-r.Context().Done() // a dead peer says nothing
	}, func(cfg *client.Config) { cfg.Silence = 30 * time.Millisecond })
	var lost error
	for ch, err := range c.Watch(t.Context(), client.WatchOptions{Lost: func(err error, _ time.Duration) { lost = err }}) {
		if err != nil {
			t.Fatal(err)
		}
		if ch.Seq == 2 {
			break
		}
	}
	if lost == nil || !strings.Contains(lost.Error(), "silent") {
		t.Errorf("lost because of %v", lost)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	s := &script{pieces: []func(http.ResponseWriter){events(change(1))}}
	c := dial(t, s.ServeHTTP)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var end error
	for ch, err := range c.Watch(ctx, client.WatchOptions{}) {
		if ch.Seq == 1 {
			cancel()
		}
		end = err
	}
	if !errors.Is(end, context.Canceled) {
		t.Fatalf("ended with %v", end)
	}
}

func TestEventsAreBounded(t *testing.T) {
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "data: ")
		chunk := strings.Repeat("x", 1<<20)
		for range 80 {
			if _, err := fmt.Fprint(w, chunk); err != nil {
				return
			}
		}
	})
	for _, err := range c.Watch(t.Context(), client.WatchOptions{}) {
		if err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
			t.Fatalf("got %v", err)
		}
	}
}
