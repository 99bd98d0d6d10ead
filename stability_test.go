package drover_test

import (
	"os"
	"regexp"
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
			code, err := os.ReadFile(test[1])
			if err != nil || !strings.Contains(string(code), "\nfunc "+test[2]+"(") {
				t.Errorf("%s: there is no %s in %s", subject, test[2], test[1])
			}
		}
	}
	for _, subject := range []string{"database", "broker", "SSO", "DNS", "Git", "OpenTofu", "Consul", "Vault", "Prometheus", "agent"} {
		if !seen[subject] {
			t.Errorf("nothing says what happens if the %s is down", subject)
		}
	}
}
