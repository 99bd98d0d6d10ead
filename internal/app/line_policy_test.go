package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/doctor"
	"github.com/droverhq/drover/internal/fault"
)

type carry func(q *http.Request) (*http.Response, error)

func (c carry) RoundTrip(q *http.Request) (*http.Response, error) { return c(q) }

func says(q *http.Request, code int) (*http.Response, error) {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: q}, nil
}

// ask makes one request, and gives its status or what it failed with.
func ask(t testing.TB, line http.RoundTripper, method, url string) (int, error) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := line.RoundTrip(q)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

const (
	kubernetes = "https://kubernetes.example/api/v1/secrets"
	leases     = "https://kubernetes.example/apis/coordination.k8s.io/v1/namespaces/drover/leases/agent"
)

func side(t *testing.T, w app.Watcher) doctor.Side {
	t.Helper()
	all := w.Calls()
	if len(all) != 1 {
		t.Fatalf("known are %+v", all)
	}
	return all[0]
}

// A server that is away is given a rest, and is asked again soon after; whoever says
// no is not away.
func TestKubernetesThatIsAwayIsGivenARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, answer := 0, func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET }
		w := app.NewWatcher(prometheus.NewRegistry())
		line := app.Line(carry(func(q *http.Request) (*http.Response, error) { calls++; return answer(q) }), w)
		for _, code := range []int{404, 409, 422, 403, 429, 500} {
			answer = func(q *http.Request) (*http.Response, error) { return says(q, code) }
			for n := range 40 { // what may be asked again is, and counts no more than the rest
				if got, err := ask(t, line, []string{"POST", "PUT"}[n%2], kubernetes); got != code {
					t.Fatalf("%d is answered as %d, %v", code, got, err)
				}
			}
		}
		if s := side(t, w); s.Open != 0 || !s.Failed.IsZero() {
			t.Errorf("a server that says no is %+v", s)
		}
		answer, calls = func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET }, 0
		for range 20 {
			_, _ = ask(t, line, "PUT", kubernetes)
		}
		if s := side(t, w); s.Open != 1 || calls != 10 {
			t.Errorf("after %d calls it is %+v", calls, s)
		}
		if _, err := ask(t, line, "GET", kubernetes); fault.Reason(err) != "breaker-open" || !fault.Is(err, fault.Unavailable) {
			t.Errorf("who comes meanwhile reads %v", err)
		}
		if _, err := ask(t, line, "GET", "https://kubernetes.example/k8s/clusters/c-1/api/v1/secrets"); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("another server of the same host is told %v", err)
		}
		answer = func(q *http.Request) (*http.Response, error) { return says(q, 200) }
		time.Sleep(3 * time.Second)
		if got, err := ask(t, line, "GET", kubernetes); got != 200 || side(t, w).Open != 0 {
			t.Errorf("it is back, and answers %d, %v", got, err)
		}
	})
}

// A server every fifth of whose answers is lost, refused or wrong is one to work with:
// its breaker stays closed, and hardly a read fails.
func TestKubernetesOnABadDayIsGivenNoRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := app.NewWatcher(prometheus.NewRegistry())
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(7, 7))
		line := app.Line(carry(func(q *http.Request) (*http.Response, error) {
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			fails, how := random.Float64() < 0.2, random.IntN(3)
			mu.Unlock()
			switch {
			case !fails:
				return says(q, 200)
			case how == 0:
				return nil, syscall.ECONNREFUSED
			case how == 1:
				return says(q, 500)
			}
			return nil, syscall.ECONNRESET
		}), w)
		const workers, each = 16, 1500
		var missed, refused atomic.Int32
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for n := range each {
					method := "GET"
					if n%4 == 0 {
						method = "PATCH"
					}
					got, err := ask(t, line, method, kubernetes)
					switch {
					case fault.Reason(err) == "breaker-open" || fault.Reason(err) == "bulkhead-full":
						refused.Add(1)
					case method == "GET" && got != 200:
						missed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if s := side(t, w); s.Open+s.HalfOpen != 0 || refused.Load() != 0 {
			t.Errorf("%d of %d were refused: %+v", refused.Load(), workers*each, s)
		}
		if n := missed.Load(); n > workers*each/50 {
			t.Errorf("%d of %d reads failed for good", n, workers*each*3/4)
		}
	})
}

// What is watched lasts: it has no deadline, and takes no turn. Nor has an answer
// that has begun.
func TestWatchesAreNobodysTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := make(chan struct{})
		line := app.Line(carry(func(q *http.Request) (*http.Response, error) {
			if q.URL.RawQuery == "" {
				return says(q, 200)
			}
			select {
			case <-q.Context().Done():
				return nil, q.Context().Err()
			case <-ends:
				return says(q, 200)
			}
		}), nil)
		var cut atomic.Int32
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				if got, _ := ask(t, line, "GET", kubernetes+"?watch=true"); got != 200 {
					cut.Add(1)
				}
			})
		}
		time.Sleep(time.Hour)
		if got, err := ask(t, line, "GET", kubernetes); got != 200 {
			t.Errorf("while there are watches a read gives %d, %v", got, err)
		}
		close(ends)
		wg.Wait()
		if n := cut.Load(); n != 0 {
			t.Errorf("%d watches were cut", n)
		}
	})
}

// An agent renews its lease however many calls wait for their turn.
func TestLeasesWaitForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most, under atomic.Int32
		line := app.Line(carry(func(q *http.Request) (*http.Response, error) {
			if strings.Contains(q.URL.Path, "leases") {
				return says(q, 200)
			}
			most.Store(max(most.Load(), under.Add(1)))
			defer under.Add(-1)
			time.Sleep(10 * time.Second)
			return says(q, 200)
		}), nil)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { _, _ = ask(t, line, "PATCH", kubernetes) })
		}
		time.Sleep(time.Second)
		began := time.Now()
		if got, err := ask(t, line, "PUT", leases); got != 200 || time.Since(began) > 0 {
			t.Errorf("the lease is renewed after %s: %d, %v", time.Since(began), got, err)
		}
		wg.Wait()
		if n := most.Load(); n != 64 {
			t.Errorf("%d were under way at once, want 64", n)
		}
	})
}

// An answer is read to its end after the request was made, and the request ends with it.
func TestKubernetesAnswersAreWhole(t *testing.T) {
	gone := make(chan struct{}, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 64 {
			_, _ = w.Write(make([]byte, 64<<10))
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Path == "/endless" {
			<-r.Context().Done()
			gone <- struct{}{}
		}
	}))
	t.Cleanup(s.Close)
	c := &http.Client{Transport: app.Line(http.DefaultTransport, nil)}
	resp, err := c.Get(s.URL + "/api")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || len(data) != 4<<20 {
		t.Errorf("%d bytes were read: %v", len(data), err)
	}
	if resp, err = c.Get(s.URL + "/endless"); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	<-gone
	ctx, cancel := context.WithCancel(t.Context())
	q, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/endless", nil) // all of another may be on its way already
	if resp, err = c.Do(q); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	if _, err = io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves in the middle reads %v", err)
	}
}

// What rests is in an agent's log, once, in its metrics, and in what it tells the control
// plane, for as long as it does.
func TestAgentsTellOfWhatRests(t *testing.T) {
	var text strings.Builder
	o, asked, resting := app.AgentCalls(slog.New(slog.NewTextHandler(&text, nil)))
	for _, move := range [][2]string{{"closed", "open"}, {"open", "half-open"}, {"half-open", "open"}, {"open", "half-open"}, {"half-open", "closed"}} {
		o.Breaker("the agent's Kubernetes API", move[0], move[1])
		want, open, half := "the agent's Kubernetes API", 0, 0
		switch move[1] {
		case "open":
			open = 1
		case "half-open":
			half = 1
		default:
			want = ""
		}
		if got := resting(); got != want {
			t.Errorf("%v: %q rests", move, got)
		}
		w := httptest.NewRecorder()
		asked.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for name, n := range map[string]int{"drover_call_breaker_open": open, "drover_call_breaker_half_open": half} {
			if line := fmt.Sprintf("%s{to=\"the agent's Kubernetes API\"} %d\n", name, n); !strings.Contains(w.Body.String(), line) {
				t.Errorf("%v: there is no %s in\n%s", move, line, w.Body)
			}
		}
	}
	if out := text.String(); strings.Count(out, "given a rest") != 1 || strings.Count(out, "answers again") != 1 || !strings.Contains(out, "the agent's Kubernetes API") {
		t.Errorf("the log says\n%s", out)
	}
	for i := range 50 {
		o.Breaker(fmt.Sprintf("Consul at https://consul-%d.example.org:8501", i), "closed", "open")
	}
	if got := resting(); len(got) > 256 || !strings.HasSuffix(got, ", more") {
		t.Errorf("of many it says %q", got)
	}
}
