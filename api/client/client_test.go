package client_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

// dial makes a client of a handler; resuming costs no time.
func dial(t *testing.T, h http.HandlerFunc, change ...func(*client.Config)) *client.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	cfg := client.Config{Server: server.URL, Token: "secret", Backoff: func(int) time.Duration { return 0 }}
	for _, f := range change {
		f(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNew(t *testing.T) {
	for _, tc := range []struct{ reason, server, token, want string }{
		{reason: "a loopback address needs no scheme", server: "127.0.0.1:8000", want: "http://127.0.0.1:8000"},
		{reason: "nor does localhost", server: "localhost", want: "http://localhost"},
		{reason: "a token never leaves the machine in clear by default", server: "drover.example.org", want: "https://drover.example.org"},
		{reason: "a path prefix stays", server: "https://example.org/fleet/", want: "https://example.org/fleet"},
		{reason: "other schemes are refused", server: "ftp://example.org"},
		{reason: "nothing is refused", server: ""},
		{reason: "a password is not dropped in silence", server: "https://me:secret@example.org"},
		{reason: "a line break would smuggle a header", server: "localhost", token: "a\nb"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			c, err := client.New(client.Config{Server: tc.server, Token: tc.token})
			if (err == nil) != (tc.want != "") {
				t.Fatalf("got error %v, want server %q", err, tc.want)
			}
			if err == nil && c.Server() != tc.want {
				t.Errorf("got %q, want %q", c.Server(), tc.want)
			}
		})
	}
}

// nothing is the tree of no items.
var nothing = func() []byte { text, _ := v1.Tree{}.MarshalText(); return text }()

// seen is what arrived at the server.
type seen struct{ Method, URI, Type, Body, Auth string }

func TestRequests(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		reason string
		call   func(c *client.Client) error
		want   seen
	}{
		{"list passes all options", func(c *client.Client) error {
			_, err := c.List(ctx, "dinosaurs", client.ListOptions{Page: 2, Size: 5, Search: "name = 'r%'", OrderBy: "name desc"})
			return err
		}, seen{Method: "GET", URI: "/api/v1/dinosaurs?orderBy=name+desc&page=2&search=name+%3D+%27r%25%27&size=5"}},
		{"a name cannot leave its segment", func(c *client.Client) error {
			_, err := c.Get(ctx, "dinosaurs", "a/../b?x#y", "7")
			return err
		}, seen{Method: "GET", URI: "/api/v1/dinosaurs/a%2F..%2Fb%3Fx%23y?at=7"}},
		{"create sends JSON", func(c *client.Client) error {
			_, err := c.Create(ctx, "dinosaurs", v1.CreateInstance{Name: "rex"})
			return err
		}, seen{Method: "POST", URI: "/api/v1/dinosaurs", Type: "application/json", Body: `{"name":"rex"}`}},
		{"update is a patch", func(c *client.Client) error {
			_, err := c.Update(ctx, "dinosaurs", "rex", v1.UpdateInstance{Parameters: map[string]any{"a": 1}})
			return err
		}, seen{Method: "PATCH", URI: "/api/v1/dinosaurs/rex", Type: "application/json", Body: `{"parameters":{"a":1}}`}},
		{"delete has no body", func(c *client.Client) error {
			_, err := c.Delete(ctx, "dinosaurs", "rex")
			return err
		}, seen{Method: "DELETE", URI: "/api/v1/dinosaurs/rex"}},
		{"a file is applied as it is", func(c *client.Client) error {
			_, err := c.Apply(ctx, []byte("kind: Offering\n"))
			return err
		}, seen{Method: "PUT", URI: "/api/v1/offerings", Type: "application/yaml", Body: "kind: Offering\n"}},
		{"changes always say after what", func(c *client.Client) error {
			_, err := c.Changes(ctx, client.ChangeOptions{Resource: "dinosaurs", ID: "x", Limit: 3})
			return err
		}, seen{Method: "GET", URI: "/api/v1/changes?after=0&id=x&limit=3&resource=dinosaurs"}},
		{"the newest changes are asked for by number", func(c *client.Client) error {
			_, err := c.Changes(ctx, client.ChangeOptions{Newest: 7})
			return err
		}, seen{Method: "GET", URI: "/api/v1/changes?after=0&newest=7"}},
		{"an agent's message is a post", func(c *client.Client) error {
			_, err := c.Sync(ctx, "c1", v1.Sync{Agent: "a"})
			return err
		}, seen{Method: "POST", URI: "/api/v1/clusters/c1/sync", Type: "application/json",
			Body: fmt.Sprintf(`{"protocol":0,"agent":"a","number":0,"epoch":0,"seq":0,"desired":"%[1]s","observed":"%[1]s","ready":false,"capacity":0}`, nothing)}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var got seen
			c := dial(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = seen{r.Method, r.RequestURI, r.Header.Get("Content-Type"), string(body), r.Header.Get("Authorization")}
				io.WriteString(w, "{}")
			})
			if err := tc.call(c); err != nil {
				t.Fatal(err)
			}
			tc.want.Auth = "Bearer secret"
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDotsAreNoNames(t *testing.T) {
	c := dial(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for _, name := range []string{"", ".", ".."} {
		if _, err := c.Get(t.Context(), "dinosaurs", name, ""); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
}

func TestErrors(t *testing.T) {
	detail := v1.Error{ID: "7", Kind: "Error", Code: "DROVER-7", Reason: "no such dinosaur", OperationID: "op1"}
	for _, tc := range []struct {
		reason string
		status int
		retry  string
		body   any
		want   string
		away   bool
	}{
		{reason: "the server's own words, and its code", status: 404, body: detail, want: "no such dinosaur (DROVER-7)"},
		{reason: "an internal error names its request, so that the log can be searched", status: 500, body: v1.Error{Code: "DROVER-9", Reason: "internal error", OperationID: "op1"},
			want: "internal error (DROVER-9, request op1)", away: true},
		{reason: "something else is there", status: 404, body: "404 page not found", want: "HOST answered 404 Not Found, which does not look like a Drover server: is the address right?"},
		{reason: "a proxy's page is not shown", status: 502, body: "<html>", want: "HOST answered 502 Bad Gateway", away: true},
		{reason: "away for now, and for how long", status: 503, retry: "2", body: v1.Error{Reason: "try again"},
			want: "the server at HOST is up but cannot answer now: try again; try again in 2s", away: true},
		{reason: "a redirect is not followed: the token stays here", status: 302, body: "", want: "HOST answered 302 Found"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			c := dial(t, func(w http.ResponseWriter, r *http.Request) {
				if tc.retry != "" {
					w.Header().Set("Retry-After", tc.retry)
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(tc.status)
				json.NewEncoder(w).Encode(tc.body)
			})
			_, err := c.WhoAmI(t.Context())
			var e *client.Error
			if !errors.As(err, &e) || e.Status != tc.status || client.Status(err) != tc.status {
				t.Fatalf("got %v", err)
			}
			host, _ := url.Parse(c.Server())
			if got := strings.ReplaceAll(err.Error(), host.Host, "HOST"); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if client.Away(err) != tc.away {
				t.Errorf("away: got %v", !tc.away)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c, err := client.New(client.Config{Server: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Resources(t.Context())
	var gone *client.Unreachable
	if !errors.As(err, &gone) || !gone.Refused || gone.Server != l.Addr().String() || !client.Away(err) {
		t.Fatalf("got %#v", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the token is in %q", err)
	}
}

func TestSlowServer(t *testing.T) {
	release := make(chan struct{})
	c := dial(t, func(http.ResponseWriter, *http.Request) { <-release }, func(cfg *client.Config) { cfg.Timeout = 20 * time.Millisecond })
	defer close(release)
	_, err := c.Ledger(t.Context())
	var gone *client.Unreachable
	if !errors.As(err, &gone) || gone.Refused || !strings.Contains(err.Error(), "no answer in time") {
		t.Fatalf("got %v", err)
	}
}

// A held answer comes when it comes: the agent's own deadline ends the wait.
func TestHeldAnswer(t *testing.T) {
	release := make(chan struct{})
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		io.WriteString(w, `{"ledger":"L","seq":7}`)
	}, func(cfg *client.Config) { cfg.Timeout = time.Nanosecond })
	time.AfterFunc(20*time.Millisecond, func() { close(release) })
	if got, err := c.Sync(t.Context(), "c1", v1.Sync{Wait: true}); err != nil || got.Seq != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := c.Sync(ctx, "c1", v1.Sync{Wait: true}); err == nil {
		t.Error("no deadline ends it")
	}
}

func TestCallerGivesUp(t *testing.T) {
	c := dial(t, func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Ledger(ctx); !errors.Is(err, context.Canceled) || client.Away(err) {
		t.Fatalf("got %v, want the caller's own cancellation", err)
	}
}

func TestCompressedAnswersAreBounded(t *testing.T) {
	bomb := func(size int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "gzip" {
				t.Error("the client does not offer gzip")
			}
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, `{"user":"`)
			for range size {
				z.Write(make([]byte, 1<<20)) // zero bytes: invalid in JSON, if it were ever parsed
			}
			io.WriteString(z, `"}`)
			z.Close()
		}
	}
	if _, err := dial(t, bomb(40)).WhoAmI(t.Context()); err == nil || !strings.Contains(err.Error(), "larger than 32 MiB") {
		t.Errorf("got %v, want a bound", err)
	}
	if _, err := dial(t, bomb(1)).WhoAmI(t.Context()); err == nil || !strings.Contains(err.Error(), "did not answer as a Drover server") {
		t.Errorf("got %v, want a refusal to decode", err)
	}
}

func TestHistoryReadsAllPages(t *testing.T) {
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		page := map[string]v1.Changes{
			"":  {Items: []v1.Change{{Seq: 1}, {Seq: 3}}, Next: 3},
			"3": {Items: []v1.Change{{Seq: 9}}, Next: 9},
			"9": {Next: 9},
		}[r.URL.Query().Get("after")]
		json.NewEncoder(w).Encode(page)
	})
	changes, err := c.History(t.Context(), "dinosaurs", "rex")
	if err != nil || len(changes) != 3 || changes[2].Seq != 9 {
		t.Fatalf("got %v, %v", changes, err)
	}
}
