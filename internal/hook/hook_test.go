package hook_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/reconcile"
)

func TestCall(t *testing.T) {
	cases := []struct {
		reason string
		status int
		want   fault.Kind
		fails  bool
	}{
		{"2xx is a yes", http.StatusNoContent, 0, false},
		{"4xx is a no for good", http.StatusForbidden, fault.Invalid, true},
		{"429 asks to come again", http.StatusTooManyRequests, fault.Unavailable, true},
		{"408 asks to come again", http.StatusRequestTimeout, fault.Unavailable, true},
		{"5xx may heal", http.StatusBadGateway, fault.Unavailable, true},
		{"a redirect is not followed", http.StatusFound, fault.Unavailable, true},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			var got http.Header
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r.Header
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
			}))
			defer server.Close()
			err := hook.New().Call(t.Context(), hook.Call{URL: server.URL, Phase: "preparing",
				Fence: reconcile.Fence{ID: "i1", Generation: 2, Token: 7}, Body: map[string]string{"name": "rex"}})
			if c.fails != (err != nil) || c.fails && !fault.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
			if got.Get("Idempotency-Key") != "i1/preparing/2" || got.Get("Drover-Fence") != "7" {
				t.Errorf("headers: %v", got)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	if err := hook.New().Call(t.Context(), hook.Call{URL: server.URL, Phase: "ready"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}

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
	for range 4 {
		go func() {
			ended <- caller.Call(t.Context(), hook.Call{URL: hanging.URL, Phase: "ready", Timeout: time.Minute})
		}()
		<-entered
	}
	if err := caller.Call(t.Context(), hook.Call{URL: hanging.URL, Phase: "ready"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a fifth call got %v; want to be told to come later", err)
	}
	if err := caller.Call(t.Context(), hook.Call{URL: other.URL, Phase: "ready"}); err != nil {
		t.Errorf("another seller is held up: %v", err)
	}
	close(release)
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
