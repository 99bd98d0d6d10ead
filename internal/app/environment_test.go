package app_test

import (
	"testing"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/environment"
)

// Organisations do not meet in the server's own directory of files.
func TestFilesOfOrganisations(t *testing.T) {
	s, err := app.New(t.Context(), app.Config{Settings: app.Settings{DataDir: t.TempDir(), Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	seen := map[string]string{}
	for name, whose := range map[string]environment.Whose{
		"an operator": {Org: "acme", Operator: true}, "acme": {Org: "acme"}, "umbrella": {Org: "umbrella"}, "a hostile name": {Org: "../../etc"},
	} {
		c, err := app.OpenFiles(t.Context(), s, whose)
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[c["directory"]]; twice {
			t.Errorf("%s and %s share %s", name, other, c["directory"])
		}
		seen[c["directory"]] = name
	}
}
