package cli_test

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/cli"
)

func TestProgressOnATerminal(t *testing.T) {
	const redraw = "\r\x1b[K"
	for _, tc := range []struct {
		reason, noColor, last string
		name                  string
		code                  int
	}{
		{reason: "one line is redrawn, and stays with the time of each phase", noColor: "1", name: "rex",
			last: "accepted 0.50 s → preparing 0.50 s → provisioning 0.50 s → ready\ndinosaur rex is ready after 1.50 s\nrex.dinosaurs.localhost\n"},
		{reason: "phases have colours unless someone minds", name: "rex",
			last: "\x1b[33maccepted\x1b[0m 0.50 s → \x1b[33mpreparing\x1b[0m 0.50 s → \x1b[33mprovisioning\x1b[0m 0.50 s → \x1b[32mready\x1b[0m\ndinosaur rex is ready after 1.50 s\nrex.dinosaurs.localhost\n"},
		{reason: "a failure ends the line too", noColor: "1", name: "sick", code: 1,
			last: "accepted 0.50 s → preparing 0.50 s → provisioning 0.50 s → failed\n"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			server := httptest.NewServer(newFake())
			defer server.Close()
			env := map[string]string{
				"DROVER_SERVER": server.URL, "DROVER_TOKEN": "good", "NO_COLOR": tc.noColor,
				"XDG_CONFIG_HOME": t.TempDir(), "DROVER_DATA_DIR": t.TempDir(),
			}
			var out, errs bytes.Buffer
			c := cli.New(cli.Config{Out: &out, Err: &errs, Terminal: true, Getenv: func(name string) string { return env[name] }})
			if code := c.Run(t.Context(), []string{"create", "dinosaur", tc.name, "--wait"}); code != tc.code {
				t.Fatalf("exit code %d, want %d: %s", code, tc.code, &errs)
			}
			frames := strings.Split(out.String(), redraw)
			if len(frames) < 4 || frames[0] != "" {
				t.Fatalf("the line was not redrawn: %q", out.String())
			}
			for _, frame := range frames[:len(frames)-1] {
				if strings.Contains(frame, "\n") {
					t.Errorf("more than one line was used: %q", frame)
				}
			}
			if got := frames[len(frames)-1]; got != tc.last {
				t.Errorf("ends with %q\nwant      %q", got, tc.last)
			}
		})
	}
}

// TestProgressOfAnUpdate shows no phases of the time before the change, and ends
// only when the data plane has it: the instance is ready all along.
func TestProgressOfAnUpdate(t *testing.T) {
	for _, tc := range []struct{ reason, species string }{
		{"the data plane gets a new document", "Stegosaurus"},
		{"the data plane need not hear of it", "quietly"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			server := httptest.NewServer(newFake())
			defer server.Close()
			env := map[string]string{
				"DROVER_SERVER": server.URL, "DROVER_TOKEN": "good", "NO_COLOR": "1",
				"XDG_CONFIG_HOME": t.TempDir(), "DROVER_DATA_DIR": t.TempDir(),
			}
			run := func(terminal bool, args ...string) string {
				t.Helper()
				var out, errs bytes.Buffer
				c := cli.New(cli.Config{Out: &out, Err: &errs, Terminal: terminal, Getenv: func(name string) string { return env[name] }})
				if code := c.Run(t.Context(), args); code != 0 {
					t.Fatalf("exit code %d: %s", code, &errs)
				}
				return out.String()
			}
			run(false, "create", "dinosaur", "rex", "--wait")
			out := run(false, "update", "dinosaur", "rex", "--param", "species="+tc.species, "--wait")
			if strings.Contains(out, "accepted") || !strings.Contains(out, "dinosaur rex is ready after 0.50 s\n") {
				t.Errorf("got %q", out)
			}
			frames := strings.Split(run(true, "update", "dinosaur", "rex", "--param", "species="+tc.species, "--wait"), "\r\x1b[K")
			if last := frames[len(frames)-1]; last != "ready\ndinosaur rex is ready after 0.50 s\nrex.dinosaurs.localhost\n" {
				t.Errorf("ends with %q", last)
			}
		})
	}
}
