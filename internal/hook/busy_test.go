package hook_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
)

func TestAServiceThatHangsTakesFewWorkers(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	}))
	defer hanging.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer other.Close()
	caller := hook.New(nil)
	ended := make(chan error)
	for range 16 {
		go func() {
			ended <- caller.Call(t.Context(), hook.Call{URL: hanging.URL, Phase: "ready", Timeout: time.Minute})
		}()
		<-entered
	}
	if err := caller.Call(t.Context(), hook.Call{URL: hanging.URL, Phase: "ready", Timeout: time.Minute}); fault.Reason(err) != "bulkhead-full" {
		t.Errorf("a call too many got %v; want to be told to come later", err)
	}
	if err := caller.Call(t.Context(), hook.Call{URL: other.URL, Phase: "ready", Timeout: time.Minute}); err != nil {
		t.Errorf("another seller is held up: %v", err)
	}
	close(release)
	for range 16 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Receivers that hang do not keep others on the same host from being told: one process
// has no more than eight deliveries under way, and there are more places than that.
func TestReceiversThatHangLeaveOthersTheirPlace(t *testing.T) {
	const underWay = 8
	entered, release := make(chan struct{}), make(chan struct{})
	host := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			entered <- struct{}{}
			<-release
		}
	}))
	defer host.Close()
	free := sync.OnceFunc(func() { close(release) })
	defer free()
	caller := hook.New(nil)
	ended := make(chan error, underWay)
	for i := range underWay - 1 {
		go func() { ended <- caller.Post(t.Context(), hook.Post{URL: host.URL + "/hangs"}) }()
		select {
		case <-entered:
		case err := <-ended:
			t.Fatalf("%d hang, and another has no place: %v", i, err)
		}
	}
	if err := caller.Post(t.Context(), hook.Post{URL: host.URL + "/other"}); err != nil {
		t.Errorf("another receiver on that host is held up: %v", err)
	}
	free()
	for range underWay - 1 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A seller's service that is away is left alone for a while, and another's is not;
// what tenants name is always tried, because several share a host.
func TestAServiceThatIsAwayIsGivenARest(t *testing.T) {
	calls := map[string]int{}
	var mu sync.Mutex
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		calls[r.URL.Path]++
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer broken.Close()
	caller := hook.New(nil)
	var last error
	for range 8 {
		last = caller.Call(t.Context(), hook.Call{URL: broken.URL + "/hook", Phase: "ready", Timeout: time.Minute})
		if err := caller.Post(t.Context(), hook.Post{URL: broken.URL + "/webhook"}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a receiver that fails gives %v", err)
		}
	}
	if fault.Reason(last) != "breaker-open" || calls["/hook"] != 5 || calls["/webhook"] != 8 {
		t.Errorf("after %v the last call got %v", calls, last)
	}
}
