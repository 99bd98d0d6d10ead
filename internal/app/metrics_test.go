package app_test

import (
	"os"
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
	s, err := app.New(t.Context(), app.Config{Settings: app.Settings{DataDir: t.TempDir(), Listen: "127.0.0.1:0", LogLevel: "error"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
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
