package observability_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const (
	home  = "../../deploy/observability"
	pages = "../../docs"
)

// promtool runs the command, and is where the test ends that has none.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	const missing = "promtool is not there: `test/with-promtool.sh true` brings it"
	path := os.Getenv("DROVER_TEST_PROMTOOL")
	if path == "" {
		if os.Getenv("DROVER_TEST_NO_PROMTOOL") == "1" {
			t.Skip(missing)
		}
		var err error
		if path, err = exec.LookPath("promtool"); err != nil {
			cache, _ := os.UserCacheDir()
			if path = filepath.Join(cache, "drover", "promtool"); !executable(path) {
				t.Fatal(missing + "; DROVER_TEST_NO_PROMTOOL=1 does without")
			}
		}
	}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}

func TestRulesAreSound(t *testing.T) {
	promtool(t, "check", "rules", filepath.Join(home, "rules.yaml"))
}

// A template has its files beside it: those of the meta environments are copies.
func TestRulesOfTheMetaEnvironments(t *testing.T) {
	want, err := os.ReadFile(filepath.Join(home, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"local", "kubernetes"} {
		path := filepath.Join(home, "../meta", kind, "rules.yaml")
		if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
			t.Errorf("copy deploy/observability/rules.yaml to deploy/meta/%s, where it is another one: %v", kind, err)
		}
	}
}

func TestRulesTellWhatTheyShould(t *testing.T) {
	promtool(t, "test", "rules", filepath.Join(home, "rules_test.yaml"))
}

// rule is one of the rules' file.
type rule struct {
	Record      string            `yaml:"record"`
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) (out []rule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(home, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) < 20 {
		t.Fatalf("only %d rules were found", len(out))
	}
	return out
}

// panel is one of a dashboard.
type panel struct {
	ID         int
	Title      string
	Type       string
	Datasource struct{ UID string }
	GridPos    struct{ X, Y, W, H int }
	Targets    []struct{ Expr string }
}

type dashboard struct {
	UID, Title string
	Templating struct{ List []struct{ Name, Type string } }
	Panels     []panel
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(home, "dashboards", "*.json"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%v %v", files, err)
	}
	out := map[string]dashboard{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[filepath.Base(file)] = d
	}
	return out
}

// interval is what Grafana fills in.
var interval = regexp.MustCompile(`\$__rate_interval\b`)

// Every expression of a dashboard, and every query of the page of objectives, is one
// that Prometheus understands: each is checked as a rule.
func TestEveryQueryIsUnderstood(t *testing.T) {
	type recorded struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var all []recorded
	for _, expr := range queries(t) {
		all = append(all, recorded{"checked", interval.ReplaceAllString(expr, "5m")})
	}
	// Two rules that are the same are refused: each has a group of its own.
	type group struct {
		Name  string     `yaml:"name"`
		Rules []recorded `yaml:"rules"`
	}
	var groups []group
	for i, r := range all {
		groups = append(groups, group{Name: "q" + string(rune('a'+i%26)) + strings.Repeat("x", i/26), Rules: []recorded{r}})
	}
	text, err := yaml.Marshal(map[string]any{"groups": groups})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

var fencedQuery = regexp.MustCompile("(?s)```promql\n(.*?)```")

// queries are the expressions of dashboards, and those of the page of objectives.
func queries(t *testing.T) (out []string) {
	t.Helper()
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				out = append(out, target.Expr)
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(pages, "slo.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := fencedQuery.FindAllStringSubmatch(string(page), -1)
	if len(shown) < 6 {
		t.Fatalf("the page of objectives has %d queries", len(shown))
	}
	for _, q := range shown {
		out = append(out, strings.TrimSpace(q[1]))
	}
	return out
}

// A dashboard can be loaded beside others, with whatever data source there is, and
// none of its panels covers another.
func TestDashboardsCanBeLoaded(t *testing.T) {
	uids := map[string]string{}
	for file, d := range dashboards(t) {
		if d.UID == "" || d.Title == "" || uids[d.UID] != "" {
			t.Errorf("%s: uid %q and title %q: each has its own (%s)", file, d.UID, d.Title, uids[d.UID])
		}
		uids[d.UID] = file
		if len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" {
			t.Errorf("%s: the data source is no variable", file)
		}
		ids, covered := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels have the id %d", file, p.ID)
			}
			ids[p.ID] = true
			if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != "${datasource}") {
				t.Errorf("%s: panel %q asks nobody, or a data source of its own", file, p.Title)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := covered[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: panel %q lies over %q, or beyond the edge", file, p.Title, other)
					}
					covered[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

var metricRow = regexp.MustCompile("(?m)^\\| `(drover_[a-z_]+)` \\| ([a-z, ]*)\\|")

// exported are the metrics of the page, which a test of the server holds against
// what it has, and those of a server that follows custom resources.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(pages, "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, m := range metricRow.FindAllStringSubmatch(string(page), -1) {
		out[m[1]] = nil
		if labels := strings.TrimSpace(m[2]); labels != "" {
			out[m[1]] = strings.Split(labels, ", ")
		}
	}
	source, err := os.ReadFile("../../internal/kubeapi/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, labels := range map[string][]string{"drover_kubernetes_synced": {"home"}, "drover_kubernetes_intents_total": {"home", "kind", "outcome"}} {
		if !strings.Contains(string(source), `"`+name+`"`) {
			t.Errorf("%s is no metric of the custom resources any more", name)
		}
		out[name] = labels
	}
	if len(out) < 40 {
		t.Fatalf("the page of metrics has only %d", len(out))
	}
	return out
}

var (
	selector = regexp.MustCompile(`\b(drover[_:][a-zA-Z0-9_:]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouped  = regexp.MustCompile(`\bby \(([^)]*)\) \((?:[a-z_]+\()*(drover_[a-z_]+)`)
	suffix   = regexp.MustCompile(`_(sum|count|bucket)$`)
)

// Rules, dashboards and the page of objectives use metrics and labels that there are.
func TestEveryMetricIsExported(t *testing.T) {
	there := exported(t)
	labels := func(name string) ([]string, bool) {
		if l, ok := there[name]; ok {
			return l, true
		}
		l, ok := there[suffix.ReplaceAllString(name, "")]
		return append([]string{"le"}, l...), ok
	}
	recorded := map[string]bool{}
	all := queries(t)
	for _, r := range rules(t) {
		all = append(all, r.Expr)
		if r.Record != "" {
			recorded[r.Record] = true
		}
	}
	for _, expr := range all {
		found := selector.FindAllStringSubmatch(expr, -1)
		if len(found) == 0 {
			t.Errorf("%s asks for nothing of Drover's", expr)
		}
		for _, m := range found {
			if strings.Contains(m[1], ":") {
				if !recorded[m[1]] {
					t.Errorf("%s: no rule records %s", expr, m[1])
				}
				continue
			}
			has, ok := labels(m[1])
			if !ok {
				t.Errorf("%s: no server exports %s", expr, m[1])
				continue
			}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(has, l[1]) {
					t.Errorf("%s: %s has no label %s", expr, m[1], l[1])
				}
			}
		}
		for _, m := range grouped.FindAllStringSubmatch(expr, -1) {
			has, _ := labels(m[2])
			for l := range strings.SplitSeq(m[1], ", ") {
				if !slices.Contains(has, l) {
					t.Errorf("%s: %s has no label %s", expr, m[2], l)
				}
			}
		}
	}
}

// days of the alerts' test: how many there are on which each fires, and on which it
// does not.
func days(t *testing.T) (fires, rests map[string]int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(home, "rules_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Name  string
			Asked []struct {
				Expr    string
				Samples []any `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	fires, rests = map[string]int{}, map[string]int{}
	for _, day := range file.Tests {
		for _, q := range day.Asked {
			m := firing.FindStringSubmatch(q.Expr)
			switch {
			case m == nil || !strings.HasPrefix(day.Name, m[1]+": "):
				t.Errorf("%q asks for %s: each day is one alert's, by its name", day.Name, q.Expr)
			case len(q.Samples) > 0:
				fires[m[1]]++
			default:
				rests[m[1]]++
			}
		}
	}
	return fires, rests
}

var firing = regexp.MustCompile(`^ALERTS\{alertname="([A-Za-z]+)",alertstate="firing"\}$`)

// Whoever is woken by an alert is told what it is and what to do, and each alert has
// a day on which it fires and one on which it does not.
func TestAlertsSayWhatToDo(t *testing.T) {
	fires, rests := days(t)
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		if r.Annotations["summary"] == "" || r.Annotations["do"] == "" || r.Labels["severity"] != "page" && r.Labels["severity"] != "ticket" {
			t.Errorf("%s: summary, do, or the severity is missing", r.Alert)
		}
		if fires[r.Alert] == 0 || rests[r.Alert] == 0 {
			t.Errorf("rules_test.yaml has %d days on which %s fires, and %d on which it does not: want one of each", fires[r.Alert], r.Alert, rests[r.Alert])
		}
	}
}
