package environment_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/template"
)

// What a machine tells itself about its credentials is not reached by checks.
func TestLinkLocal(t *testing.T) {
	for _, c := range []template.Check{{TCP: "169.254.169.254:80"}, {HTTP: "http://169.254.169.254/latest"}, {TCP: "[fe80::1]:80"}, {TCP: "[::ffff:169.254.169.254]:80"}} {
		if good, message := environment.ProbeOnce(t.Context(), c); good || message != "link-local addresses are not reached" {
			t.Errorf("%+v: %v, %s", c, good, message)
		}
	}
}

// Probes of a host that hangs take no others' turn, and are counted.
func TestProbesOfAHostThatHangs(t *testing.T) {
	var under, most atomic.Int32
	came := make(chan struct{}, 100)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for n := under.Add(1); ; {
			if is := most.Load(); n <= is || most.CompareAndSwap(is, n) {
				break
			}
		}
		defer under.Add(-1)
		came <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.Close)
	fine := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(fine.Close)
	seen := &outcomes{}
	probe := environment.Prober(seen)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			if good, _, _ := probe(ctx, template.Check{HTTP: hangs.URL, Timeout: document.Duration(time.Hour)}); good {
				t.Error("one that hangs is fine")
			}
		})
	}
	for range 8 {
		<-came
	}
	if good, message, _ := probe(t.Context(), template.Check{HTTP: fine.URL, Timeout: document.Duration(time.Minute)}); !good {
		t.Errorf("another pays for it: %s", message)
	}
	// Whoever waits for its turn there has seen nothing: its time has not begun.
	soon, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	if _, message, known := probe(soon, template.Check{HTTP: hangs.URL, Timeout: document.Duration(time.Millisecond)}); known {
		t.Errorf("one that had no turn knows: %s", message)
	}
	end()
	cancel()
	wg.Wait()
	if n := most.Load(); n != 8 {
		t.Errorf("%d probes of one host were under way at once, want 8", n)
	}
	refused := fine.Listener.Addr().String()
	fine.Close()
	for range 10 { // it is tried each time
		if good, message, _ := probe(t.Context(), template.Check{TCP: refused, Timeout: document.Duration(time.Minute)}); good || message != "nobody listens there" {
			t.Errorf("%v, %s", good, message)
		}
	}
	if n := seen.count("failed"); n != 10 || seen.count("ok") != 1 {
		t.Errorf("seen are %v", seen.all)
	}
}

// outcomes of calls.
type outcomes struct {
	mu  sync.Mutex
	all map[string]int
}

func (o *outcomes) Called(name, outcome string, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[string]int{}
	}
	if name == environment.Probed {
		o.all[outcome]++
	}
}

func (o *outcomes) count(outcome string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[outcome]
}

func (*outcomes) Breaker(string, string, string) {}
func (*outcomes) Retried(string, bool)           {}
