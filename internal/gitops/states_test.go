package gitops_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
)

var update = flag.Bool("update", false, "write this room's part of docs/states.md anew from the table of transitions")

const (
	statesFile = "../../docs/states.md"
	statesHead = "\n# States of a deployment\n"
)

// The page's part is drawn from the table, so it cannot tell anything else.
func TestStatesPageIsDrawnFromTheTable(t *testing.T) {
	raw, err := os.ReadFile(statesFile)
	if err != nil {
		t.Fatal(err)
	}
	others, got, _ := strings.Cut(string(raw), statesHead)
	want := drawStates()
	if *update {
		if err := os.WriteFile(statesFile, []byte(others+statesHead+want), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/states.md is not what the table says; run `go test ./internal/gitops -run States -update`:\n%s", diff)
	}
}

func drawStates() string {
	var sb strings.Builder
	sb.WriteString("\nDrawn from the table of transitions in `internal/gitops/states.go`; a test keeps the two alike.\n[gitops.md](gitops.md) tells the rest.\n")
	for i, kind := range []string{"deployment", "syncrun"} {
		if i > 0 {
			sb.WriteString("\n# States of a sync run\n")
		}
		sb.WriteString("\n```mermaid\nstateDiagram-v2\n")
		for _, tr := range gitops.Transitions {
			if from := tr.From; tr.Kind == kind {
				if from == "" {
					from = "[*]"
				}
				fmt.Fprintf(&sb, "    %s --> %s: %s\n", from, tr.To, tr.Who)
			}
		}
		sb.WriteString("```\n\n| from | to | who | when |\n|---|---|---|---|\n")
		for _, tr := range gitops.Transitions {
			if tr.Kind == kind {
				fmt.Fprintf(&sb, "| %s | %s | %s | %s |\n", tr.From, tr.To, tr.Who, tr.When)
			}
		}
	}
	return sb.String()
}

// moves checks that everything in the log went a way that the table has.
func (y *yard) moves() {
	y.t.Helper()
	known := map[[3]string]bool{}
	for _, tr := range gitops.Transitions {
		known[[3]string{tr.Kind, tr.From, tr.To}] = true
	}
	was := map[ledger.Ref]string{}
	for after := int64(0); ; {
		changes, err := y.store.Changes(context.Background(), ledger.ChangeQuery{After: after, Limit: 1000})
		y.must(err)
		if len(changes) == 0 {
			return
		}
		for _, c := range changes {
			after = c.Seq
			kind, from, to := c.Object.Kind, was[c.Object.Ref], c.Object.Phase
			if (kind == "deployment" || kind == "syncrun") && from != to && !known[[3]string{kind, from, to}] {
				y.t.Errorf("%s went from %q to %q (%s), which the table does not have", c.Object.Ref, from, to, c.Op)
			}
			was[c.Object.Ref] = to
		}
	}
}
