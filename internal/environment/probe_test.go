package environment_test

import (
	"testing"

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
