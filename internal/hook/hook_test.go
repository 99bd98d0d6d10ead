package hook_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/reconcile"
)

func TestCallTellsWhatAndWhose(t *testing.T) {
	got := map[string]string{}
	seller := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = map[string]string{
			"method": r.Method, "path": r.URL.Path, "body": string(body), "type": r.Header.Get("Content-Type"),
			"key": r.Header.Get("Idempotency-Key"), "fence": r.Header.Get("Drover-Fence"),
		}
	}))
	defer seller.Close()
	err := hook.New(nil).Call(context.Background(), hook.Call{
		URL: seller.URL + "/reserve", Timeout: time.Minute, Phase: "preparing",
		Fence: reconcile.Fence{ID: "i1", Generation: 3, Token: 7}, Body: map[string]string{"name": "rex"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"method": "POST", "path": "/reserve", "body": `{"name":"rex"}`, "type": "application/json",
		"key": "i1/preparing/3", "fence": "7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the seller was told (-want +got):\n%s", diff)
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		reason string
		status int
		want   fault.Kind
		ok     bool
	}{
		{"yes", 200, 0, true},
		{"yes, without a body", 204, 0, true},
		{"a seller's no is final", 402, fault.Invalid, false},
		{"a hook that is not there will not come by itself", 404, fault.Invalid, false},
		{"too many calls: later", 429, fault.Unavailable, false},
		{"the seller was too slow to read: later", 408, fault.Unavailable, false},
		{"the seller has trouble: later", 500, fault.Unavailable, false},
		{"a redirect is not followed: the offering says where", 307, fault.Unavailable, false},
	} {
		calls := 0
		seller := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			if c.status != http.StatusNoContent {
				_, _ = io.WriteString(w, "hunter2")
			}
		}))
		err := hook.New(nil).Call(context.Background(), hook.Call{URL: seller.URL, Timeout: time.Minute, Phase: "ready", Body: json.RawMessage("{}")})
		seller.Close()
		if c.ok != (err == nil) || err != nil && fault.Of(err) != c.want || calls != 1 {
			t.Errorf("%s: status %d became %v after %d calls", c.reason, c.status, err, calls)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the answer's body is shown: %v", c.reason, err)
		}
	}
}

func TestSilenceEndsTheCall(t *testing.T) {
	released := make(chan struct{})
	seller := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	defer seller.Close()
	defer close(released)
	err := hook.New(nil).Call(context.Background(), hook.Call{URL: seller.URL, Timeout: time.Millisecond, Phase: "ready"})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("a hook that says nothing became %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	seller := httptest.NewServer(http.NotFoundHandler())
	seller.Close()
	secret := seller.URL + "/?key=hunter2"
	err := hook.New(nil).Call(context.Background(), hook.Call{URL: secret, Timeout: time.Minute, Phase: "ready"})
	if !fault.Is(err, fault.Unavailable) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a hook that is not there became %v", err)
	}
	if err := hook.New(nil).Call(context.Background(), hook.Call{URL: "http://[::1", Timeout: time.Minute, Phase: "ready"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a URL that is none became %v", err)
	}
}
