// Package prometheus asks a Prometheus-compatible server (Prometheus, Thanos,
// Mimir, Observatorium) for metrics over its HTTP API.
//
// It owns how that is said and bounds what comes back. It must not know whose
// metrics they are.
package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/metric"
	"github.com/droverhq/drover/internal/resilience"
)

// Config of a Source. URL is required.
type Config struct {
	// URL of the server, up to what comes before /api/v1.
	URL string
	// TokenFile holds a bearer token; it is read for every call, so that one
	// that is rotated is followed. Empty: no token is sent.
	TokenFile string
	// MaxBytes of an answer; default 16 MiB.
	MaxBytes int64
	// Policy of the calls; its Name is filled in.
	Policy resilience.Config
	// Client makes the calls; default: one without redirects.
	Client *http.Client
}

// Source is a metric.Source.
type Source struct {
	cfg    Config
	base   *url.URL
	policy *resilience.Policy
}

var _ metric.Source = (*Source)(nil)

// New makes a source. Nothing is asked yet.
func New(c Config) (*Source, error) {
	base, err := url.Parse(strings.TrimSuffix(c.URL, "/"))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fault.New(fault.Invalid, "the URL of the metrics server must be http(s)://host")
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = 16 << 20
	}
	if c.Policy.Name == "" {
		c.Policy.Name = "the metrics server"
	}
	if c.Client == nil {
		// The token is for this server alone.
		c.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Source{cfg: c, base: base, policy: resilience.New(c.Policy)}, nil
}

// Query evaluates an expression now or over a range.
func (s *Source) Query(ctx context.Context, promql string, r metric.Range) ([]metric.Series, error) {
	path, form := "/api/v1/query", url.Values{"query": {promql}}
	if r != (metric.Range{}) {
		path = "/api/v1/query_range"
		form.Set("start", stamp(r.From))
		form.Set("end", stamp(r.To))
		form.Set("step", strconv.FormatFloat(r.Step.Seconds(), 'f', -1, 64))
	}
	body, err := s.ask(ctx, http.MethodPost, path, form)
	if err != nil {
		return nil, err
	}
	return decode(body)
}

// Federate returns matching series as text.
func (s *Source) Federate(ctx context.Context, selectors []string) ([]byte, error) {
	return s.ask(ctx, http.MethodGet, "/federate", url.Values{"match[]": selectors})
}

func stamp(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}

// ask makes one call; all of them only read, so each may be made again.
func (s *Source) ask(ctx context.Context, method, path string, form url.Values) ([]byte, error) {
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	var out []byte
	err = s.policy.Do(ctx, func(ctx context.Context) error {
		target, body := *s.base, io.Reader(nil)
		target.Path += path
		if method == http.MethodGet {
			target.RawQuery = form.Encode()
		} else {
			body = strings.NewReader(form.Encode())
		}
		req, err := http.NewRequestWithContext(ctx, method, target.String(), body)
		if err != nil {
			return fault.New(fault.Internal, "cannot ask the metrics server: %w", err)
		}
		if body != nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		out, err = s.answer(req)
		return err
	})
	return out, err
}

func (s *Source) token() (string, error) {
	if s.cfg.TokenFile == "" {
		return "", nil
	}
	data, err := os.ReadFile(s.cfg.TokenFile)
	if err != nil {
		return "", fault.New(fault.Unavailable, "cannot read the token for the metrics server: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

func (s *Source) answer(req *http.Request) ([]byte, error) {
	resp, err := s.cfg.Client.Do(req)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the metrics server cannot be reached: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, s.cfg.MaxBytes+1))
	switch {
	case err != nil:
		return nil, fault.New(fault.Unavailable, "the metrics server's answer broke off: %w", err)
	case int64(len(data)) > s.cfg.MaxBytes:
		return nil, fault.New(fault.Internal, "the metrics server's answer is larger than %d bytes", s.cfg.MaxBytes)
	case resp.StatusCode == http.StatusOK:
		return data, nil
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return nil, fault.New(fault.Unavailable, "the metrics server answers %d", resp.StatusCode)
	}
	return nil, fault.New(fault.Internal, "the metrics server refuses with %d: %s", resp.StatusCode, complaint(data))
}

// complaint is what the server says of an expression, for the log.
func complaint(data []byte) string {
	var e struct{ Error string }
	if json.Unmarshal(data, &e) != nil || e.Error == "" {
		return "it does not say why"
	}
	return fmt.Sprintf("%.200q", e.Error)
}

// result is an answer of /api/v1/query and query_range.
type result struct {
	Status string
	Data   struct {
		Type   string `json:"resultType"`
		Result json.RawMessage
	}
}

type sample struct {
	Metric map[string]string
	Value  json.RawMessage
	Values []json.RawMessage
}

func decode(body []byte) ([]metric.Series, error) {
	var r result
	lie := func(what string) error {
		return fault.New(fault.Unavailable, "the metrics server answers with nonsense: %s", what)
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, lie("no JSON")
	}
	if r.Status != "success" {
		return nil, lie("a success without its mark")
	}
	if r.Data.Type != "vector" && r.Data.Type != "matrix" {
		return nil, lie("neither a vector nor a matrix")
	}
	var samples []sample
	if err := json.Unmarshal(r.Data.Result, &samples); err != nil {
		return nil, lie("series of another form")
	}
	out := make([]metric.Series, 0, len(samples))
	for _, one := range samples {
		series := metric.Series{Labels: one.Metric}
		values := one.Values
		if r.Data.Type == "vector" {
			values = []json.RawMessage{one.Value}
		}
		for _, v := range values {
			p, ok := readPoint(v)
			if !ok {
				return nil, lie("a value that is none")
			}
			series.Points = append(series.Points, p)
		}
		out = append(out, series)
	}
	return out, nil
}

// readPoint reads [seconds, "value"]; NaN and infinities are values.
func readPoint(raw json.RawMessage) (metric.Point, bool) {
	var pair []any
	if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 {
		return metric.Point{}, false
	}
	at, ok := pair[0].(float64)
	text, isText := pair[1].(string)
	if !ok || !isText || at < 0 || at > 1e11 {
		return metric.Point{}, false
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return metric.Point{}, false
	}
	return metric.Point{At: time.UnixMilli(int64(at*1000 + 0.5)).UTC(), Value: value}, true
}
