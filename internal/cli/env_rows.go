package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// ofTemplates are the columns of what environments are made of and consist of, by
// kind; nil: it is another kind.
func (c *CLI) ofTemplates(kind string) []column {
	field := func(head, name string) column {
		return column{head, false, func(o v1.Object) string { return fieldText(o.Fields[name]) }}
	}
	tags := column{"TAGS", false, func(o v1.Object) string { return strings.Trim(fieldText(o.Fields["tags"]), ",") }}
	phase := column{"PHASE", false, phaseOf}
	switch kind {
	case "environment":
		env := func(head string, pick func(envState) string) column {
			return column{head, false, func(o v1.Object) string { return pick(envOf(o)) }}
		}
		return []column{phase,
			env("READY", envState.ready),
			env("DRIFTED", func(s envState) string { return worth(s.Status.Counts.Drifted) }),
			env("TEMPLATE", func(s envState) string { return s.Spec.Version }), tags,
			env("ENDS", func(s envState) string { return c.ends(s.Spec.Ends) })}
	case "resource":
		return []column{field("ENVIRONMENT", "environment"), phase, field("EXECUTOR", "executor"), tags,
			{"DRIFTED", false, func(o v1.Object) string {
				if o.Fields["drifted"] == true {
					return "yes"
				}
				return ""
			}}, {"TEMPLATE", true, func(o v1.Object) string { return fieldText(o.Fields["template"]) }}}
	case "template":
		about := func(head string, pick func(summary) string) column {
			return column{head, false, func(o v1.Object) string { return pick(summaryOf(o)) }}
		}
		return []column{field("VERSION", "version"), about("COMMIT", summary.commit), tags, about("DESCRIPTION", func(s summary) string { return s.Description })}
	case "templateversion":
		return []column{{"COMMIT", false, func(o v1.Object) string { return summaryOf(o).commit() }},
			{"SOURCE", false, func(o v1.Object) string { return summaryOf(o).Source }}}
	case "plan":
		return []column{{"PLAN", false, func(o v1.Object) string { return first12(fieldText(o.Fields["hash"])) }}, phase,
			{"TEMPLATE", false, func(o v1.Object) string {
				var spec struct{ Version string }
				_ = json.Unmarshal(o.Spec, &spec)
				return spec.Version
			}}}
	case "drift":
		return []column{field("ADDRESS", "address"), phase, {"WHAT", false, func(o v1.Object) string { return driftOf(o).What }}, {"BY", false, func(o v1.Object) string { return driftOf(o).By }}}
	}
	return nil
}

// worth is a number that is worth a look.
func worth(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func first12(s string) string { return s[:min(12, len(s))] }

// ready is how many resources are, of all.
func (s envState) ready() string {
	if s.Status.Counts.Total == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Status.Counts.Ready, s.Status.Counts.Total)
}

// ends says how long something still lives.
func (c *CLI) ends(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	left := at.Sub(c.now())
	if left <= 0 {
		return "now"
	}
	return "in " + age(left)
}

// summary is what the client reads of a template or its version.
type summary struct {
	ID, Version, Commit, Source, Author, Description string
	Resources, Executors, Outputs, Actions           []string
	Parameters                                       struct {
		Properties map[string]struct {
			Description string
			Type        any
			Default     json.RawMessage
			Enum        []json.RawMessage
		}
		Required []string
	}
}

func summaryOf(o v1.Object) summary {
	var s summary
	// What cannot be read is left out: the object is shown all the same.
	_ = json.Unmarshal(o.Spec, &s)
	return s
}

// commit in the length that ids have; of a directory its digest.
func (s summary) commit() string { return shortCommit(s.Commit) }

func shortCommit(commit string) string { return first12(strings.TrimPrefix(commit, "dir-")) }

type driftState struct {
	Address, What, By string
	First             time.Time
	Fields            []v1.Difference
}

func driftOf(o v1.Object) driftState {
	var s driftState
	_ = json.Unmarshal(o.Spec, &s)
	return s
}

func (c *CLI) envFacts(o v1.Object) [][2]string {
	s := envOf(o)
	out := [][2]string{
		{"About", s.Spec.Description}, {"Template", s.Spec.Version}, {"Tags", strings.Join(s.Spec.Tags, " ")},
		{"Ready", s.ready()}, {"Drifted", worth(s.Status.Counts.Drifted)},
	}
	if !s.Spec.Ends.IsZero() {
		out = append(out, [2]string{"Ends", s.Spec.Ends.Local().Format(time.RFC3339) + " (" + c.ends(s.Spec.Ends) + "; `drover env extend` moves it)"})
	}
	if s.Spec.Protected {
		out = append(out, [2]string{"Protected", "yes: nobody and no date destroys it"})
	}
	for _, e := range s.Status.Entries {
		out = append(out, [2]string{"Entry", strings.TrimSpace(e.Name + " " + e.URL + " " + wellness(e.OK, e.Message))})
	}
	return out
}

func wellness(ok *bool, message string) string {
	switch {
	case ok == nil:
		return message
	case *ok:
		return "(well)"
	}
	return strings.TrimSpace("(not well: "+message) + ")"
}

// envSections are what an environment waits for, was given, and consists of.
func (c *CLI) envSections(ctx context.Context, s *session, o v1.Object) error {
	st := envOf(o)
	if next := st.Spec.Next; next != nil && o.Deleted == nil {
		if p, err := s.Plan(ctx, next.Plan); err == nil { // without it there is the rest to tell
			c.waiting(p)
		}
	}
	if len(st.Spec.Parameters) > 0 {
		c.printf("\nParameters:\n")
		t := &table{head: []string{"  NAME", "VALUE"}}
		for _, name := range slices.Sorted(maps.Keys(st.Spec.Parameters)) {
			value, err := json.Marshal(st.Spec.Parameters[name])
			if err != nil {
				return err
			}
			t.add("  "+name, brief(value))
		}
		if err := t.write(c.cfg.Out); err != nil {
			return err
		}
	}
	if len(st.Status.Groups) > 0 {
		c.printf("\nGroups:\n")
		t := &table{head: []string{"  GROUP", "STATUS", "TEMPLATE"}}
		for _, g := range st.Status.Groups {
			t.add("  "+g.Address, g.Status, g.Template)
		}
		if err := t.write(c.cfg.Out); err != nil {
			return err
		}
	}
	if len(st.Status.Checks) > 0 {
		c.printf("\nChecks:\n")
		t := &table{head: []string{"  CHECK", "OF", "URL", "STATE"}}
		for _, check := range st.Status.Checks {
			t.add("  "+check.Name, check.Of, check.URL, cmp.Or(wellness(check.OK, check.Message), "(not decided yet)"))
		}
		if err := t.write(c.cfg.Out); err != nil {
			return err
		}
	}
	if o.Deleted != nil {
		return nil
	}
	g, err := s.Graph(ctx, o.ID)
	if err != nil || len(g.Nodes) == 0 {
		return err
	}
	c.printf("\nResources:\n")
	if err := c.graphTable(g, "  "); err != nil {
		return err
	}
	return c.linkTable(g)
}

// waiting tells of the plan that is next, where that is not carried out at once.
func (c *CLI) waiting(p v1.Plan) {
	what := "a change"
	if p.Destroy {
		what = "its destruction"
	}
	switch p.Phase {
	case "approval":
		c.printf("\nWaiting:\n  %s: %s\n", what, clean(p.Message, false))
	case "planning":
		c.printf("\nWaiting:\n  %s is being planned\n", what)
	}
}

// linkTable lists where resources lead on to.
func (c *CLI) linkTable(g v1.Graph) error {
	t := table{head: []string{"  RESOURCE", "LINK", "URL"}}
	for _, n := range g.Nodes {
		for _, l := range n.Links {
			t.add("  "+n.Address, l.Rel, l.URL)
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	c.printf("\nLinks:\n")
	return t.write(c.cfg.Out)
}

// graphTable lists the resources of a graph with what each needs.
func (c *CLI) graphTable(g v1.Graph, by string) error {
	t := table{head: []string{by + "RESOURCE", "EXECUTOR", "PHASE", "NEEDS", "MESSAGE"}}
	t.paint = func(column int, text string) string {
		if column == 2 {
			return c.phase(text)
		}
		return text
	}
	for _, n := range g.Nodes {
		executor, phase := n.Executor, n.Phase
		if n.External {
			executor, phase = "-", "outside"
		}
		if n.Drifted {
			phase += ", drifted"
		}
		t.add(by+n.Address, executor, phase, strings.Join(n.Needs, " "), n.Message)
	}
	return t.write(c.cfg.Out)
}

// templateFacts tell how a template is used, before its document.
func templateFacts(o v1.Object) [][2]string {
	s := summaryOf(o)
	out := [][2]string{{"About", s.Description}, {"Version", s.Version}, {"Commit", s.commit()}, {"Source", s.Source}, {"Author", s.Author}}
	use := "drover env create NAME --template " + label(o)
	for _, name := range slices.Sorted(maps.Keys(s.Parameters.Properties)) {
		p := s.Parameters.Properties[name]
		text := name
		switch {
		case len(p.Enum) > 0:
			var values []string
			for _, v := range p.Enum {
				values = append(values, brief(v))
			}
			text += ": " + strings.Join(values, " or ")
		case p.Type != nil:
			text += ": " + fmt.Sprint(p.Type)
		}
		if p.Default != nil {
			text += " [" + brief(p.Default) + "]"
		}
		if p.Description != "" {
			text += ", " + p.Description
		}
		out = append(out, [2]string{"Parameter", text})
		if slices.Contains(s.Parameters.Required, name) {
			use += " --set " + name + "=…"
		}
	}
	return append(out, [2]string{"Resources", strings.Join(s.Resources, " ")}, [2]string{"Executors", strings.Join(s.Executors, " ")},
		[2]string{"Outputs", strings.Join(s.Outputs, " ")}, [2]string{"Actions", strings.Join(s.Actions, " ")}, [2]string{"Use", use + " --wait"})
}
