package httpapi

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// worthGzip is the size from which compressing saves more than it costs.
const worthGzip = 4 << 10

// response remembers the status and compresses large answers of a type that
// gains by it. Streams pass through as they are.
type response struct {
	http.ResponseWriter
	gzip   bool // the client accepts it
	status int
	packer *gzip.Writer
}

var packers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return w
}}

func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
		w.pack()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.packer != nil {
		return w.packer.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// pack decides by the headers. A stream has no length and passes as it is.
func (w *response) pack() {
	h := w.Header()
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	size, _ := strconv.Atoi(h.Get("Content-Length"))
	if h.Get("Content-Encoding") != "" || size < worthGzip || (kind != "application/json" && kind != "text/plain" && kind != "text/html") {
		return
	}
	h.Add("Vary", "Accept-Encoding")
	if !w.gzip {
		return
	}
	h.Set("Content-Encoding", "gzip")
	h.Del("Content-Length")
	w.packer = packers.Get().(*gzip.Writer)
	w.packer.Reset(w.ResponseWriter)
}

// close ends a compressed answer.
func (w *response) close() {
	if w.packer == nil {
		return
	}
	_ = w.packer.Close() // the client has gone: nobody is left to tell
	packers.Put(w.packer)
	w.packer = nil
}

// Unwrap lets http.ResponseController flush streams and move deadlines.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush is for streams; handlers that look for http.Flusher find it.
func (w *response) Flush() {
	if w.packer != nil {
		_ = w.packer.Flush()
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a writer that cannot flush does not stream
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == "gzip" && strings.ReplaceAll(q, " ", "") != "q=0" {
			return true
		}
	}
	return false
}

// meters are the Prometheus metrics of the API. Paths are templates: what a
// client puts into a path must not become a new series.
type meters struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	running  prometheus.Gauge
}

func newMeters(r prometheus.Registerer) *meters {
	m := &meters{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_http_requests_total", Help: "Requests answered, by method, route and status.",
		}, []string{"method", "route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_http_request_duration_seconds", Help: "Time to answer, by method and route.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"method", "route"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "drover_http_requests_running", Help: "Requests that are being answered, streams included.",
		}),
	}
	r.MustRegister(m.requests, m.duration, m.running)
	return m
}

var methods = map[string]string{
	"GET": "GET", "HEAD": "HEAD", "POST": "POST", "PUT": "PUT", "PATCH": "PATCH", "DELETE": "DELETE", "OPTIONS": "OPTIONS",
}

var statuses = func() (s [600]string) {
	for i := range s {
		s[i] = string([]byte{byte('0' + i/100), byte('0' + i/10%10), byte('0' + i%10)})
	}
	return s
}()

func (m *meters) observe(method, route string, status int, took time.Duration) {
	method, ok := methods[method]
	if !ok {
		method = "other"
	}
	if _, path, found := strings.Cut(route, " "); found {
		route = path
	}
	if status < 0 || status >= len(statuses) {
		status = 0
	}
	m.requests.WithLabelValues(method, route, statuses[status]).Inc()
	m.duration.WithLabelValues(method, route).Observe(took.Seconds())
}
