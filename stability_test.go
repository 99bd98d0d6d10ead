package drover_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var shownBy = regexp.MustCompile("`([a-z0-9_/]+_test\\.go):([A-Za-z0-9_]+)`")

// What is promised of bad days is a table, and each row of it a test that exists.
func TestStabilityPage(t *testing.T) {
	page, err := os.ReadFile("docs/stability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "## The table")
	table, _, ended := strings.Cut(table, "\n## ")
	if !found || !ended {
		t.Fatal("the page has no table any more")
	}
	seen := map[string]bool{}
	for _, row := range strings.Split(table, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) < 3 || !strings.HasPrefix(cells[1], " **") {
			continue
		}
		subject := strings.Trim(strings.Split(cells[1], "(")[0], " *")
		seen[subject] = true
		if len(cells) != 9 {
			t.Errorf("%s: the row has %d cells, not 7", subject, len(cells)-2)
			continue
		}
		tests := shownBy.FindAllStringSubmatch(cells[7], -1)
		if len(tests) == 0 {
			t.Errorf("%s: no test shows it", subject)
		}
		for _, test := range tests {
			if why := runs(test[1], test[2]); why != "" {
				t.Errorf("%s: %s", subject, why)
			}
		}
	}
	for _, subject := range []string{"database", "broker", "SSO", "DNS", "Git", "OpenTofu", "Consul", "Vault", "Prometheus", "agent"} {
		if !seen[subject] {
			t.Errorf("nothing says what happens if the %s is down", subject)
		}
	}
}

// runs tells why a function of a file is no test, empty if it is one: it is what
// `go test` runs, or it is in a list that a test goes through.
func runs(path, name string) string {
	all, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*_test.go"))
	if err != nil || !slices.Contains(all, path) {
		return "there is no " + path
	}
	there, listed, walked := false, map[string]bool{}, map[string]bool{}
	for _, file := range all {
		code, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err.Error()
		}
		for _, d := range code.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				there = there || file == path && d.Name.Name == name && (d.Recv == nil || !strings.HasPrefix(name, "Test"))
				ast.Inspect(d, func(n ast.Node) bool {
					if r, ok := n.(*ast.RangeStmt); ok {
						if over, ok := r.X.(*ast.Ident); ok {
							walked[over.Name] = true
						}
					}
					return true
				})
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && mentions(v.Values, name) {
						listed[v.Names[0].Name] = true
					}
				}
			}
		}
	}
	switch {
	case !there:
		return "there is no " + name + " in " + path
	case strings.HasPrefix(name, "Test"):
		return ""
	}
	for list := range listed {
		if walked[list] {
			return ""
		}
	}
	return name + " of " + path + " is no test, and in no list that one goes through"
}

func mentions(values []ast.Expr, name string) (found bool) {
	for _, v := range values {
		ast.Inspect(v, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && id.Name == name
			return true
		})
	}
	return found
}

func TestRuns(t *testing.T) {
	for _, c := range []struct {
		reason, path, name string
		good               bool
	}{
		{"go test runs it", "stability_test.go", "TestRuns", true},
		{"a list does", "test/gitops/badday_test.go", "gitAway", true},
		{"a helper runs by no name", "stability_test.go", "mentions", false},
		{"it was there once", "stability_test.go", "TestNothing", false},
		{"it is elsewhere", "house_test.go", "TestRuns", false},
		{"a file that is no test's", "test/gitops/doc.go", "gitAway", false},
	} {
		if why := runs(c.path, c.name); (why == "") != c.good {
			t.Errorf("%s: %s of %s: %q", c.reason, c.name, c.path, why)
		}
	}
}
