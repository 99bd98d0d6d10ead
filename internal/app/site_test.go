package app_test

import (
	"context"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
)

func TestClusterNames(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "drover": "https://drover.service.consul:8000", "drover:8443": "https://drover.service.consul:8443",
		"drover.service.east.consul": "https://drover.service.east.consul:8000", "http://127.0.0.1:9": "http://127.0.0.1:9",
	} {
		if got := app.ClusterURL(name); got != want {
			t.Errorf("%q is asked at %q, not %q", name, got, want)
		}
	}
}

func TestSitesThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		reason, says string
		set          app.Settings
	}{
		{"both at once", "--primary is for the one site", app.Settings{Primary: true, PrimaryURL: "http://127.0.0.1:1", Database: "postgres://127.0.0.1:1/x?sslmode=disable"}},
		{"SQLite does not replicate", "two sites need PostgreSQL", app.Settings{Primary: true, Site: "east"}},
		{"a name that stays", "--site NAME", app.Settings{Primary: true, Database: "postgres://127.0.0.1:1/x?sslmode=disable"}},
		{"also that of the other one", "--site NAME", app.Settings{PrimaryURL: "http://127.0.0.1:1", Database: "postgres://127.0.0.1:1/x?sslmode=disable"}},
		{"a witness of one that stands alone", "say which with --primary", app.Settings{Site: "east", Witness: "consul:http://127.0.0.1:1/x", Database: "postgres://127.0.0.1:1/x?sslmode=disable"}},
		{"a name of one that stands alone", "say which with --primary", app.Settings{Site: "east"}},
		{"a second one beside one that stands alone", "say which with --primary", app.Settings{SecondaryURL: "http://127.0.0.1:1"}},
		{"an authority that is not there", "--site-options", app.Settings{Primary: true, Site: "east", SiteOptions: []string{"ca=/nowhere"}, Database: "postgres://127.0.0.1:1/x?sslmode=disable"}},
		{"an option that is not there", "there is no option", app.Settings{Primary: true, Site: "east", SiteOptions: []string{"cert=x"}, Database: "postgres://127.0.0.1:1/x?sslmode=disable"}},
		{"a token that is not there", "token-file", app.Settings{Primary: true, Site: "east", Witness: "consul:http://127.0.0.1:1/x", WitnessOptions: []string{"token-file=/nowhere"}, Database: "postgres://127.0.0.1:1/x?sslmode=disable"}},
		{"no key", "want consul:", app.Settings{Primary: true, Site: "east", Witness: "consul:http://127.0.0.1:1", Database: "postgres://127.0.0.1:1/x?sslmode=disable"}},
		{"the primary's name is asked in the clear", "--primary-cluster-name", app.Settings{PrimaryCluster: "http://drover.example.org", Database: "postgres://127.0.0.1:1/x?sslmode=disable"}},
		{"the primary is elsewhere, in the clear", "--primary-url", app.Settings{PrimaryURL: "http://drover.example.org", Database: "postgres://127.0.0.1:1/x?sslmode=disable"}},
	} {
		c.set.DataDir, c.set.Listen = t.TempDir(), "127.0.0.1:0"
		err := app.Serve(context.Background(), app.Config{Settings: c.set})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}
