package httpapi_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/httpapi"
)

// TestCompatibilityTable keeps docs/compatibility.md honest: the tests that it
// names exist, and it forgets no public operation, no code and no field.
func TestCompatibilityTable(t *testing.T) {
	data, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	files, err := filepath.Glob("../*api/*_test.go") // of this room, and of custom resources
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(source), -1) {
			known = append(known, m[1])
		}
	}
	for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(page, -1) {
		if !slices.Contains(known, m[1]) {
			t.Errorf("the page names %s, which is no test here", m[1])
		}
	}
	for _, operations := range contract {
		for line := range strings.SplitSeq(strings.TrimSpace(operations), "\n") {
			verb, path, _ := strings.Cut(line, " ")
			outside := regexp.MustCompile("/(admin|agent-clusters|obs-proxy-verification)").MatchString(path)
			if !outside && !strings.Contains(page, "| "+verb+" | `/"+path+"` |") {
				t.Errorf("the page does not have %s", line)
			}
		}
	}
	for code := range httpapi.Codes() {
		if !strings.Contains(page, "\n| "+strconv.Itoa(code)+" | ") {
			t.Errorf("the page does not have code %d", code)
		}
	}
	for field := range wireTypes {
		if !strings.Contains(page, "`"+field+"`") {
			t.Errorf("the page does not have field %s", field)
		}
	}
	for _, m := range regexp.MustCompile(`\bD\d+\b`).FindAllString(page, -1) {
		if !strings.Contains(page, "- **"+m+"** ") {
			t.Errorf("deviation %s is not explained", m)
		}
	}
}
