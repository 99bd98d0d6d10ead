package httpapi

import (
	"context"
	"net/http"
	"strings"

	spans "github.com/droverhq/drover/internal/trace"
)

// follow begins the span of a request: in the trace that its header names, or in one
// of its own.
func (s *server) follow(ctx context.Context, r *http.Request, t *trace) (context.Context, *spans.Span) {
	if s.Tracer == nil {
		return ctx, nil
	}
	ctx = spans.With(ctx, s.Tracer) // for what agents say of items, each of which is in a trace of its own
	parent := r.Header.Get(spans.Header)
	if parent == "" && unasked(r) {
		return ctx, nil
	}
	ctx, span := s.Tracer.Start(ctx, parent, "request", spans.Server)
	span.Set(spans.Text("drover.request", t.id), spans.Text("http.request.method", printable(r.Method, 16)))
	return ctx, span
}

// unasked tells of requests that nobody sees who looks at traces: programs make them
// all day long.
func unasked(r *http.Request) bool {
	path := r.URL.Path
	return !strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/api/v1/clusters/") && strings.HasSuffix(path, "/sync") ||
		strings.Contains(path, "/agent-clusters/")
}

// ended says what became of a request. The path is not said, only its pattern: names
// are in it, and of some requests what they prove themselves with.
func (t *trace) ended(span *spans.Span, method string, status int) {
	if span == nil {
		return
	}
	route := t.route
	if _, path, ok := strings.Cut(route, " "); ok { // the mux has the method in front
		route = path
	}
	span.Name(printable(method, 16) + " " + route)
	span.Set(spans.Text("http.route", route), spans.Number("http.response.status_code", int64(status)), spans.Text("drover.org", t.org))
	why := ""
	if status >= http.StatusInternalServerError {
		why = http.StatusText(status)
	}
	span.End(why)
}
