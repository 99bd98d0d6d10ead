//go:build e2e

package own

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
)

// told is what a follower of the broker has heard.
type told struct {
	after int64 // what is newer in the log is heard
	mu    sync.Mutex
	names map[string]bool // of dinosaurs
	seqs  map[int64]bool
}

// follow hears what is told from now on.
func follow(t *testing.T, s *drover.Server, mq *rabbitmq.Server) *told {
	t.Helper()
	drover.Until(t, "the exchange of events", func() bool {
		ch := rabbitmq.Channel(t, mq.URL)
		return ch.ExchangeDeclarePassive("drover.events", "topic", true, false, false, false, nil) == nil
	})
	out := &told{names: map[string]bool{}, seqs: map[int64]bool{}}
	events := rabbitmq.Follow(t, mq.URL, "drover.events", "#")
	at, err := s.Client(t).Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out.after = at.Seq
	go func() { // ends with its connection
		for d := range events {
			var e struct {
				Data struct {
					Seq    int64
					Object struct{ Name string }
				}
			}
			if json.Unmarshal(d.Body, &e) == nil {
				out.mu.Lock()
				out.names[e.Data.Object.Name], out.seqs[e.Data.Seq] = true, true
				out.mu.Unlock()
			}
		}
	}()
	return out
}

// until waits until it is told of everything that was ordered before.
func (o *told) until(t *testing.T, what string, l *load) {
	t.Helper()
	l.mu.Lock()
	names := make([]string, 0, len(l.ordered))
	for name := range l.ordered {
		names = append(names, name)
	}
	l.mu.Unlock()
	drover.Until(t, "what was ordered "+what+" to be told", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return !slices.ContainsFunc(names, func(name string) bool { return !o.names[name] })
	})
}

// whole waits until each change of a dinosaur in the log was told.
func (o *told) whole(t *testing.T, c *client.Client) {
	t.Helper()
	at, err := c.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for after := o.after; after < at.Seq; {
		page, err := c.Changes(t.Context(), client.ChangeOptions{After: after, Resource: "dinosaurs"})
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range page.Items {
			n++
			drover.Until(t, "change "+change.Op+" of "+change.Object.Name+" to be told", func() bool {
				o.mu.Lock()
				defer o.mu.Unlock()
				return o.seqs[change.Seq]
			})
		}
		if page.Next <= after {
			break
		}
		after = page.Next
	}
	if n == 0 {
		t.Error("there was nothing to tell")
	}
}

// given is what a vault gave away: passwords by the path that they were asked for, and the
// tokens of sessions.
type given struct {
	mu    sync.Mutex
	words map[string][]string
}

// overhear has Drover reach the vault through somebody who listens.
func (w *world) overhear(t *testing.T) *given {
	t.Helper()
	out := &given{words: map[string][]string{}}
	p := drover.HTTPProxy(t, w.bao.URL)
	p.Twist(func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var said struct {
			Auth struct {
				Token string `json:"client_token"`
			}
			Data struct{ Password string }
		}
		if json.Unmarshal(body, &said) != nil {
			return nil
		}
		out.mu.Lock()
		defer out.mu.Unlock()
		for path, word := range map[string]string{"auth": said.Auth.Token, r.Request.URL.Path: said.Data.Password} {
			if word != "" {
				out.words[path] = add(out.words[path], word)
			}
		}
		return nil
	})
	w.flags = append(w.flags, "--vault", "http://"+p.Addr)
	return out
}

// all are the words, of which each path has a number at least.
func (g *given) all(t *testing.T, least map[string]int) (out []string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for path, n := range least {
		if got := len(g.words[path]); got < n {
			t.Errorf("%d secrets were given at %s, not %d", got, path, n)
		}
	}
	for _, words := range g.words {
		out = append(out, words...)
	}
	return out
}
