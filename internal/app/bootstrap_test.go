package app_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
)

func TestIndexOfRepositories(t *testing.T) {
	const begin = "apiVersion: drover.dev/v1\nkind: Repositories\nspec:\n  repositories: "
	got, err := app.ParseIndex("drover.yaml", []byte(begin+"[infra-a, infra-b]"))
	if err != nil || !slices.Equal(got, []string{"infra-a", "infra-b"}) {
		t.Errorf("got %v, %v", got, err)
	}
	for reason, text := range map[string]string{
		"a way out":             begin + "[../../other]",
		"another server":        begin + "[\"https://example.org/x\"]",
		"another kind":          strings.Replace(begin, "Repositories", "Template", 1) + "[a]",
		"two documents":         begin + "[a]\n---\n" + begin + "[b]",
		"no YAML":               "{{{",
		"more than anybody has": begin + "[" + strings.Repeat("a,", 600) + "a]",
		"nothing":               "",
	} {
		if got, err := app.ParseIndex("drover.yaml", []byte(text)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, %v", reason, got, err)
		}
	}
}

func TestEnvironmentOfARepository(t *testing.T) {
	const text = "apiVersion: drover.dev/v1\nkind: Environment\nmetadata: {name: shop}\nspec: {template: shop, ttl: 8h, parameters: {size: 3}}\n"
	got, err := app.ParseEnvironment("environments/a.yaml", []byte(text))
	if err != nil || got.Name != "shop" || got.Template != "shop" || got.TTL != "8h" || fmt.Sprint(got.Parameters["size"]) != "3" {
		t.Errorf("got %+v, %v", got, err)
	}
	for reason, text := range map[string]string{
		"the meta environment is nobody's": strings.Replace(text, "name: shop", "name: meta", 1),
		"no template":                      strings.Replace(text, "template: shop, ", "", 1),
		"a field that nobody knows":        strings.Replace(text, "ttl:", "operator: true, ttl:", 1),
		"another kind":                     strings.Replace(text, "Environment", "Secret", 1),
	} {
		if got, err := app.ParseEnvironment("environments/a.yaml", []byte(text)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %+v, %v", reason, got, err)
		}
	}
}

func TestTheWayInFromOutside(t *testing.T) {
	for _, tc := range []struct {
		reason, host, service string
		want                  map[string]any // nil: refused
	}{
		{"nobody asks for one", "", "ClusterIP", map[string]any{}},
		{"something is put before it", "api.example.org", "", map[string]any{"public_host": "api.example.org"}},
		{"a load balancer", "api.example.org:8443", "LoadBalancer", map[string]any{"public_host": "api.example.org", "public_port": int64(8443), "service_type": "LoadBalancer"}},
		{"a port of the nodes", "node.example.org:30443", "NodePort", map[string]any{"public_host": "node.example.org", "public_port": int64(30443), "service_type": "NodePort"}},
		{"by which name?", "", "LoadBalancer", nil},
		{"which port of the nodes?", "node.example.org", "NodePort", nil},
		{"no name", ":443", "", nil},
		{"no port", "api.example.org:", "", nil},
		{"a port that is none", "api.example.org:70000", "", nil},
		{"a type that is none", "api.example.org", "Loadbalancer", nil},
	} {
		got, err := app.PublicParameters(tc.host, tc.service)
		if !maps.Equal(got, tc.want) || fault.Is(err, fault.Invalid) != (tc.want == nil) {
			t.Errorf("%s: %v, %v", tc.reason, got, err)
		}
	}
}

func TestRepositoriesOfGitHub(t *testing.T) {
	unwell := 2 // answers
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/orgs/ann/repos":
			http.NotFound(w, r)
		case r.URL.Path == "/users/ann/repos" && r.Header.Get("Authorization") == "Bearer t":
			fmt.Fprint(w, `[{"name":"infra-own"},{"name":"dotfiles"},{"name":"infra-../x"}]`)
		case r.URL.Path == "/orgs/acme/repos" && r.URL.Query().Get("page") == "1":
			fmt.Fprint(w, "["+strings.Repeat(`{"name":"other"},`, 99)+`{"name":"infra-b"}]`)
		case r.URL.Path == "/orgs/acme/repos" && r.URL.Query().Get("page") == "2":
			fmt.Fprint(w, `[{"name":"infra-a"}]`)
		case r.URL.Path == "/orgs/moment/repos" && unwell > 0:
			unwell--
			http.Error(w, "come again", http.StatusBadGateway)
		case r.URL.Path == "/orgs/moment/repos":
			fmt.Fprint(w, `[{"name":"infra-c"}]`)
		case r.URL.Path == "/orgs/huge/repos":
			fmt.Fprint(w, "["+strings.Repeat(`{"name":"infra-a"},`, 99)+`{"name":"infra-b"}]`)
		case r.URL.Path == "/users/huge/repos":
			fmt.Fprint(w, `[]`)
		default:
			http.Error(w, "rate limited", http.StatusForbidden)
		}
	}))
	defer s.Close()
	for _, tc := range []struct {
		reason, org, token string
		want               []string
	}{
		{"an organisation's, on two pages", "acme", "", []string{"infra-a", "infra-b"}},
		{"a person's, with a token; a name that leads out is none", "ann", "t", []string{"infra-own"}},
		{"of one who was away for a moment", "moment", "", []string{"infra-c"}},
	} {
		if got, err := app.GitHubNames(t.Context(), s.URL, tc.org, "infra-", tc.token); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, %v", tc.reason, got, err)
		}
	}
	if got, err := app.GitHubNames(t.Context(), s.URL, "limited", "infra-", ""); !fault.Is(err, fault.Unavailable) {
		t.Errorf("who is refused gets %v, %v", got, err)
	}
	if got, err := app.GitHubNames(t.Context(), s.URL, "huge", "infra-", ""); fault.Reason(err) != "too-many" {
		t.Errorf("of more than anybody reads there are %d, %v", len(got), err)
	}
}

// Who may push to a repository is no operator.
func TestRepositoriesOrderAsATenant(t *testing.T) {
	if c := app.AsTenant; c.Admin || !c.OrgAdmin || c.Org != "local" || c.User != "admin" {
		t.Errorf("they order as %+v", c)
	}
}

func TestTemplatesOfRepositoriesRunNoCommands(t *testing.T) {
	s, err := app.New(t.Context(), app.Config{Settings: app.Settings{DataDir: t.TempDir(), Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	text := func(name, rest string) source.File {
		return source.File{Data: []byte("apiVersion: drover.dev/v1\nkind: Template\nmetadata: {name: " + name + "}\nspec:\n  version: 1.0.0\n" + rest)}
	}
	const file = "  resources: [{name: note, executor: file, with: {path: a, content: b}}]\n"
	const run = "  resources: [{name: run, executor: action, with: {app: {name: x, url: \"file:./x\"}, command: [x], files: {x: y}}}]\n"
	for _, tc := range []struct {
		reason, want string
		files        map[string]source.File
	}{
		{"what runs a command", "commands", map[string]source.File{"template.yaml": text("shop", run)}},
		{"what has one in a directory", "commands", map[string]source.File{"template.yaml": text("shop", file), "part/template.yaml": text("part", run)}},
		{"what Drover is made of", "template", map[string]source.File{"template.yaml": text("meta-local", file)}},
		{"any other", "", map[string]source.File{"template.yaml": text("shop", file), "part/template.yaml": text("part", file)}},
	} {
		if err := app.AddOfRepository(t.Context(), s, tc.files); fault.Reason(err) != tc.want || tc.want == "" && err != nil {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
}

func TestDryRunTouchesNothingThatWasBegun(t *testing.T) {
	state := t.TempDir()
	s, err := app.New(t.Context(), app.Config{Settings: app.Settings{DataDir: filepath.Join(state, "ledger"), Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := app.BeginMeta(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s.Close()
	told := 0
	_, err = app.Bootstrap(t.Context(), app.BootstrapConfig{
		BootstrapSettings: app.BootstrapSettings{Location: "local", State: state, DryRun: true, Timeout: time.Minute},
		Tell:              func(app.BootstrapEvent) { told++ },
	})
	if fault.Reason(err) != "begun" || !strings.Contains(err.Error(), "without --dry-run") || told > 0 {
		t.Errorf("it told %d things and ended with %v", told, err)
	}
}

func TestTemplatesOfARepository(t *testing.T) {
	tree := source.Tree{Files: map[string]source.File{}}
	for _, name := range []string{"shop/template.yaml", "shop/part/template.yaml", "a/b/template.yaml", "a/b/c/template.yaml", "x/y/z/template.yaml", "environments/a.yaml"} {
		tree.Files[name] = source.File{}
	}
	if got, want := app.TemplateDirs(tree), []string{"a/b", "shop"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	tree.Files["template.yaml"] = source.File{}
	if got := app.TemplateDirs(tree); !slices.Contains(got, ".") {
		t.Errorf("that of the whole repository is not among %v", got)
	}
}

func TestStateThatOthersCannotReach(t *testing.T) {
	open := filepath.Join("/", "drover-none", "state") // of which nothing is there
	if err := app.Crossable(open); err != nil {
		t.Errorf("%s: %v", open, err)
	}
	private := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := app.Crossable(filepath.Join(private, "a", "state")); !fault.Is(err, fault.Invalid) {
		t.Errorf("below a private directory: %v", err)
	}
}
