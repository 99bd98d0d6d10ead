package instance_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
)

var update = flag.Bool("update", false, "write docs/states.md anew from the table of transitions")

const (
	statesFile = "../../docs/states.md"
	othersHead = "\n# States of an environment\n"
)

// The page is drawn from the table, so it cannot tell anything else.
func TestStatesPageIsDrawnFromTheTable(t *testing.T) {
	want := drawStates()
	raw, err := os.ReadFile(statesFile)
	if err != nil {
		t.Fatal(err)
	}
	got, theirs, _ := strings.Cut(string(raw), othersHead) // what follows is kept by that room
	if *update {
		if err := os.WriteFile(statesFile, []byte(want+othersHead+theirs), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/states.md is not what the table says; run `go test ./internal/instance -run States -update`:\n%s", diff)
	}
}

func drawStates() string {
	var sb strings.Builder
	sb.WriteString(`# States of an instance

Drawn from the table of transitions in ` + "`internal/instance/instance.go`" + `; a test keeps the two alike.
A deletion is soft: the last phase is ` + "`deleting`" + `, and ` + "`deleted_at`" + ` is set when everything the instance held was given back.

` + "```mermaid\nstateDiagram-v2\n    [*] --> accepted: user\n")
	for _, tr := range instance.Transitions {
		fmt.Fprintf(&sb, "    %s --> %s: %s\n", tr.From, tr.To, tr.Who)
	}
	sb.WriteString("    deleting --> [*]: worker\n```\n\n| from | to | who | when |\n|---|---|---|---|\n")
	for _, tr := range instance.Transitions {
		fmt.Fprintf(&sb, "| %s | %s | %s | %s |\n", tr.From, tr.To, tr.Who, tr.When)
	}
	sb.WriteString(`
# States of a cluster

Drawn from the table of transitions in ` + "`internal/cluster/cluster.go`" + `; the same test keeps the two alike.
A cluster that is there already, and that only its agent reaches, begins in ` + "`cluster_provisioned`" + `, or in
` + "`waiting_for_fleetshard_operator`" + ` where no steps are to be applied. [clusters.md](clusters.md) tells the rest.

` + "```mermaid\nstateDiagram-v2\n    [*] --> cluster_accepted: user\n    [*] --> cluster_provisioned: user\n    [*] --> waiting_for_fleetshard_operator: user\n")
	for _, tr := range cluster.Transitions {
		fmt.Fprintf(&sb, "    %s --> %s: %s\n", tr.From, tr.To, tr.Who)
	}
	sb.WriteString("    cleanup --> [*]: worker\n```\n\n| from | to | who | when |\n|---|---|---|---|\n")
	for _, tr := range cluster.Transitions {
		fmt.Fprintf(&sb, "| %s | %s | %s | %s |\n", tr.From, tr.To, tr.Who, tr.When)
	}
	return sb.String()
}

// Lists are indexed by what users list by: whatever else stood there would take
// the order out of the index.
func TestListsAreIndexedByWhatUsersListBy(t *testing.T) {
	if diff := cmp.Diff([]string{"offering", "org"}, instance.Kind.Scope); diff != "" {
		t.Error(diff)
	}
}
