package app_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/droverhq/drover/internal/app"
)

func TestHealthSaysWhatTheAgentSays(t *testing.T) {
	for _, c := range []struct {
		reason string
		ready  func() (bool, string)
		path   string
		status int
		body   string
	}{
		{"the process is there, whatever the agent does", func() (bool, string) { return false, "frozen" }, "/healthz", http.StatusOK, "ok\n"},
		{"a replica that waits for its turn is well", nil, "/readyz", http.StatusOK, "ok: waits for its turn\n"},
		{"the agent works", func() (bool, string) { return true, "" }, "/readyz", http.StatusOK, "ok\n"},
		{"the agent says why it does not", func() (bool, string) { return false, "frozen" }, "/readyz", http.StatusServiceUnavailable, "frozen\n"},
		{"there is nothing else", nil, "/metrics", http.StatusNotFound, "404 page not found\n"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w := httptest.NewRecorder()
			app.HealthHandler(c.ready).ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
			if w.Code != c.status || w.Body.String() != c.body {
				t.Errorf("got %d %q", w.Code, w.Body)
			}
		})
	}
}

func TestProviderOptionsAreNamedByTheirProvider(t *testing.T) {
	got, err := app.ProviderSettings([]string{"template.binary=/opt/tofu"}, "/data")
	if err != nil || got["template"]["binary"] != "/opt/tofu" || got["template"]["work"] != "/data/clusters" {
		t.Errorf("got %v, %v", got, err)
	}
	for reason, option := range map[string]string{
		"no provider":            "binary=/opt/tofu",
		"a provider that is not": "terraform.binary=/opt/tofu",
		"an option that is not":  "template.binaries=/opt/tofu",
		"what is the server's":   "template.work=/tmp",
		"one without options":    "standalone.binary=x",
	} {
		if _, err := app.ProviderSettings([]string{option}, "/data"); err == nil {
			t.Errorf("%s: %s is taken", reason, option)
		}
	}
}
