package drover_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Who is woken at night searches the page for what the program has printed.
func TestTheNightPageQuotesTheProgram(t *testing.T) {
	page, err := os.ReadFile("docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## At 3 a.m.")
	table, _, _ = strings.Cut(table, "\n## ")
	quotes := regexp.MustCompile(`"([^"|]+)"`).FindAllStringSubmatch(table, -1)
	if len(quotes) < 5 {
		t.Fatalf("the table quotes %d messages: was it moved?", len(quotes))
	}
	texts := strings.Join(sourceTexts(t), "\n")
	for _, quote := range quotes {
		// Three dots stand for what the program fills in.
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(quote[1], " ...")), `\.\.\.`, `%[a-z]`)
		if !regexp.MustCompile(pattern).MatchString(texts) {
			t.Errorf("the program never says %q", quote[1])
		}
	}
}

// sourceTexts are the texts in the program's source, without its tests.
func sourceTexts(t *testing.T) (texts []string) {
	t.Helper()
	err := filepath.WalkDir("internal", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					texts = append(texts, text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
