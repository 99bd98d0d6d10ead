package template_test

import (
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/fault"
)

// Parameters are kept in clear: what is declared as a secret is not taken, and not
// repeated.
func TestSecretParameters(t *testing.T) {
	tm := must(t, `  parameters:
    properties:
      size: {type: string}
      password: {type: string, writeOnly: true}
      db: {type: object, properties: {pin: {type: string, format: password}, name: {type: string}}}
      keys: {type: array, items: {type: string, writeOnly: true}}
`+simple)
	for _, c := range []struct {
		reason string
		params map[string]any
		at     string // empty: taken
	}{
		{"nothing secret", map[string]any{"size": "small", "db": map[string]any{"name": "x"}}, ""},
		{"at the top", map[string]any{"password": "hunter2"}, "password: is a secret"},
		{"within", map[string]any{"db": map[string]any{"pin": "hunter2"}}, "db.pin: is a secret"},
		{"in a list", map[string]any{"keys": []any{"hunter2"}}, "keys.0: is a secret"},
	} {
		_, err := tm.Validate(c.params)
		switch {
		case c.at == "" && err != nil:
			t.Errorf("%s: %v", c.reason, err)
		case c.at != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.at) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: got %v", c.reason, err)
		}
	}
}
