package drover_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/droverhq/drover/"

// layer is a floor of the house: what its rooms may import of the house, and why
// no more.
type layer struct {
	rooms  []string // of which a domain may import those to its left
	floors []string // layers whose rooms it may import
	reason string
}

// house is the table of who may import whom. A package that is in no room fails:
// decide on its floor first.
var house = map[string]layer{
	"ground": {
		rooms:  []string{"internal/fault", "internal/ledger", "internal/reconcile", "internal/graph", "internal/expr", "internal/schema", "internal/resilience", "internal/queue", "internal/manifest", "internal/document", "internal/tofu", "internal/trace", "internal/program", "internal/transport", "internal/vault", "internal/authority"},
		floors: []string{"ground"},
		reason: "the ground carries every room, so it can know none of them",
	},
	"port": {
		rooms:  []string{"internal/executor", "internal/entitlement", "internal/certificate", "internal/provider", "internal/runtime", "internal/hook", "internal/dns", "internal/sso", "internal/metric", "internal/bus", "internal/source", "internal/discovery", "internal/credential"},
		floors: []string{"ground"},
		reason: "a port is a contract: what is behind it and who uses it are both strangers to it",
	},
	"domain": {
		rooms:  []string{"internal/site", "internal/access", "internal/operation", "internal/audit", "internal/breaker", "internal/account", "internal/policy", "internal/offering", "internal/cluster", "internal/instance", "internal/connection", "internal/template", "internal/environment", "internal/gitops", "internal/subscription", "internal/command", "internal/doctor"},
		floors: []string{"ground", "port"},
		reason: "decisions must not depend on how they are asked for or kept: declare an interface, and let app wire it",
	},
	"wire":   {rooms: []string{"api/v1"}, reason: "outside programs import the wire structs, so nothing may come along with them"},
	"client": {rooms: []string{"api/client"}, floors: []string{"wire"}, reason: "outside programs import the client, so nothing but the wire structs may come along with it"},
	"store":  {rooms: []string{"internal/sqlledger"}, floors: []string{"ground"}, reason: "a store keeps objects of any kind, so it can know none"},
	"api": {
		rooms:  []string{"internal/httpapi", "internal/kubeapi"},
		floors: []string{"ground", "domain", "wire"},
		reason: "an API routes, decodes and encodes; rim rooms never import each other, nor ports",
	},
	"agent": {rooms: []string{"internal/agent"}, floors: []string{"ground", "port", "wire", "client"}, reason: "an agent lives in the data plane and knows the control plane by its API alone"},
	"front": {
		rooms:  []string{"internal/cli", "internal/webui"},
		floors: []string{"wire", "client"},
		reason: "what people use goes through the same API as everybody, or the API would not be complete",
	},
	"roof":     {rooms: []string{"internal/app"}, floors: []string{"*"}, reason: ""},
	"shipped":  {rooms: []string{"offerings", "deploy/meta"}, reason: "what ships is data"},
	"entrance": {rooms: []string{"cmd"}, floors: []string{"roof", "front"}, reason: "main only turns settings into calls: what it needs belongs into app"},
	"proof":    {rooms: []string{"test"}, floors: []string{"*"}, reason: ""},
}

// wrapped are the libraries that rooms close to the core may use besides the
// standard library. Rooms on other floors choose their own.
var wrapped = map[string][]string{
	"internal/ledger":      nil,
	"internal/fault":       nil,
	"internal/reconcile":   nil,
	"internal/queue":       nil,
	"internal/graph":       nil,
	"internal/expr":        {"github.com/google/cel-go"},
	"internal/schema":      {"github.com/santhosh-tekuri/jsonschema/v6"},
	"internal/resilience":  {"github.com/failsafe-go/failsafe-go"},
	"internal/trace":       {"go.opentelemetry.io/otel"},
	"internal/manifest":    {"github.com/fluxcd/pkg/ssa", "github.com/fluxcd/cli-utils", "k8s.io", "sigs.k8s.io"},
	"internal/document":    {"github.com/goccy/go-yaml", "github.com/fsnotify/fsnotify"},
	"internal/tofu":        {"github.com/hashicorp/terraform-exec", "github.com/hashicorp/terraform-json"},
	"internal/site":        nil,
	"internal/transport":   nil,
	"internal/vault":       {"github.com/openbao/openbao/api/v2"},
	"internal/authority":   nil,
	"internal/breaker":     nil,
	"internal/access":      {"github.com/coreos/go-oidc/v3", "github.com/go-jose/go-jose/v4", "golang.org/x/crypto", "golang.org/x/time"},
	"internal/operation":   nil,
	"internal/audit":       nil,
	"internal/account":     nil,
	"internal/policy":      nil,
	"internal/offering":    nil,
	"internal/cluster":     nil,
	"internal/instance":    {"golang.org/x/sync"},
	"internal/connection":  nil,
	"internal/doctor":      nil,
	"internal/template":    nil,
	"internal/environment": {"golang.org/x/sync"},
	"api/v1":               nil,
	"api/client":           nil,
}

// sole are packages with a single user.
var sole = []struct{ pkg, user, reason string }{
	{"database/sql", "internal/sqlledger", "one room knows SQL, so that both engines stay behind one contract"},
	{"github.com/jackc/pgx", "internal/sqlledger", "one room knows PostgreSQL, so that both engines stay behind one contract"},
	{"modernc.org/sqlite", "internal/sqlledger", "one room knows SQLite, so that both engines stay behind one contract"},
	{"github.com/spf13/cobra", "internal/cli", "the command line is one room"},
	{"go.opentelemetry.io", "internal/trace", "rooms say what they do, not to whom it is told; the roof alone sets up where spans go"},
}

// banned names say nothing about what is inside.
var banned = []string{"util", "utils", "common", "shared", "helper", "helpers", "types", "models", "model", "manager", "errors", "misc", "base"}

// long lists files that may have up to 600 lines, with the reason.
var long = map[string]string{}

const (
	maxLines   = 400
	maxLong    = 600
	maxMain    = 120
	maxMethods = 5 // of an interface
)

// source is one Go file of the house.
type source struct {
	path, dir string
	test      bool
	lines     int
	file      *ast.File
}

func TestHouse(t *testing.T) {
	files := read(t)
	if len(files) < 50 {
		t.Fatalf("only %d Go files were found: the test looks in the wrong place", len(files))
	}
	docs := map[string]bool{}
	for _, f := range files {
		docs[f.dir] = docs[f.dir] || !f.test && f.file.Doc != nil
	}
	for _, f := range files {
		checkSize(t, f)
		for _, wide := range interfaces(f.file) {
			t.Errorf("%s: interface %s has more than %d methods: let each consumer declare the part that it uses", f.path, wide, maxMethods)
		}
		if f.dir == "." {
			continue
		}
		if _, floor := locate(f.dir); floor == "" {
			t.Errorf("%s: package %s is in no room of the house: give it a floor in house_test.go and HOUSE.md", f.path, f.dir)
			continue
		}
		if name := path.Base(f.dir); slices.Contains(banned, name) || slices.Contains(banned, f.file.Name.Name) {
			t.Errorf("%s: a package called %s says nothing about what is inside: name it after the noun it owns", f.path, name)
		}
		for _, spec := range f.file.Imports {
			pkg, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, complaint := range judge(f, pkg) {
				t.Error(complaint)
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(docs)) {
		if !docs[dir] && dir != "." && !onlyTests(files, dir) {
			t.Errorf("%s: package has no doc comment: say what it owns and what it must not know", dir)
		}
	}
}

func checkSize(t *testing.T, f source) {
	limit := maxLines
	if _, ok := long[f.path]; ok {
		limit = maxLong
	}
	if strings.HasPrefix(f.dir, "cmd/") {
		limit = maxMain
	}
	if f.test {
		limit = maxLong // tables are long and read one case at a time
	}
	if f.lines > limit && !ast.IsGenerated(f.file) { // nobody reads those
		t.Errorf("%s has %d lines, more than %d: split it by what it is about", f.path, f.lines, limit)
	}
}

// interfaces names those that are too wide.
func interfaces(f *ast.File) (wide []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if i, ok := spec.Type.(*ast.InterfaceType); ok && i.Methods.NumFields() > maxMethods {
				wide = append(wide, spec.Name.Name)
			}
		}
		return true
	})
	return wide
}

// judge returns what is wrong with an import, nothing if it is allowed.
func judge(f source, pkg string) (complaints []string) {
	complain := func(format string, args ...any) {
		complaints = append(complaints, f.path+" imports "+pkg+": "+fmt.Sprintf(format, args...))
	}
	room, floor := locate(f.dir)
	for _, s := range sole {
		// Tests of whatever room may look at what is really stored.
		if (pkg == s.pkg || strings.HasPrefix(pkg, s.pkg+"/")) && room != s.user && floor != "proof" && !f.test && !(floor == "roof" && s.user == "internal/trace") {
			complain("only %s may: %s", s.user, s.reason)
		}
	}
	inside, ours := strings.CutPrefix(pkg, module)
	if !ours {
		libraries, core := wrapped[room]
		foreign := strings.Contains(strings.Split(pkg, "/")[0], ".")
		chosen := slices.ContainsFunc(libraries, func(l string) bool { return pkg == l || strings.HasPrefix(pkg, l+"/") })
		if core && foreign && !chosen && !f.test && !suite(f.dir) {
			complain("%s gets by with the standard library and %v, because much stands on it", room, libraries)
		}
		return complaints
	}
	target, to := locate(inside)
	floors := house[floor].floors
	switch {
	case f.test && to != "roof":
		// A test may set its room up with what it needs; only the roof pulls in the whole house.
	case target == room || slices.Contains(floors, "*"):
	case suite(inside) && !suite(f.dir):
		complain("contract suites are for tests")
	case floor == "domain" && to == "domain":
		if order := house[floor].rooms; slices.Index(order, target) > slices.Index(order, room) {
			complain("it stands to the right (%s): declare an interface here, and let app wire it", strings.Join(order, " <- "))
		}
	case !slices.Contains(floors, to):
		complain("%s", cmp.Or(house[floor].reason, "the table does not allow it"))
	case to == "port" && target != inside:
		complain("only app chooses between the implementations of a port")
	}
	return complaints
}

// The keeper of the house is checked too: a rule that lets everything pass is none.
func TestHouseRefuses(t *testing.T) {
	for _, tc := range []struct {
		reason, file, pkg string
		refused           bool
	}{
		{"the ground knows no domain", "internal/ledger/x.go", module + "internal/instance", true},
		{"the ground knows the ground", "internal/reconcile/x.go", module + "internal/ledger", false},
		{"a domain looks left", "internal/instance/x.go", module + "internal/offering", false},
		{"and never right", "internal/offering/x.go", module + "internal/instance", true},
		{"a domain knows ports", "internal/instance/x.go", module + "internal/hook", false},
		{"but not what is behind them", "internal/instance/x.go", module + "internal/runtime/process", true},
		{"rim rooms do not meet", "internal/httpapi/x.go", module + "internal/cli", true},
		{"the command line has the client alone", "internal/cli/x.go", module + "internal/ledger", true},
		{"not even the kinds of errors", "internal/cli/x.go", module + "internal/fault", true},
		{"which it has", "internal/cli/x.go", module + "api/client", false},
		{"the agent does not know the domain", "internal/agent/x.go", module + "internal/instance", true},
		{"the agent knows its port", "internal/agent/x.go", module + "internal/runtime", false},
		{"one room knows SQL", "internal/instance/x.go", "database/sql", true},
		{"one room knows PostgreSQL", "internal/app/x.go", "github.com/jackc/pgx/v5/pgxpool", true},
		{"it does", "internal/sqlledger/x.go", "github.com/jackc/pgx/v5/pgxpool", false},
		{"rooms do not know where spans go", "internal/httpapi/x.go", "go.opentelemetry.io/otel/sdk/trace", true},
		{"the roof does", "internal/app/x.go", "go.opentelemetry.io/otel/sdk/trace", false},
		{"the wire structs bring nothing along", "api/v1/x.go", "github.com/google/uuid", true},
		{"nor does the client", "api/client/x.go", module + "internal/fault", true},
		{"nobody but main imports the roof", "internal/cli/x.go", module + "internal/app", true},
		{"not even in tests", "internal/cli/x_test.go", module + "internal/app", true},
		{"main does", "cmd/drover/main.go", module + "internal/app", false},
		{"main does nothing by itself", "cmd/drover/main.go", module + "internal/sqlledger", true},
		{"suites are for tests", "internal/instance/x.go", module + "internal/ledger/ledgertest", true},
		{"and for them", "internal/instance/x_test.go", module + "internal/ledger/ledgertest", false},
		{"the roof knows everything", "internal/app/x.go", module + "internal/runtime/process", false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := source{path: tc.file, dir: path.Dir(tc.file), test: strings.HasSuffix(tc.file, "_test.go")}
			if got := judge(f, tc.pkg); (len(got) > 0) != tc.refused {
				t.Errorf("%s importing %s: got %q, refused should be %v", tc.file, tc.pkg, got, tc.refused)
			}
		})
	}
}

func TestHouseRefusesWideInterfaces(t *testing.T) {
	const code = "package p; type narrow interface { A(); B(); C(); D(); E() }; type wide interface { narrow; A(); B(); C(); D(); F() }"
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", code, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if got := interfaces(file); !slices.Equal(got, []string{"wide"}) {
		t.Errorf("too wide are %v", got)
	}
}

// suite reports whether a package is a contract suite: ledger/ledgertest.
func suite(dir string) bool { return strings.HasSuffix(dir, "test") && path.Dir(dir) != "." }

// locate returns the room of a directory and its floor.
func locate(dir string) (room, floor string) {
	for name, l := range house {
		for _, r := range l.rooms {
			if (dir == r || strings.HasPrefix(dir, r+"/")) && len(r) > len(room) {
				room, floor = r, name
			}
		}
	}
	return room, floor
}

func onlyTests(files []source, dir string) bool {
	return !slices.ContainsFunc(files, func(f source) bool { return f.dir == dir && !f.test })
}

// read parses every Go file, those of other systems included.
func read(t *testing.T) []source {
	t.Helper()
	var out []source
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			// tools is a module of its own.
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin" || name == "tools") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(set, name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(name)
		out = append(out, source{
			path: slashed, dir: path.Dir(slashed), test: strings.HasSuffix(base, "_test.go"),
			lines: strings.Count(string(data), "\n"), file: file,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
