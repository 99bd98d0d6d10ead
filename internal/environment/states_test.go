package environment_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/ledger"
)

var update = flag.Bool("update", false, "write this room's part of docs/states.md anew from the table of transitions")

const (
	statesFile = "../../docs/states.md"
	statesHead = "\n# States of an environment\n"
	othersHead = "\n# States of a deployment\n"
)

// The page's part is drawn from the table, so it cannot tell anything else.
func TestStatesPageIsDrawnFromTheTable(t *testing.T) {
	raw, err := os.ReadFile(statesFile)
	if err != nil {
		t.Fatal(err)
	}
	others, got, _ := strings.Cut(string(raw), statesHead)
	got, theirs, more := strings.Cut(got, othersHead) // what follows is kept by that room
	want := drawStates()
	if *update {
		if more {
			theirs = othersHead + theirs
		}
		if err := os.WriteFile(statesFile, []byte(others+statesHead+want+theirs), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/states.md is not what the table says; run `go test ./internal/environment -run States -update`:\n%s", diff)
	}
}

func drawStates() string {
	var sb strings.Builder
	sb.WriteString("\nDrawn from the table of transitions in `internal/environment/states.go`; a test keeps the two alike.\n[environments.md](environments.md) tells the rest.\n")
	for i, kind := range []string{"environment", "resource", "plan", "drift"} {
		if i > 0 {
			title := map[string]string{"resource": "a resource", "plan": "a plan", "drift": "a record of drift"}[kind]
			fmt.Fprintf(&sb, "\n# States of %s\n", title)
		}
		sb.WriteString("\n```mermaid\nstateDiagram-v2\n")
		name := func(phase string) string { return strings.ReplaceAll(phase, "-", "_") }
		aliased := map[string]bool{}
		for _, tr := range environment.Transitions {
			if phase := tr.To; tr.Kind == kind && strings.Contains(phase, "-") && !aliased[phase] {
				aliased[phase] = true
				fmt.Fprintf(&sb, "    state \"%s\" as %s\n", phase, name(phase))
			}
		}
		for _, tr := range environment.Transitions {
			if from := name(tr.From); tr.Kind == kind {
				if from == "" {
					from = "[*]"
				}
				fmt.Fprintf(&sb, "    %s --> %s: %s\n", from, name(tr.To), tr.Who)
			}
		}
		sb.WriteString("```\n\n| from | to | who | when |\n|---|---|---|---|\n")
		for _, tr := range environment.Transitions {
			if tr.Kind == kind {
				fmt.Fprintf(&sb, "| %s | %s | %s | %s |\n", tr.From, tr.To, tr.Who, tr.When)
			}
		}
	}
	return sb.String()
}

// moves checks that everything in the log went a way that the table has.
func (w *world) moves() {
	w.t.Helper()
	known := map[[3]string]bool{}
	for _, tr := range environment.Transitions {
		known[[3]string{tr.Kind, tr.From, tr.To}] = true
	}
	was := map[ledger.Ref]string{}
	for after := w.since; ; {
		changes, err := w.store.Changes(context.Background(), ledger.ChangeQuery{After: after, Limit: 1000})
		w.must(err)
		if len(changes) == 0 {
			return
		}
		for _, c := range changes {
			after = c.Seq
			switch kind, from, to := c.Object.Kind, was[c.Object.Ref], c.Object.Phase; kind {
			case "environment", "resource", "plan", "drift":
				if from != to && !known[[3]string{kind, from, to}] {
					w.t.Fatalf("%s went from %q to %q (%s), which the table does not have", c.Object.Ref, from, to, c.Op)
				}
				was[c.Object.Ref] = to
			}
		}
	}
}

// Lives of all kinds only go the table's ways.
func TestTransitions(t *testing.T) {
	w, g := plant(t)
	w.add("1", drifting(map[string]string{"db": "correct"}, "db", "web<db"))
	e := w.up("staging", nil)
	g.spoil(w.resources(e.ID)["db"])
	g.spoil(w.resources(e.ID)["web"])
	e = w.look(e)
	_, _, err := w.s.Change(alice, environment.PlanOrder{Environment: e.ID, Parameters: map[string]any{"size": "large"}})
	w.must(err)
	w.work(time.Minute)
	g.trouble["db"] = "broken"
	g.spoil(w.resources(e.ID)["db"])
	w.look(w.env(e.ID))
	w.work(time.Minute)
	if e = w.env(e.ID); e.Phase != environment.Fail {
		t.Fatalf("a correction has failed, and it is %s", e.Phase)
	}
	clear(g.trouble)
	_, _, err = w.s.Retry(alice, e.ID)
	w.must(err)
	w.work(time.Minute)
	if e = w.env(e.ID); e.Phase != environment.OK {
		t.Fatalf("it was tried again, and is %s %s", e.Phase, e.Status.Message)
	}
	g.slow = map[string]int{"web": 3}
	_, _, err = w.s.Change(alice, environment.PlanOrder{Environment: e.ID, Parameters: map[string]any{"size": "small"}})
	w.must(err)
	w.work(time.Second)
	_, _, err = w.s.Destroy(alice, e.ID, "")
	w.must(err)
	w.work(time.Minute)
	if e = w.env(e.ID); e.Phase != environment.Destroyed {
		t.Fatal(e.Phase)
	}
	w.moves()
}
