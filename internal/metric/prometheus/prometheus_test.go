package prometheus_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/metric"
	"github.com/droverhq/drover/internal/metric/prometheus"
	"github.com/droverhq/drover/internal/resilience"
)

// upstream is a metrics server that answers as it is told.
func upstream(t *testing.T, answer http.HandlerFunc, edit ...func(*prometheus.Config)) *prometheus.Source {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c := prometheus.Config{URL: server.URL + "/base/", Policy: resilience.Config{Retries: -1, Timeout: 5 * time.Second}}
	for _, e := range edit {
		e(&c)
	}
	s, err := prometheus.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func TestQuery(t *testing.T) {
	at := time.Unix(1700000000, 500e6).UTC()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked *http.Request
	s := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		asked = r
		if strings.HasSuffix(r.URL.Path, "range") {
			says(200, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"up"},"values":[[1700000000.5,"1"],[1700000030.5,"NaN"]]}]}}`)(w, r)
			return
		}
		says(200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","a":"b"},"value":[1700000000.5,"+Inf"]}]}}`)(w, r)
	}, func(c *prometheus.Config) { c.TokenFile = token })

	got, err := s.Query(t.Context(), `up{a="b"}`, metric.Range{})
	want := []metric.Series{{Labels: map[string]string{"__name__": "up", "a": "b"}, Points: []metric.Point{{At: at, Value: math.Inf(1)}}}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Error(err, d)
	}
	if asked.URL.Path != "/base/api/v1/query" || asked.Form.Get("query") != `up{a="b"}` || asked.Header.Get("Authorization") != "Bearer s3cret" {
		t.Errorf("asked %s with %v", asked.URL, asked.Form)
	}

	got, err = s.Query(t.Context(), "up", metric.Range{From: at, To: at.Add(time.Minute), Step: 30 * time.Second})
	want = []metric.Series{{Labels: map[string]string{"__name__": "up"}, Points: []metric.Point{{At: at, Value: 1}, {At: at.Add(30 * time.Second), Value: math.NaN()}}}}
	if d := cmp.Diff(want, got, cmpopts.EquateNaNs()); err != nil || d != "" {
		t.Error(err, d)
	}
	if f := asked.Form; f.Get("start") != "1700000000.500" || f.Get("end") != "1700000060.500" || f.Get("step") != "30" {
		t.Errorf("asked for %v", f)
	}
}

func TestFederate(t *testing.T) {
	const text = "# TYPE up gauge\nup 1 1700000000000\n"
	s := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if d := cmp.Diff([]string{`{a="b"}`, `{c="d"}`}, r.URL.Query()["match[]"]); d != "" || r.URL.Path != "/base/federate" {
			t.Error(r.URL, d)
		}
		says(200, text)(w, r)
	})
	if got, err := s.Federate(t.Context(), []string{`{a="b"}`, `{c="d"}`}); err != nil || string(got) != text {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestBadUpstreams(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		answer http.HandlerFunc
		want   fault.Kind
	}{
		"down":      {"it is away for a while", says(503, "x"), fault.Unavailable},
		"overrun":   {"so is one that is overrun", says(429, "x"), fault.Unavailable},
		"refusal":   {"tenants write no expressions: a bad one is ours", says(400, `{"status":"error","error":"bad_data"}`), fault.Internal},
		"forbidden": {"a bad token is ours too", says(403, "x"), fault.Internal},
		"elsewhere": {"a redirect is not followed with the token", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://127.0.0.1:1/", 302) }, fault.Internal},
		"page":      {"a proxy's page is no answer", says(200, "<html>"), fault.Unavailable},
		"no mark":   {"nor is an error that looks fine", says(200, `{"status":"error"}`), fault.Unavailable},
		"scalar":    {"another kind of result", says(200, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`), fault.Unavailable},
		"form":      {"another form", says(200, `{"status":"success","data":{"resultType":"vector","result":{"a":1}}}`), fault.Unavailable},
		"no value":  {"a series without its value", says(200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}`), fault.Unavailable},
		"number":    {"a value that is none", says(200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"many"]}]}}`), fault.Unavailable},
		"future":    {"a time beyond all calendars", says(200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1e300,"1"]}]}}`), fault.Unavailable},
		"short": {"an answer that breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		}, fault.Unavailable},
		"endless": {"an answer without end", func(w http.ResponseWriter, _ *http.Request) {
			for range 1 << 12 {
				if _, err := w.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		}, fault.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			s := upstream(t, tc.answer, func(c *prometheus.Config) { c.MaxBytes = 1 << 16 })
			if got, err := s.Query(t.Context(), "up", metric.Range{}); fault.Of(err) != tc.want || err == nil {
				t.Errorf("%s: got %v, %v", tc.reason, got, err)
			}
		})
	}
}

func TestSlowUpstream(t *testing.T) {
	left := make(chan struct{})
	s := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // only who has read the body hears that the client left
		<-r.Context().Done()
		close(left)
	}, func(c *prometheus.Config) { c.Policy.Timeout = 20 * time.Millisecond })
	if _, err := s.Query(t.Context(), "up", metric.Range{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	<-left // the call was given up, not left behind
}

func TestBreakerSparesADeadUpstream(t *testing.T) {
	var calls atomic.Int64
	s := upstream(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); says(500, "")(w, r) },
		func(c *prometheus.Config) { c.Policy.Failures, c.Policy.Rest = 3, time.Hour })
	for range 10 {
		if _, err := s.Federate(context.Background(), []string{"{}"}); !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("it was asked %d times, want 3", n)
	}
}

// One that is back is asked, and answers, once its rest is over.
func TestAnUpstreamThatIsBackAnswers(t *testing.T) {
	var back atomic.Bool
	s := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if back.Load() {
			says(200, "up 1\n")(w, r)
			return
		}
		says(503, "")(w, r)
	}, func(c *prometheus.Config) { c.Policy.Failures, c.Policy.Rest = 3, time.Nanosecond })
	for range 5 {
		if _, err := s.Federate(t.Context(), []string{"{}"}); !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
	back.Store(true)
	if got, err := s.Federate(t.Context(), []string{"{}"}); err != nil || string(got) != "up 1\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTokenIsNeverTold(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := upstream(t, says(403, "x"), func(c *prometheus.Config) { c.TokenFile = file })
	if _, err := s.Query(t.Context(), "up", metric.Range{}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Query(t.Context(), "up", metric.Range{}); !fault.Is(err, fault.Unavailable) {
		t.Error("without its token it must not ask:", err)
	}
}

func TestBadConfig(t *testing.T) {
	for _, bad := range []string{"", "prometheus:9090", "ftp://x", "http://"} {
		if _, err := prometheus.New(prometheus.Config{URL: bad}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
