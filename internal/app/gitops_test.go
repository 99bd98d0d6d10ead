package app_test

import (
	"testing"

	"github.com/droverhq/drover/internal/app"
)

// Whoever may label a namespace must not choose a cluster that the operator has
// not named.
func TestEnginesAreTheOperators(t *testing.T) {
	for _, c := range []struct{ engines, label, want, reason string }{
		{"edge:far", "", "edge", "the first one named is the default"},
		{"edge:far", "far", "far", "a label chooses among those named"},
		{"edge:far", "theirs", "edge", "and among no others"},
		{"", "theirs", "", "where none is named none is chosen"},
	} {
		if got := app.Chosen(c.engines)(c.label); got != c.want {
			t.Errorf("%s: %q", c.reason, got)
		}
	}
}
