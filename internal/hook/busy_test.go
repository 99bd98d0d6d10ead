package hook_test

import (
	"net/http"
	"net/http/httptest"
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
	caller := hook.New()
	ended := make(chan error)
	for range 16 {
		go func() {
			ended <- caller.Call(t.Context(), hook.Call{URL: hanging.URL, Phase: "ready", Timeout: time.Minute})
		}()
		<-entered
	}
	if err := caller.Call(t.Context(), hook.Call{URL: hanging.URL, Phase: "ready", Timeout: time.Minute}); fault.Reason(err) != "busy" {
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
