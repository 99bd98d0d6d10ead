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

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	notSlug = regexp.MustCompile(`[^\w\- ]`)
)

// A link of a page leads to a file that is there, and to a heading of it.
func TestLinksLeadSomewhere(t *testing.T) {
	pages := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir("docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(l[1], "://") || strings.HasPrefix(l[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(l[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s leads to %s, which is not there", page, l[1])
				continue
			}
			if anchor != "" && !hasHeading(t, target, anchor) {
				t.Errorf("%s leads to %s, but there is no such heading", page, l[1])
			}
		}
	}
}

func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range heading.FindAllStringSubmatch(string(text), -1) {
		if strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}
