package drover_test

import (
	"cmp"
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
	extra  []string // rooms or packages beyond that
	reason string
}

// house is the table of who may import whom. A package that is in no room fails:
// decide on its floor first.
var house = map[string]layer{
	"ground": {
		rooms:  []string{"internal/fault", "internal/ledger", "internal/reconcile", "internal/graph", "internal/expr", "internal/schema", "internal/resilience"},
		floors: []string{"ground"},
		reason: "the ground carries every room, so it can know none of them",
	},
	"port": {
		rooms:  []string{"internal/executor", "internal/entitlement", "internal/certificate", "internal/provider", "internal/runtime", "internal/hook", "internal/dns", "internal/sso", "internal/bus", "internal/source"},
		floors: []string{"ground"},
		reason: "a port is a contract: what is behind it and who uses it are both strangers to it",
	},
	"domain": {
		rooms:  []string{"internal/access", "internal/operation", "internal/offering", "internal/cluster", "internal/instance", "internal/environment", "internal/gitops"},
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
	"shipped":  {rooms: []string{"offerings"}, reason: "offerings are data"},
	"entrance": {rooms: []string{"cmd"}, floors: []string{"roof", "front"}, reason: "main only turns settings into calls: what it needs belongs into app"},
	"proof":    {rooms: []string{"test"}, floors: []string{"*"}, reason: ""},
}

// wrapped are the libraries that rooms close to the core may use besides the
// standard library. Rooms on other floors choose their own.
var wrapped = map[string][]string{
	"internal/ledger":     nil,
	"internal/fault":      nil,
	"internal/reconcile":  nil,
	"internal/graph":      nil,
	"internal/expr":       {"github.com/google/cel-go"},
	"internal/schema":     {"github.com/santhosh-tekuri/jsonschema/v6"},
	"internal/resilience": {"github.com/failsafe-go/failsafe-go"},
	"internal/access":     {"github.com/coreos/go-oidc/v3", "github.com/go-jose/go-jose/v4", "golang.org/x/time", "golang.org/x/sync", "golang.org/x/oauth2"},
	"internal/operation":  nil,
	"internal/offering":   {"github.com/goccy/go-yaml", "github.com/fsnotify/fsnotify"},
	"internal/cluster":    nil,
	"internal/instance":   {"golang.org/x/sync"},
	"api/v1":              nil,
	"api/client":          nil,
}

// sole are packages with a single user.
var sole = []struct{ pkg, user, reason string }{
	{"database/sql", "internal/sqlledger", "one room knows SQL, so that both engines stay behind one contract"},
	{"github.com/jackc/pgx", "internal/sqlledger", "one room knows PostgreSQL, so that both engines stay behind one contract"},
	{"modernc.org/sqlite", "internal/sqlledger", "one room knows SQLite, so that both engines stay behind one contract"},
	{"github.com/spf13/cobra", "internal/cli", "the command line is one room"},
}

// banned names say nothing about what is inside.
var banned = []string{"util", "utils", "common", "shared", "helper", "helpers", "types", "models", "model", "manager", "errors", "misc", "base"}

// long lists files that may have up to 600 lines, with the reason.
var long = map[string]string{}

const (
	maxLines = 400
	maxLong  = 600
	maxMain  = 120
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
		if f.dir == "." {
			continue
		}
		room, floor := locate(f.dir)
		if floor == "" {
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
			checkImport(t, f, room, floor, pkg)
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
	if f.lines > limit {
		t.Errorf("%s has %d lines, more than %d: split it by what it is about", f.path, f.lines, limit)
	}
}

func checkImport(t *testing.T, f source, room, floor, pkg string) {
	for _, s := range sole {
		// Tests of whatever room may look at what is really stored.
		if (pkg == s.pkg || strings.HasPrefix(pkg, s.pkg+"/")) && room != s.user && floor != "proof" && !f.test {
			t.Errorf("%s imports %s, which only %s may: %s", f.path, pkg, s.user, s.reason)
		}
	}
	inside, ours := strings.CutPrefix(pkg, module)
	if !ours {
		libraries, core := wrapped[room]
		if core && !f.test && !suite(f.dir) && strings.Contains(strings.Split(pkg, "/")[0], ".") &&
			!slices.ContainsFunc(libraries, func(l string) bool { return pkg == l || strings.HasPrefix(pkg, l+"/") }) {
			t.Errorf("%s imports %s: %s gets by with the standard library and %v, because everything stands on it", f.path, pkg, room, libraries)
		}
		return
	}
	target, to := locate(inside)
	switch {
	case f.test && to != "roof":
		return // a test may set its room up with what it needs; only the roof pulls in the whole house
	case target == room || floor == "proof" || house[floor].floors != nil && house[floor].floors[0] == "*":
		return
	case suite(inside) && !f.test && !suite(f.dir):
		t.Errorf("%s imports %s: contract suites are for tests", f.path, inside)
		return
	case floor == "domain" && to == "domain":
		order := house[floor].rooms
		if slices.Index(order, target) > slices.Index(order, room) {
			t.Errorf("%s imports %s, which stands to its right (%s): declare an interface here, and let app wire it", f.path, inside, strings.Join(order, " <- "))
		}
		return
	case !slices.Contains(house[floor].floors, to) && !slices.Contains(house[floor].extra, target):
		t.Errorf("%s imports %s: %s", f.path, inside, cmp.Or(house[floor].reason, "the table does not allow it"))
		return
	case to == "port" && target != inside && !suite(inside):
		t.Errorf("%s imports %s: only app chooses between the implementations of a port", f.path, inside)
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

// read parses the head of every Go file, those of other systems included.
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
		file, err := parser.ParseFile(set, name, data, parser.ImportsOnly|parser.ParseComments)
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
