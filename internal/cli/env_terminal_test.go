package cli_test

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/cli"
)

// screen is what a terminal shows after all that was written to it.
func screen(t *testing.T, text string) string {
	t.Helper()
	lines, row := []string{""}, 0
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b[A"):
			text = text[3:]
			if row--; row < 0 {
				t.Fatal("the cursor leaves the screen")
			}
		case strings.HasPrefix(text, "\x1b[2K"):
			text, lines[row] = text[4:], ""
		case text[0] == '\n':
			text = text[1:]
			if row++; row == len(lines) {
				lines = append(lines, "")
			}
		default:
			lines[row] += text[:1]
			text = text[1:]
		}
	}
	return strings.Join(lines, "\n")
}

// Whoever waits on a terminal sees what is at work, and in the end only what came
// of it.
func TestGraphOnATerminal(t *testing.T) {
	for _, tc := range []struct {
		reason, noColor, name, last string
		code                        int
	}{
		{"what was drawn is taken back", "1", "demo", "db                           applying      0.50 s  it is being written\n" +
			"db                           ready         1.00 s\nenvironment demo is Deployed-OK\nurl: http://demo", 0},
		{"with colours the columns stay where they are", "", "demo", "db                           \x1b[33mapplying\x1b[0m      0.50 s  it is being written\n" +
			"db                           \x1b[32mready\x1b[0m         1.00 s\nenvironment demo is Deployed-OK\nurl: http://demo", 0},
		{"a failure too", "1", "sick", "db                           applying      0.50 s  it is being written\n" +
			"db                           failed        1.00 s  no room", 1},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			server := httptest.NewServer(newFake())
			defer server.Close()
			env := map[string]string{"DROVER_SERVER": server.URL, "DROVER_TOKEN": "good", "NO_COLOR": tc.noColor, "XDG_CONFIG_HOME": t.TempDir(), "DROVER_DATA_DIR": t.TempDir()}
			var out, errs bytes.Buffer
			c := cli.New(cli.Config{Out: &out, Err: &errs, Terminal: true, Getenv: func(name string) string { return env[name] }})
			if code := c.Run(t.Context(), []string{"env", "create", tc.name, "--template", "shop", "--wait"}); code != tc.code {
				t.Fatalf("exit code %d, want %d: %s", code, tc.code, &errs)
			}
			if !strings.Contains(out.String(), "\x1b[A\x1b[2K") {
				t.Errorf("nothing was drawn live: %q", &out)
			}
			if got := strings.TrimRight(screen(t, out.String()), "\n"); got != tc.last {
				t.Errorf("the screen shows\n%q\nwant\n%q", got, tc.last)
			}
		})
	}
}
