package app_test

import (
	"io"
	"testing"

	"github.com/droverhq/drover/internal/app"
)

// A server that cannot run as it is configured says so by its error, so that whoever starts
// it again and again can tell.
func TestAWrongConfigurationIsToldFromAFailure(t *testing.T) {
	for _, c := range []struct {
		reason   string
		settings app.Settings
	}{
		{"no such option of the broker", app.Settings{Bus: "rabbitmq", BusOptions: []string{"uri=amqp://127.0.0.1:1"}}},
		{"a broker without its address", app.Settings{Bus: "rabbitmq"}},
		{"all addresses, unencrypted", app.Settings{Listen: "0.0.0.0:0"}},
	} {
		c.settings.DataDir = t.TempDir()
		if c.settings.Listen == "" {
			c.settings.Listen = "127.0.0.1:0"
		}
		if err := app.Serve(t.Context(), app.Config{Settings: c.settings, Out: io.Discard}); !app.Misconfigured(err) {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
	if app.Misconfigured(nil) || app.Misconfigured(io.ErrUnexpectedEOF) {
		t.Error("a failure is no configuration")
	}
}
