package e2e

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
)

// audited holds what an auditor sees of hostile messages against what was sent.
func (b *broker) audited(t *testing.T) {
	t.Helper()
	by := map[int]int{}
	rejected := map[string]v1.AuditRecord{}
	out := ""
	drover.Until(t, "all that was refused to be on record", func() bool { // its sender hears of it first
		out = goes(t, b.s, "audit", "--outcome", "refused", "-o", "jsonl")
		return strings.Count(out, `"COMMAND `) >= 10
	})
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		var r v1.AuditRecord
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(r.Call, "COMMAND "):
			if by[r.Status]++; r.Actor != "bus" {
				t.Errorf("a message that nobody may send is on record as %+v", r)
			}
		case r.Kind == "command":
			rejected[r.Name] = r
		}
		if r.From != "bus" {
			t.Errorf("of a message it is not known that it was one: %+v", r)
		}
	}
	if by[401] != 2 || by[400] != 8 || len(by) != 2 { // one of the eight twice
		t.Errorf("refused are %v", by)
	}
	for name, who := range map[string]string{"steal": "mallory", "odd": "alice"} {
		if r := rejected[name]; r.Actor != who || r.Verb != "rejected" || r.Request == "" || !strings.Contains(b.s.Log(), "request="+r.Request) {
			t.Errorf("%s is on record as %+v", name, r)
		}
	}
	if len(rejected) != 2 || !strings.Contains(goes(t, b.s, "audit", "--kind", "command", "--outcome", "refused"), "command/odd") {
		t.Errorf("commands that were refused are %v", rejected)
	}
}
