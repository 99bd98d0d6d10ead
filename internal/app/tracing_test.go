package app_test

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/trace"
	"github.com/droverhq/drover/test/collector"
)

// page is a log that several write to.
type page struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// What is left at the end is sent, to the path that the protocol has.
func TestSpansAreSentAtTheEnd(t *testing.T) {
	c := collector.Start(t)
	for _, url := range []string{c.URL, c.URL + "/", c.URL + "/v1/traces"} {
		before, log := c.Count.Load(), &page{}
		tracer, flush, err := app.OpenTracing(t.Context(), url, 1, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			_, span := tracer.Start(t.Context(), "", "x", trace.Server)
			span.End("")
		}
		flush()
		if got := c.Count.Load() - before; got != 100 || log.String() != "" {
			t.Errorf("%s: %d spans came, and the log says %q", url, got, log)
		}
	}
	if s := c.Spans("")[0]; s.Service != "test" {
		t.Errorf("they are of %q", s.Service)
	}
}

// A run that commits each second for hours is told with its last commits, and not with
// those of two minutes, which is what OpenTelemetry keeps by itself.
func TestManyStepsOfASpan(t *testing.T) {
	c := collector.Start(t)
	tracer, flush, err := app.OpenTracing(t.Context(), c.URL, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := tracer.Start(t.Context(), "", "run", trace.Inside)
	for i := range 1100 {
		trace.Step(ctx, "step", time.Now(), nil, trace.Number("i", int64(i)))
	}
	span.End("")
	trace.Step(ctx, "late", time.Now(), nil)
	flush()
	steps := c.Spans("")[1:]
	if first, last := steps[0], steps[len(steps)-1]; len(steps) != 1024 || first.Attributes["i"] != "76" || last.Attributes["i"] != "1099" || last.Name != "step" {
		t.Errorf("%d steps, from %v to %v", len(steps), first, last)
	}
}

// A collector that takes connections and never answers holds up nobody: neither those
// whose spans are more than fit, nor for long the end.
func TestACollectorThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log := &page{}
	tracer, flush, err := app.OpenTracing(t.Context(), "http://"+l.Addr().String(), 1, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 100_000 {
		_, span := tracer.Start(t.Context(), "", "x", trace.Server)
		span.End("")
	}
	done := make(chan struct{})
	go func() { flush(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the end waits for the collector")
	}
	if n := strings.Count(log.String(), "cannot send traces"); n > 1 {
		t.Errorf("it complains %d times:\n%s", n, log)
	}
}

// A line that is written in a trace says in which.
func TestLinesSayTheirTrace(t *testing.T) {
	c, log := collector.Start(t), &page{}
	tracer, flush, err := app.OpenTracing(t.Context(), c.URL, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer flush()
	lines := app.NewLog(log)
	ctx, span := tracer.Start(t.Context(), "", "x", trace.Server)
	lines.InfoContext(ctx, "within")
	lines.InfoContext(t.Context(), "without")
	span.End("")
	within, without, _ := strings.Cut(log.String(), "\n")
	if !strings.Contains(within, `"trace":"`+trace.ID(ctx)+`"`) || strings.Contains(without, `"trace"`) {
		t.Errorf("the log says\n%s", log)
	}
}

func TestNoCollector(t *testing.T) {
	tracer, flush, err := app.OpenTracing(t.Context(), "", 1, slog.New(slog.DiscardHandler))
	if tracer != nil || err != nil {
		t.Errorf("%v, %v", tracer, err)
	}
	flush()
}

// Agents on clusters are told of the server's collector if they can reach it, and of no
// secret in its URL.
func TestAgentsAreToldOfTheCollector(t *testing.T) {
	for _, c := range []struct {
		reason, endpoint string
		told             bool
	}{
		{"none", "", false},
		{"somewhere", "https://collector.example.org:4318", true},
		{"of the network", "http://10.0.0.7:4318/v1/traces", true},
		{"on this machine", "http://127.0.0.1:4318", false},
		{"on this machine, by name", "http://localhost:4318", false},
		{"on this machine, by another address", "http://[::1]:4318", false},
		{"on every address of this machine", "http://0.0.0.0:4318", false},
		{"a password", "https://alice:secret@collector.example.org", false},
		{"a token", "https://collector.example.org/?token=secret", false},
		{"nonsense", "://", false},
	} {
		want := ""
		if c.told {
			want = c.endpoint
		}
		if got := app.Elsewhere(c.endpoint); got != want {
			t.Errorf("%s: %q", c.reason, got)
		}
	}
}
