package executor_test

import (
	"testing"

	"github.com/droverhq/drover/internal/executor"
)

func TestConnectionsInTheClear(t *testing.T) {
	for option, refused := range map[string]bool{"": true, "false": true, "yes": true, "true": false} {
		c := executor.Connection{"address": "http://consul.example.org:8500", "plaintext": option}
		if _, _, err := c.Transport(); (err != nil) != refused {
			t.Errorf("plaintext: %q: %v", option, err)
		}
	}
}
