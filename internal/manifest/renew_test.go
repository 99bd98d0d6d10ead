package manifest_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/manifest"
)

// stalled is a server whose watches say something, as often as they are told to, and
// then nothing, and never end by themselves.
type stalled struct {
	asked []*http.Request
	hangs bool          // before it answers
	says  int           // words
	every time.Duration // between two
}

func (s *stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r)
	if s.hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: 200, Body: &stalledBody{s: s, ctx: r.Context(), left: s.says}}, nil
}

type stalledBody struct {
	s    *stalled
	ctx  context.Context
	left int
}

func (b *stalledBody) Read(p []byte) (int, error) {
	if b.left > 0 {
		b.left--
		select {
		case <-time.After(b.s.every):
			return copy(p, "x"), nil
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
	}
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func (b *stalledBody) Close() error { return nil }

func TestWatchesAreRenewed(t *testing.T) {
	for _, c := range []struct {
		reason   string
		query    string
		server   stalled
		from, to time.Duration // when it has ended
		words    int
		bounded  bool // the server is asked to end it
		fails    bool
	}{
		{reason: "one that stalls ends within a minute", query: "watch=true&timeoutSeconds=400", server: stalled{says: 1}, from: 40 * time.Second, to: 55 * time.Second, words: 1, bounded: true},
		{reason: "one that is busy ends, too: it may keep something back", query: "watch=true", server: stalled{says: 1000, every: time.Second}, from: 40 * time.Second, to: 55 * time.Second, words: 40, bounded: true},
		{reason: "one that does not begin is given up", query: "watch=1", server: stalled{hangs: true}, from: 40 * time.Second, to: 55 * time.Second, bounded: true, fails: true},
		{reason: "a first list takes its time", query: "watch=true&sendInitialEvents=true", server: stalled{says: 30, every: 10 * time.Second}, from: 340 * time.Second, to: 355 * time.Second, words: 30},
		{reason: "and ends when it stalls", query: "watch=true&sendInitialEvents=true", server: stalled{}, from: 40 * time.Second, to: 55 * time.Second},
	} {
		t.Run(c.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := c.server
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api/things?"+c.query, nil)
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				res, err := manifest.Renewing(&server, 40*time.Second).RoundTrip(r)
				if (err != nil) != c.fails {
					t.Fatalf("%v", err)
				}
				if err == nil {
					all, err := io.ReadAll(res.Body)
					if err != nil || bytes.Count(all, []byte("x")) < c.words {
						t.Errorf("read %q, %v; want %d words and an ordinary end", all, err, c.words)
					}
					res.Body.Close()
				}
				if took := time.Since(begun); took < c.from || took > c.to {
					t.Errorf("it has ended after %v", took)
				}
				if asked := server.asked[0].URL.Query().Get("timeoutSeconds"); (asked != "" && asked != "400") != c.bounded {
					t.Errorf("the server is asked for %q seconds", asked)
				}
			})
		})
	}
}

func TestOnlyWatchesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &stalled{says: 1, every: time.Hour}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api/things?limit=500", nil)
		res, err := manifest.Renewing(server, 40*time.Second).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := res.Body.Read(make([]byte, 10)); n != 1 || err != nil {
			t.Errorf("a slow list was cut off: %d, %v", n, err)
		}
		if strings.Contains(server.asked[0].URL.RawQuery, "timeout") {
			t.Error("a list was given a time")
		}
	})
}

// TestWhoEndsAWatchIsTold keeps an end by the caller from looking like the server's.
func TestWhoEndsAWatchIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://api/things?watch=true", nil)
		res, err := manifest.Renewing(&stalled{}, 40*time.Second).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, cancel)
		if _, err := res.Body.Read(make([]byte, 10)); err != context.Canceled {
			t.Errorf("got %v", err)
		}
	})
}
