package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/cli"
)

// Whoever sets up a server reads the table of docs/operate.md: it has every
// setting with its default, and none that is not there.
func TestThePageHasEverySetting(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| setting | default |")
	table, _, _ = strings.Cut(table, "\n\n")
	written := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (?:`([^`]*)`)? ?\\|").FindAllStringSubmatch(table, -1) {
		written[row[1]] = row[2]
	}
	var out, complaints bytes.Buffer
	empty := t.TempDir()
	code := cli.New(cli.Config{Out: &out, Err: &complaints, Getenv: func(name string) string {
		return map[string]string{"XDG_CONFIG_HOME": empty}[name]
	}}).Run(t.Context(), []string{"config", "show", "-o", "json"})
	var settings []struct{ Name, Value string }
	if code != 0 || json.Unmarshal(out.Bytes(), &settings) != nil || len(settings) < 20 {
		t.Fatalf("the settings are not to be read: %d, %s%s", code, out.String(), complaints.String())
	}
	for _, s := range settings {
		value, ok := written[s.Name]
		if s.Name == "server" { // a client verb finds one by itself
			s.Value = ""
		}
		if !ok || value != s.Value {
			t.Errorf("%s has the default %q; on the page it is there: %v, with %q", s.Name, s.Value, ok, value)
		}
		delete(written, s.Name)
	}
	for name := range written {
		t.Errorf("the page has a setting %q that there is not", name)
	}
}

// Every phase that the page draws can be waited for: the command line has its own
// list, and this one is drawn from the table of moves.
func TestEveryPhaseCanBeWaitedFor(t *testing.T) {
	page, err := os.ReadFile("../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(newFake())
	t.Cleanup(server.Close)
	diagram, _, _ := strings.Cut(string(page), "\n```\n")
	moves := regexp.MustCompile(`(?m)^ +([a-z]+) --> `).FindAllStringSubmatch(diagram, -1)
	if len(moves) < 10 {
		t.Fatalf("the page draws %d moves", len(moves))
	}
	for _, move := range moves {
		var complaints bytes.Buffer
		code := cli.New(cli.Config{Out: io.Discard, Err: &complaints, Getenv: func(name string) string {
			return map[string]string{"XDG_CONFIG_HOME": t.TempDir(), "DROVER_SERVER": server.URL, "DROVER_TOKEN": "good"}[name]
		}}).Run(t.Context(), []string{"wait", "dinosaur", "nobody", "--for", move[1]})
		if code != 3 { // there is no such dinosaur, but the phase was taken
			t.Errorf("waiting for %s exits %d: %s", move[1], code, complaints.String())
		}
	}
}
