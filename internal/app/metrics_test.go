package app_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/app"
)

const metricsPage = "../../docs/metrics.md"

var (
	metricRow  = regexp.MustCompile("(?m)^\\| `(drover_[a-z_]+)` \\| ([a-z, ]*)\\| (counter|gauge|histogram) \\|")
	metricName = regexp.MustCompile(`drover_[a-z_]+`)
	suffixes   = regexp.MustCompile(`_(sum|count|bucket)$`)
)

// The page tells of every metric that the server has, with its labels, and of
// no other.
func TestMetricsPageTellsWhatThereIs(t *testing.T) {
	s := serverWithHome(t)
	want := map[string][]string{}
	for name, labels := range s.Described() {
		if strings.HasPrefix(name, "drover_") {
			want[name] = slices.Sorted(slices.Values(labels))
		}
	}
	if len(want) < 10 {
		t.Fatalf("the server describes only %v", want)
	}
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, m := range metricRow.FindAllStringSubmatch(string(page), -1) {
		var labels []string
		if m[2] = strings.TrimSpace(m[2]); m[2] != "" {
			labels = strings.Split(m[2], ", ")
		}
		if strings.HasSuffix(m[1], "_total") != (m[3] == "counter") {
			t.Errorf("%s is told to be a %s", m[1], m[3])
		}
		got[m[1]] = slices.Sorted(slices.Values(labels))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/metrics.md and the server disagree (-server +page):\n%s", diff)
	}
	for _, name := range metricName.FindAllString(string(page), -1) {
		_, whole := want[name]
		if _, ok := want[suffixes.ReplaceAllString(name, "")]; !ok && !whole {
			t.Errorf("the page speaks of %s, which there is not", name)
		}
	}
}

// serverWithHome follows the custom resources of an API that is not there.
func serverWithHome(t *testing.T) *app.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := `{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],
		"clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"a","user":{"token":"t"}}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := app.New(t.Context(), app.Config{Settings: app.Settings{DataDir: t.TempDir(), Listen: "127.0.0.1:0", LogLevel: "error", GitOps: []string{"kubeconfig=" + file}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// peerName is a name in the first column of the table of the earlier service's metrics.
var peerName = regexp.MustCompile("`([A-Za-z]+_[A-Za-z_]+)`")

// Dashboards of the earlier service find the names that they ask for.
func TestMetricsOfTheEarlierService(t *testing.T) {
	described := serverWithHome(t).Described()
	page, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Metrics of the GitOps service")
	section, _, _ = strings.Cut(section, "\n## ")
	found := 0
	for line := range strings.Lines(section) {
		if column, ok := strings.CutPrefix(line, "| `"); ok {
			column, _, _ = strings.Cut("`"+column, " | ")
			for _, m := range peerName.FindAllStringSubmatch(column, -1) {
				if _, there := described[m[1]]; !there {
					t.Errorf("the server has no %s", m[1])
				}
				found++
			}
		}
	}
	if found != 13 {
		t.Errorf("the page names %d, and there were 13", found)
	}
}
