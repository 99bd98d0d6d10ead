package app_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	metrics "github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/entitlement/remote"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/consul"
	"github.com/droverhq/drover/internal/executor/vault"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
	clusters "github.com/droverhq/drover/internal/kubeapi/remote"
	"github.com/droverhq/drover/internal/metric/prometheus"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/sso/keycloak"
	"github.com/droverhq/drover/internal/trace"
)

// planner remembers what policies are to do.
type planner struct{ plans []resilience.Config }

func (p *planner) Planned(c resilience.Config)        { p.plans = append(p.plans, c) }
func (*planner) Called(string, string, time.Duration) {}
func (*planner) Breaker(string, string, string)       {}
func (*planner) Retried(string, bool)                 {}
func (p *planner) of(name *regexp.Regexp) (out []resilience.Config) {
	for _, c := range p.plans {
		if name.MatchString(c.Name) {
			out = append(out, c)
		}
	}
	return out
}

// zones are of nobody.
type zones struct{}

func (zones) Lookup(context.Context, string, []string) ([]dns.RR, error) { return nil, nil }
func (zones) Edit(context.Context, string, []dns.Edit) error             { return nil }

// sides are made as the server makes them, by the row of the page.
var sides = map[string]func(t *testing.T, p *planner) error{
	"database, once a first call has failed": func(_ *testing.T, p *planner) error { app.InsistSeen(nil, p); return nil },
	"broker, connecting": func(t *testing.T, p *planner) error {
		b, err := rabbitmq.Connect(bus.Options{"url": "amqp://127.0.0.1:1"}, rabbitmq.Outside{Observer: p})
		if err == nil {
			t.Cleanup(func() { _ = b.Close() })
		}
		return err
	},
	"identity provider": func(_ *testing.T, p *planner) error {
		_, err := keycloak.New(keycloak.Config{URL: "http://127.0.0.1:1", Realm: "r", Secret: "s", Observer: p})
		return err
	},
	"keys of an issuer of tokens": func(_ *testing.T, p *planner) error { app.IssuerClient(p); return nil },
	"name servers, writing": func(_ *testing.T, p *planner) error {
		_, err := dns.New(dns.Config{Zones: []dns.Zone{{Name: "example.org", Provider: zones{}}}, Installation: "here", Observer: p})
		return err
	},
	"name servers that must show what was written": func(_ *testing.T, p *planner) error {
		_, err := dns.New(dns.Config{Zones: []dns.Zone{{Name: "example.org", Provider: zones{}}}, Installation: "here", Observer: p})
		return err
	},
	"account management service (quota)": func(_ *testing.T, p *planner) error {
		_, err := remote.New(remote.Config{URL: "http://127.0.0.1:1", Title: "its title", Observer: p})
		return err
	},
	"metrics of instances": func(_ *testing.T, p *planner) error {
		_, err := prometheus.New(prometheus.Config{URL: "http://127.0.0.1:1", Policy: resilience.Config{Observer: p}})
		return err
	},
	"Git": func(_ *testing.T, p *planner) error { app.NewRepositories(p); return nil },
	"Consul, Vault": func(t *testing.T, p *planner) error {
		away := executor.Resource{ID: "r", Connection: executor.Connection{"address": "http://127.0.0.1:1", "token": "t"}, Inputs: map[string]any{"key": "a", "value": "b"}}
		_, here := consul.New(consul.Config{Resilience: resilience.Config{Observer: p}}).Plan(t.Context(), away)
		away.Inputs = map[string]any{"path": "a", "generate": map[string]any{"b": map[string]any{}}}
		_, there := vault.New(vault.Config{Resilience: resilience.Config{Observer: p}}).Plan(t.Context(), away)
		if !fault.Is(here, fault.Unavailable) || !fault.Is(there, fault.Unavailable) {
			return errors.Join(errors.New("somebody answers"), here, there)
		}
		return nil
	},
	"Vault, for Drover's own credentials": func(t *testing.T, p *planner) error {
		file := filepath.Join(t.TempDir(), "token")
		return errors.Join(os.WriteFile(file, []byte("t"), 0o600), app.OwnVault("http://127.0.0.1:1", file, p))
	},
	"Consul, for names": func(_ *testing.T, p *planner) error { return app.Names("http://127.0.0.1:1", p) },
	"every executor, around the above": func(_ *testing.T, p *planner) error {
		resilience.New(environment.ExecutorPolicy("consul/default", executor.Description{}, p))
		return nil
	},
	"Kubernetes APIs of resources (executor `kubernetes`)":    lined("the Kubernetes API of resources"),
	"Kubernetes API of the custom resources":                  lined("the Kubernetes API of custom resources"),
	"agent: its cluster's API server":                         lined("the agent's Kubernetes API"),
	"clusters that the control plane reaches by a kubeconfig": func(_ *testing.T, p *planner) error { app.Terraformer(p); return nil },
	"clusters that tenants bring along": func(_ *testing.T, p *planner) error {
		clusters.New(clusters.Config{Resilience: resilience.Config{Observer: p}})
		return nil
	},
	"what makes clusters (OpenTofu)": func(_ *testing.T, p *planner) error { app.ClusterMaker("template", p); return nil },
	"hooks of offerings":             func(_ *testing.T, p *planner) error { hook.New(p); return nil },
	"receivers of webhooks":          func(_ *testing.T, p *planner) error { hook.New(p); return nil },
	"the other site":                 func(_ *testing.T, p *planner) error { _, err := app.PeerClient("the other site", p); return err },
	"the witness":                    func(_ *testing.T, p *planner) error { _, err := app.PeerClient("the witness", p); return err },
	"collector of traces (OTLP)":     func(_ *testing.T, p *planner) error { app.Collector(p); return nil },
	"endpoints of environments that are probed": func(_ *testing.T, p *planner) error {
		environment.NewService(environment.Config{Observer: p})
		return nil
	},
	"GitHub's list of repositories, at bootstrap": func(_ *testing.T, p *planner) error {
		c := app.GitHubConfig()
		c.Observer = p
		resilience.New(c)
		return nil
	},
}

func lined(name string) func(*testing.T, *planner) error {
	return func(_ *testing.T, p *planner) error { app.LineOf(name, p); return nil }
}

var (
	inTime   = regexp.MustCompile(`^(\d+) (ms|s|min|h)\b`)
	afterAll = regexp.MustCompile(`^(?:(\d+) failures, )?(\d+) (ms|s|min|h)\b`)
	howMany  = regexp.MustCompile(`^(\d+)\b`)
	quotedAs = regexp.MustCompile("`([^`]+)`")
)

func span(number, unit string) time.Duration {
	n, _ := strconv.Atoi(number)
	return time.Duration(n) * map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour}[unit]
}

// told is what a row of the table says, as far as it is numbers; 0: it says none.
func told(t *testing.T, cells []string) (want resilience.Config, names []*regexp.Regexp) {
	t.Helper()
	if m := inTime.FindStringSubmatch(cells[1]); m != nil {
		want.Timeout = span(m[1], m[2])
	}
	want.Retries, want.Failures = -1, -1
	if m := howMany.FindString(cells[2]); m != "" {
		want.Retries, _ = strconv.Atoi(m)
	} else if !strings.HasPrefix(cells[2], "none") {
		t.Errorf("the retries of %s are neither none nor a number: %s", cells[0], cells[2])
	}
	if m := afterAll.FindStringSubmatch(cells[3]); m != nil {
		want.Failures, want.Rest = 5, span(m[2], m[3])
		if m[1] != "" {
			want.Failures, _ = strconv.Atoi(m[1])
		}
	} else if !strings.HasPrefix(cells[3], "none") {
		t.Errorf("the breaker of %s is neither none nor a rest: %s", cells[0], cells[3])
	}
	want.AtOnce, _ = strconv.Atoi(howMany.FindString(cells[4]))
	for _, m := range quotedAs.FindAllStringSubmatch(cells[5], -1) {
		names = append(names, regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(m[1]), `\.\.\.`, ".+")+"$"))
	}
	if len(names) == 0 {
		names = append(names, regexp.MustCompile("^"+regexp.QuoteMeta(cells[5])+"$"))
	}
	return want, names
}

// The numbers of docs/stability.md are those of the code, side by side.
func TestEveryCallOutIsBoundAsThePageSays(t *testing.T) {
	text, err := os.ReadFile("../../docs/stability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Every call out")
	table, _, _ = strings.Cut(table, "\n### What does not")
	seen := 0
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 6 || cells[0] == "to" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		seen++
		made := sides[cells[0]]
		if made == nil {
			t.Errorf("nothing is made for the row of %s", cells[0])
			continue
		}
		p := &planner{}
		if err := made(t, p); err != nil {
			t.Errorf("%s cannot be made: %v", cells[0], err)
		}
		want, names := told(t, cells)
		for _, name := range names {
			plans := p.of(name)
			if len(plans) == 0 {
				t.Errorf("%s: nobody is called %s, only %v", cells[0], name, p.plans)
			}
			for _, c := range plans {
				compare(t, cells[0], want, c)
			}
		}
	}
	if seen != len(sides) {
		t.Errorf("the table has %d rows, and %d sides are made", seen, len(sides))
	}
}

func compare(t *testing.T, row string, want, is resilience.Config) {
	t.Helper()
	switch {
	case want.Timeout == 0 && is.Timeout < 24*time.Hour:
		t.Errorf("%s: a call brings its own deadline, and the policy cuts it at %s", row, is.Timeout)
	case want.Timeout != 0 && want.Timeout != is.Timeout:
		t.Errorf("%s: the deadline is %s, and the page says %s", row, is.Timeout, want.Timeout)
	}
	if max(is.Retries, -1) != want.Retries {
		t.Errorf("%s: there are %d retries, and the page says %d", row, is.Retries, want.Retries)
	}
	if max(is.Failures, -1) != want.Failures || want.Failures > 0 && is.Rest != want.Rest {
		t.Errorf("%s: after %d failures it rests for %s, and the page says %d and %s", row, is.Failures, is.Rest, want.Failures, want.Rest)
	}
	if is.AtOnce != want.AtOnce {
		t.Errorf("%s: %d are let through at once, and the page says %d", row, is.AtOnce, want.AtOnce)
	}
}

// A site asks its other and the witness however often they fail, and metrics and the
// doctor tell of it.
func TestWhatASiteAsksIsSeen(t *testing.T) {
	answer := http.StatusServiceUnavailable
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answer)
		_, _ = io.WriteString(w, "all of it")
	}))
	t.Cleanup(s.Close)
	relay, to := app.Relay()
	c, err := app.PeerClient("the other site", relay)
	if err != nil {
		t.Fatal(err)
	}
	get := func() (int, string) {
		resp, err := c.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	get() // nobody hears of it
	w := app.NewWatcher(metrics.NewRegistry())
	to(w)
	for range 20 {
		if code, _ := get(); code != answer {
			t.Fatalf("it answers %d", code)
		}
	}
	if s := side(t, w); s.Name != "the other site" || s.Failed.IsZero() || !s.Answered.IsZero() || s.Open != 0 {
		t.Errorf("one that is away is %+v", s)
	}
	answer = http.StatusOK
	if code, text := get(); code != answer || text != "all of it" || side(t, w).Answered.IsZero() {
		t.Errorf("it answers %d, %q: %+v", code, text, side(t, w))
	}
}

// A collector that is away is seen by metrics and the doctor.
func TestACollectorThatIsAwayIsSeen(t *testing.T) {
	w := app.NewWatcher(metrics.NewRegistry())
	tracer, flush, err := app.OpenTracing(t.Context(), "http://127.0.0.1:1", 1, slog.New(slog.DiscardHandler), w)
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Start(t.Context(), "", "x", trace.Server)
	span.End("")
	flush()
	if s := side(t, w); s.Name != "the collector of traces" || s.Failed.IsZero() {
		t.Errorf("it is %+v", s)
	}
}
