package cli_test

import (
	"bytes"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/cli"
)

// On a terminal a cluster's finished phases have lines of their own, because
// their names are long, and what it is at is redrawn within a narrow one.
func TestProgressOfAClusterOnATerminal(t *testing.T) {
	server := httptest.NewServer(newFake())
	t.Cleanup(server.Close)
	env := map[string]string{"DROVER_SERVER": server.URL, "DROVER_TOKEN": "good", "NO_COLOR": "1", "XDG_CONFIG_HOME": t.TempDir(), "DROVER_DATA_DIR": t.TempDir()}
	var out, errs bytes.Buffer
	c := cli.New(cli.Config{Out: &out, Err: &errs, Terminal: true, Getenv: func(name string) string { return env[name] }})
	if code := c.Run(t.Context(), []string{"cluster", "create", "c2", "--profile", "small", "--wait"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	for _, want := range []string{
		"\r\x1b[Kcluster_accepted                  0.50 s\n",
		" s (step 2 of 2: profile.small/config)",
		"\r\x1b[Kready\ncluster c2 is ready after 2.50 s\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %q", want, out.String())
		}
	}
	for _, frame := range strings.Split(out.String(), "\r\x1b[K") {
		if line, _, _ := strings.Cut(frame, "\n"); utf8.RuneCountInString(line) > 80 {
			t.Errorf("%q does not fit on a line", line)
		}
	}
}

// Whatever is written for a cluster is taken or refused as wrong usage.
func FuzzClusterArguments(f *testing.F) {
	for _, seed := range []string{"units=50,zone=b", "units=-1", "units=1,label.a=b,taint=x,type=t,multi-az=yes", "label.=x,units=1", "zone-", "a=b", "-", "=", "gpu-", "units=99999999999999999999"} {
		f.Add(seed)
	}
	server := httptest.NewServer(newFake())
	f.Cleanup(server.Close)
	empty := f.TempDir()
	run := func(t *testing.T, args ...string) int {
		return cli.New(cli.Config{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Getenv: func(name string) string {
			return map[string]string{"DROVER_SERVER": server.URL, "DROVER_TOKEN": "good", "XDG_CONFIG_HOME": empty, "DROVER_DATA_DIR": empty}[name]
		}}).Run(t.Context(), args)
	}
	f.Fuzz(func(t *testing.T, text string) {
		run(t, "cluster", "register", "edge", "--provider", "p", "--region", "r")
		for _, args := range [][]string{
			{"placement", "plan", "--offering", "dinosaur", "--with=" + text},
			{"cluster", "label", "edge", "--", text},
			{"cluster", "taint", "edge", "--", text},
			{"cluster", "limit", "edge", "--", text},
		} {
			if code := run(t, args...); code != 0 && code != 2 {
				t.Errorf("%q exits %d", args, code)
			}
		}
	})
}
