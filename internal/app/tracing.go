package app

import (
	"context"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/trace"
)

const (
	// spansWaiting are kept for a collector that is slow or away; what is beyond is
	// dropped, so that nobody ever waits for it.
	spansWaiting = 16384
	spansAtOnce  = 2048
	spansWithin  = time.Second
	sendWithin   = 5 * time.Second
	// stepsOfSpan are kept of one that makes many, the last ones: a run that prints for
	// hours writes what it printed each second.
	stepsOfSpan = 1024
	// flushWithin bounds the end of the program.
	flushWithin = 3 * time.Second
)

// tracing is where spans go to. Its zero value is nowhere.
type tracing struct {
	tracer   *trace.Tracer
	provider *sdk.TracerProvider
}

// openTracing sets up a collector. Nothing is sent to it yet: one that is away keeps
// nobody from starting.
func openTracing(ctx context.Context, endpoint, service, version string, sample float64, log *slog.Logger, observer resilience.Observer) (tracing, error) {
	if endpoint == "" {
		return tracing{}, nil
	}
	to := strings.TrimSuffix(endpoint, "/")
	if !strings.HasSuffix(to, "/v1/traces") {
		to += "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to), otlptracehttp.WithTimeout(sendWithin),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		return tracing{}, fault.New(fault.Invalid, "--trace-endpoint: %w", err)
	}
	about, err := resource.New(ctx, resource.WithHost(), resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil { // what was found is there
		log.Warn("cannot tell everything about this process with its traces", "error", err)
	}
	limits := sdk.NewSpanLimits()
	limits.EventCountLimit = stepsOfSpan
	provider := sdk.NewTracerProvider(
		sdk.WithResource(about), sdk.WithRawSpanLimits(limits), sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(sample))),
		sdk.WithBatcher(&collector{SpanExporter: exporter, log: log, policy: resilience.New(collectorConfig(observer))}, sdk.WithMaxQueueSize(spansWaiting), sdk.WithMaxExportBatchSize(spansAtOnce),
			sdk.WithBatchTimeout(spansWithin), sdk.WithExportTimeout(sendWithin)))
	return tracing{trace.New(provider), provider}, nil
}

// elsewhere is a collector as agents on clusters are told of it: not one that only this
// machine reaches, nor one whose URL has a secret in it.
func elsewhere(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Hostname() == "localhost" {
		return ""
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && (ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast()) {
		return ""
	}
	return endpoint
}

// flush sends what is left, for a while.
func (t *tracing) flush() {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushWithin)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the collector has said so already
}

// collectorConfig is without retries: what is lost is lost, the next spans are worth more.
func collectorConfig(observer resilience.Observer) resilience.Config {
	return resilience.Config{Name: toCollector, Timeout: sendWithin, Retries: -1, AtOnce: 1, Observer: observer}
}

// collector tells once that spans cannot be sent, and once that they can again.
type collector struct {
	sdk.SpanExporter
	log    *slog.Logger
	policy *resilience.Policy

	mu   sync.Mutex
	away bool
	lost int
}

// ExportSpans implements sdk.SpanExporter.
func (c *collector) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := c.policy.Once(ctx, func(ctx context.Context) error {
		if err := c.SpanExporter.ExportSpans(ctx, spans); err != nil {
			return fault.New(fault.Unavailable, "%w", err)
		}
		return nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil && !c.away:
		c.away = true
		c.log.Warn("cannot send traces; they are dropped until the collector takes them again, and nothing else is affected", "error", err)
	case err == nil && c.away:
		c.log.Info("the collector takes traces again", "lost", c.lost)
		c.away, c.lost = false, 0
	}
	if err != nil {
		c.lost += len(spans)
	}
	return nil
}
