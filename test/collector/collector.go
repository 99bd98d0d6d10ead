// Package collector is a collector of OpenTelemetry traces for tests: OTLP over HTTP on
// a loopback port, and what came in.
//
// It must not know the rooms inside: it sees what an operator's collector sees.
package collector

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one, as it came.
type Span struct {
	Trace, ID, Parent string // hexadecimal digits
	Service, Name     string
	Begin, End        time.Time
	Failed            string // why, of one that did
	Attributes        map[string]string
}

// Collector takes spans until the test ends.
type Collector struct {
	URL   string
	Away  atomic.Bool  // it answers nobody with success
	Count atomic.Int64 // spans that came
	// Few: messages are counted and thrown away, for benches; set before anything comes.
	Few bool

	mu    sync.Mutex
	spans []Span
}

// Start starts one.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

// ServeHTTP takes what is sent to /v1/traces.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.Few {
		_, _ = io.Copy(io.Discard, r.Body)
		c.Count.Add(1)
		return
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	data, err := io.ReadAll(body)
	var sent collect.ExportTraceServiceRequest
	if r.URL.Path != "/v1/traces" || err != nil || proto.Unmarshal(data, &sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if c.Away.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	c.take(&sent)
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(http.StatusOK)
}

func (c *Collector) take(sent *collect.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range sent.GetResourceSpans() {
		service := texts(of.GetResource().GetAttributes())["service.name"]
		for _, scope := range of.GetScopeSpans() {
			c.Count.Add(int64(len(scope.GetSpans())))
			for _, s := range scope.GetSpans() {
				of := Span{
					Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Service: service, Name: s.GetName(), Begin: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
					Failed: s.GetStatus().GetMessage(), Attributes: texts(s.GetAttributes()),
				}
				c.spans = append(c.spans, of)
				for i, e := range s.GetEvents() {
					c.spans = append(c.spans, step(of, i, e))
				}
			}
		}
	}
}

// step is the event of a span that tells what was done within it, as if it were a span
// of its own below it.
func step(of Span, i int, e *spans.Span_Event) Span {
	said := texts(e.GetAttributes())
	took, _ := strconv.ParseInt(said["drover.took"], 10, 64)
	begin := time.Unix(0, int64(e.GetTimeUnixNano()))
	return Span{
		Trace: of.Trace, ID: of.ID + "/" + strconv.Itoa(i), Parent: of.ID, Service: of.Service, Name: e.GetName(),
		Begin: begin, End: begin.Add(time.Duration(took) * time.Microsecond), Failed: said["drover.failed"], Attributes: said,
	}
}

func texts(all []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[a.GetKey()] = v.StringValue
		default:
			out[a.GetKey()] = strings.TrimSpace(fmt.Sprint(a.GetValue().GetIntValue()))
		}
	}
	return out
}

// Spans of a trace, or all of them, as they came.
func (c *Collector) Spans(trace string) (out []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if trace == "" || s.Trace == trace {
			out = append(out, s)
		}
	}
	return out
}

// Tree draws a trace: each span below the one that began it, with when it began and how
// long it took. A span whose parent has not come is at the left.
func (c *Collector) Tree(trace string) string {
	spans := c.Spans(trace)
	slices.SortFunc(spans, func(a, b Span) int { return a.Begin.Compare(b.Begin) })
	known := map[string]bool{}
	for _, s := range spans {
		known[s.ID] = true
	}
	var b strings.Builder
	var draw func(parent string, depth int)
	line := func(s Span, depth int) {
		fmt.Fprintf(&b, "%s%s  [%s] +%.1f ms, %.1f ms\n", strings.Repeat("  ", depth), s.Name, s.Service,
			float64(s.Begin.Sub(spans[0].Begin).Microseconds())/1000, float64(s.End.Sub(s.Begin).Microseconds())/1000)
	}
	draw = func(parent string, depth int) {
		for _, s := range spans {
			if s.Parent == parent {
				line(s, depth)
				draw(s.ID, depth+1)
			}
		}
	}
	for _, s := range spans {
		if s.Parent == "" || !known[s.Parent] {
			line(s, 0)
			draw(s.ID, 1)
		}
	}
	return b.String()
}
