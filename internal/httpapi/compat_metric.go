package httpapi

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

const (
	maxFilters  = 100
	maxDuration = 60 * 24 * 31 // minutes
	maxPoints   = 11_000       // of a series: what Prometheus itself gives at most
)

// series is a metric with its points, as they are on the wire.
type series struct {
	Metric    map[string]string `json:"metric"`
	Timestamp *int64            `json:"timestamp,omitempty"`
	Value     *float64          `json:"value,omitempty"`
	Values    *[]point          `json:"values,omitempty"`
}

type point struct {
	Timestamp int64   `json:"timestamp"`
	Value     float64 `json:"value"`
}

type metricsList struct {
	Kind  string   `json:"kind"`
	ID    string   `json:"id"`
	Items []series `json:"items"`
}

// compatMetrics returns the handler of one kind of question about metrics. Which
// names may be asked for, and that the series are the instance's own, is the
// instance's business.
func (s *server) compatMetrics(which string) (func(http.ResponseWriter, *http.Request, *compatPath), bool) {
	switch which {
	case "query":
		return s.metricsNow, true
	case "query_range":
		return s.metricsRange, true
	case "federate":
		return s.metricsFederate, true
	}
	return nil, false
}

func (s *server) metricsNow(w http.ResponseWriter, r *http.Request, p *compatPath) {
	o, found, err := s.metrics(r, p, instance.Range{})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := metricsList{"MetricsInstantQueryList", o.ID, []series{}}
	for _, one := range found {
		points := finite(one.Points)
		if len(points) == 0 {
			continue
		}
		last := points[len(points)-1]
		out.Items = append(out.Items, series{Metric: labels(one), Timestamp: &last.Timestamp, Value: &last.Value})
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *server) metricsRange(w http.ResponseWriter, r *http.Request, p *compatPath) {
	o, err := s.find(r, p)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	span, err := rangeArgs(r.URL.Query(), s.Clock())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	_, found, err := s.metrics(r, p, span)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := metricsList{"MetricsRangeQueryList", o.ID, []series{}}
	for _, one := range found {
		if points := finite(one.Points); len(points) > 0 {
			out.Items = append(out.Items, series{Metric: labels(one), Values: &points})
		}
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *server) metricsFederate(w http.ResponseWriter, r *http.Request, p *compatPath) {
	o, err := s.find(r, p)
	var names []string
	if err == nil {
		names, err = filters(r.URL.Query())
	}
	var text []byte
	if err == nil {
		text, err = s.Instances.Federate(r.Context(), p.off.Metadata.Name, o.ID, names)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	write(w, http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", text)
}

// metrics asks for an instance's metrics, after it was found to be the caller's.
func (s *server) metrics(r *http.Request, p *compatPath, span instance.Range) (ledger.Object, []instance.Series, error) {
	o, err := s.find(r, p)
	if err != nil {
		return o, nil, err
	}
	names, err := filters(r.URL.Query())
	if err != nil {
		return o, nil, err
	}
	found, err := s.Instances.Query(r.Context(), p.off.Metadata.Name, o.ID, names, span)
	return o, found, err
}

// filters reads the names of metrics: repeated, with brackets as some clients
// write them, or in one comma list.
func filters(query url.Values) ([]string, error) {
	var names []string
	for _, key := range []string{"filters", "filters[]"} {
		for _, text := range query[key] {
			for name := range strings.SplitSeq(text, ",") {
				if name = strings.TrimSpace(name); name != "" {
					names = append(names, name)
				}
			}
		}
	}
	if len(names) > maxFilters {
		return nil, fault.New(fault.Invalid, "more than %d metrics are asked for", maxFilters).Because("field")
	}
	return names, nil
}

// rangeArgs reads the minutes to look back on and the seconds between points.
func rangeArgs(query url.Values, now time.Time) (instance.Range, error) {
	args := map[string]int64{}
	for name, most := range map[string]int64{"duration": maxDuration, "interval": maxDuration * 60} {
		n, err := strconv.ParseInt(query.Get(name), 10, 32)
		if err != nil || n < 1 || n > most {
			return instance.Range{}, fault.New(fault.Invalid, "%s must be a number between 1 and %d", name, most).Because("field")
		}
		args[name] = n
	}
	if args["duration"]*60/args["interval"] > maxPoints {
		return instance.Range{}, fault.New(fault.Invalid, "these are more than %d values of each metric; ask for a longer interval", maxPoints).Because("field")
	}
	return instance.Range{
		From: now.Add(-time.Duration(args["duration"]) * time.Minute), To: now,
		Step: time.Duration(args["interval"]) * time.Second,
	}, nil
}

// finite leaves out what JSON has no number for.
func finite(in []instance.Point) []point {
	out := make([]point, 0, len(in))
	for _, p := range in {
		if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
			out = append(out, point{p.At.UnixMilli(), p.Value})
		}
	}
	return out
}

func labels(s instance.Series) map[string]string {
	if s.Labels == nil {
		return map[string]string{}
	}
	return s.Labels
}
