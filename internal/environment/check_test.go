package environment_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/template"
)

// checked is a stencil with status endpoints.
type checked struct {
	*stencil
	checks map[string][]template.Check // by address
	entry  string
}

type checkedLayout struct {
	environment.Layout
	of *checked
}

func (c *checked) Expand(ctx context.Context, g template.Given) (environment.Layout, error) {
	l, err := c.stencil.Expand(ctx, g)
	return checkedLayout{l, c}, err
}

func (l checkedLayout) Nodes() []template.Node {
	nodes := l.Layout.Nodes()
	for i := range nodes {
		nodes[i].Checks = l.of.checks[nodes[i].Address]
	}
	return nodes
}

func (l checkedLayout) Checks(_ context.Context, address string, _ environment.Known) ([]template.Check, error) {
	return l.of.checks[address], nil
}

func (l checkedLayout) Outputs(context.Context, environment.Known) ([]template.Value, error) {
	if l.of.entry == "" {
		return nil, nil
	}
	return []template.Value{{Output: template.Output{Name: "home", Entry: true}, Value: l.of.entry}}, nil
}

type checkedOnes map[string]*checked

func (c checkedOnes) Blueprint(context.Context, string) (environment.Blueprint, error) {
	return c["shop"], nil
}
func (c checkedOnes) Files(context.Context, string, string) (map[string][]byte, error) {
	return nil, nil
}

type consulHealth struct{ passing, all int }

func (h *consulHealth) Passing(context.Context, executor.Connection, string) (int, int, error) {
	return h.passing, h.all, nil
}

type anyConnection struct{}

func (anyConnection) Open(context.Context, string, string, environment.Whose) (executor.Connection, error) {
	return executor.Connection{"token": "canary-token"}, nil
}

// An environment is well when all of its endpoints are, and only then.
func TestEndpoints(t *testing.T) {
	var code atomic.Int64
	code.Store(503)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect to another host was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, strings.Replace(elsewhere.URL, "127.0.0.1", "other.localhost", 1), http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/entry":
			w.WriteHeader(404)
		default:
			w.WriteHeader(int(code.Load()))
		}
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	named := "http://" + net.JoinHostPort("rex.shop.localhost", at.Port())
	w := newWorld(t, t.TempDir())
	st := &checked{stencil: shop("db", "web<db"), entry: named + "/entry", checks: map[string][]template.Check{
		"":    {{Name: "front", HTTP: named, Passes: 2, Failures: 2, Within: document.Duration(30 * time.Second)}, {Name: "away", HTTP: named + "/away"}, {Name: "port", TCP: at.Host}},
		"web": {{Name: "alive", HTTP: server.URL + "/here", Within: document.Duration(30 * time.Second)}, {Name: "listed", Consul: "web"}},
	}}
	st.id, st.name = "shop@1", "shop"
	health := &consulHealth{2, 2}
	w.configs = append(w.configs, func(c *environment.Config) {
		c.Templates, c.Health, c.Connections = checkedOnes{"shop": st}, health, anyConnection{}
	})
	w.open()
	defer w.store.Close()
	o, op, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop"})
	w.must(err)
	w.work(10 * time.Second)
	e := w.env(o.ID)
	if phase, reason := w.operation(op); e.Phase != environment.Waiting || phase != "succeeded" || reason != "" || len(e.Status.Checks) != 5 || len(e.Status.Entries) != 1 {
		t.Fatalf("%s %q; the operation %s %q; %+v", e.Phase, e.Status.Message, phase, reason, e.Status.Checks)
	}
	w.work(time.Minute)
	if e = w.env(o.ID); e.Phase != environment.Fail || !strings.Contains(e.Status.Message, "front") || !strings.Contains(e.Status.Message, "503") {
		t.Fatalf("%s %q", e.Phase, e.Status.Message)
	}
	code.Store(200)
	w.work(time.Minute)
	if e = w.env(o.ID); e.Phase != environment.OK || e.Status.Message != "" || !*e.Status.Entries[0].OK {
		t.Fatalf("%s %q", e.Phase, e.Status.Message)
	}
	w.work(10 * time.Minute) // the first look at each resource is written
	puts, commits := w.store.puts, w.store.commits
	w.work(time.Hour)
	if w.store.puts != puts {
		t.Errorf("%d writes while all is well", w.store.puts-puts)
	}
	if n := w.store.commits - commits; n > 3*13+6 { // two resources and the environment, each 5 minutes; strays each 10
		t.Errorf("%d commits within an hour while all is well", n)
	}
	health.passing = 1
	w.work(time.Minute)
	if e = w.env(o.ID); e.Phase != environment.Fail || !strings.Contains(e.Status.Message, "web/listed") {
		t.Fatalf("%s %q", e.Phase, e.Status.Message)
	}
	w.start() // another process knows the verdicts and goes on
	health.passing = 2
	w.work(time.Minute)
	if e = w.env(o.ID); e.Phase != environment.OK {
		t.Errorf("%s %q", e.Phase, e.Status.Message)
	}
	w.hidesSecrets()
}

// A verdict needs its row, the first one its time, and nothing else makes one.
func TestWeigh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := template.Check{Passes: rapid.IntRange(1, 4).Draw(t, "passes"), Failures: rapid.IntRange(1, 4).Draw(t, "failures"), Within: document.Duration(rapid.IntRange(0, 60).Draw(t, "within")) * document.Duration(time.Second)}
		deployed := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var tally environment.Tally
		var past []bool
		row := func(good bool) (n int) {
			for i := len(past) - 1; i >= 0 && past[i] == good; i-- {
				n++
			}
			return n
		}
		for now := deployed; len(past) < 30; now = now.Add(5 * time.Second) {
			good := rapid.Bool().Draw(t, "good")
			past = append(past, good)
			before := tally.OK
			tally = environment.Weigh(c, tally, good, "why", deployed, now)
			switch changed := tally.OK != nil && (before == nil || *before != *tally.OK); {
			case changed && *tally.OK && row(true) < c.Passes, changed && !*tally.OK && row(false) < c.Failures:
				t.Fatalf("%v after %v", *tally.OK, past)
			case changed && !*tally.OK && before == nil && now.Sub(deployed) < time.Duration(c.Within):
				t.Fatal("it had more time")
			case row(true) >= c.Passes && (tally.OK == nil || !*tally.OK), row(false) >= c.Failures && before != nil && *tally.OK:
				t.Fatalf("no verdict after %v", past)
			case before != nil && tally.OK == nil:
				t.Fatal("a verdict was forgotten")
			}
		}
	})
}
