package cli_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/droverhq/drover/internal/cli"
)

// What is wrong with a server's configuration is told from what went wrong later by the exit
// code.
func TestAServersConfigurationHasItsExitCode(t *testing.T) {
	for _, c := range []struct {
		reason string
		err    error
		code   int
	}{
		{"no other start mends it", cli.Misconfigured(errors.New("--bus-options: no such setting")), 2},
		{"another start may", errors.New("the disk fails"), 1},
	} {
		var out, complaints bytes.Buffer
		code := cli.New(cli.Config{Out: &out, Err: &complaints, Getenv: func(string) string { return "" },
			Server: func(context.Context, cli.ServerSettings) error { return c.err }}).Run(t.Context(), []string{"server"})
		if code != c.code || complaints.String() != "drover: "+c.err.Error()+"\n" {
			t.Errorf("%s: %d %q", c.reason, code, complaints.String())
		}
	}
}
