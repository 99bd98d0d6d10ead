package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) describeCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "describe RESOURCE NAME...",
		Short: "Who, when, why: a thing with its whole history",
		Example: `  drover describe dinosaur rex
  drover describe dinosaur rex --at 4711      # as it was after that sequence of the log
  drover describe dinosaur rex -o json`,
		Args:              arguments(1, -1),
		ValidArgsFunction: c.complete(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			word, names, err := targets(args)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return usagef("which one? `drover get %s` lists them", word)
			}
			s, r, err := c.reach(cmd, word)
			if err != nil {
				return err
			}
			var missing []error
			for i, name := range names {
				o, history, err := s.story(ctx, r, name, at)
				var lost *notFoundError
				if errors.As(err, &lost) {
					missing = append(missing, err)
					continue
				}
				if err != nil {
					return err
				}
				if format := output(cmd); format == "json" || format == "yaml" {
					err = c.print(format, map[string]any{"object": o, "history": history})
				} else {
					if i > 0 {
						c.printf("\n")
					}
					err = c.describe(ctx, s, r, o, history)
				}
				if err != nil {
					return err
				}
			}
			return errors.Join(missing...)
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "as it was at a time (RFC 3339) or sequence of the log")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

// story reads an object and its history up to then. What is deleted has a
// history still.
func (s *session) story(ctx context.Context, r v1.Resource, name, at string) (v1.Object, []v1.Change, error) {
	o, err := s.find(ctx, r, name, at)
	var lost *notFoundError
	if errors.As(err, &lost) && at == "" {
		if past, historyErr := s.History(ctx, r.Name, name); historyErr == nil && len(past) > 0 {
			return past[len(past)-1].Object, past, nil
		}
	}
	if err != nil {
		return o, nil, err
	}
	history, err := s.History(ctx, r.Name, o.ID)
	if at != "" {
		history = slices.DeleteFunc(history, func(ch v1.Change) bool { return ch.Object.Version > o.Version })
	}
	return o, history, err
}

// story in words: lines first, then what is a table, then the history.
func (c *CLI) describe(ctx context.Context, s *session, r v1.Resource, o v1.Object, history []v1.Change) error {
	facts, sections := c.about(ctx, s, r, o, history)
	line := func(name, value string) {
		if value != "" {
			c.printf("%-11s %s\n", name+":", value)
		}
	}
	safe := func(text string) string { return clean(text, false) }
	phase := c.phase(safe(o.Phase))
	if o.Deleted != nil {
		phase += " (deleted)"
	}
	line(capital(r.Singular), safe(label(o)))
	line("Id", safe(o.ID))
	line("Phase", phase)
	reason, message := statusOf(o)
	if r.Kind != "cluster" { // its lines say it, with what to do
		line("Why", safe(reason))
		if what, waits := strings.CutPrefix(message, "waiting for "); waits {
			line("Waits for", safe(what))
		} else {
			line("Message", safe(message))
		}
	}
	line("Host", safe(s.link(o)))
	for _, fact := range facts {
		line(fact[0], safe(fact[1]))
	}
	line("Owner", safe(o.Owner))
	line("Org", safe(o.Org))
	line("Created", o.Created.Local().Format(time.RFC3339)+" ("+age(c.now().Sub(o.Created))+" ago)")
	if o.Deleted != nil {
		line("Deleted", o.Deleted.Local().Format(time.RFC3339))
	}
	line("Generation", fmt.Sprintf("%d (version %d)", o.Generation, o.Version))
	if r.Kind != "cluster" { // likewise
		line("Labels", safe(strings.Join(pairsOf(o.Labels), " ")))
	}
	if sections == nil {
		sections = func() error { return c.documentSections(o) }
	}
	if err := sections(); err != nil {
		return err
	}
	c.printf("\nHistory:\n")
	return c.historyTable(history)
}

// about is what a kind has to say of itself; nil sections: its documents.
func (c *CLI) about(ctx context.Context, s *session, r v1.Resource, o v1.Object, history []v1.Change) (facts [][2]string, sections func() error) {
	switch r.Kind {
	case "instance":
		return instanceFacts(o, c.now()), nil
	case "offering":
		return offeringFacts(o), nil
	case "cluster":
		var use *v1.ClusterUse
		if found, told := s.uses(ctx)[o.ID]; told {
			use = &found
		}
		return clusterFacts(o, use, entered(history), c.now()), func() error { return c.clusterSections(o, use) }
	case "clusterprofile":
		return profileFacts(o), func() error { return c.profileSections(o) }
	case "environment":
		return c.envFacts(o), func() error { return c.envSections(ctx, s, o) }
	case "template":
		return templateFacts(o), func() error { return nil }
	}
	return nil, nil
}

// entered is when the last phase began.
func entered(history []v1.Change) (at time.Time) {
	for i, ch := range history {
		if i == 0 || history[i-1].Object.Phase != ch.Object.Phase {
			at = ch.At
		}
	}
	return at
}

// documentSections shows what is wanted and what is known as it is written.
func (c *CLI) documentSections(o v1.Object) error {
	for _, part := range []struct {
		name string
		json []byte
	}{{"Spec", o.Spec}, {"Status", o.Status}} {
		if len(part.json) == 0 || string(part.json) == "null" || string(part.json) == "{}" {
			continue
		}
		text, err := toYAML(part.json)
		if err != nil {
			return err
		}
		c.printf("\n%s:\n%s", part.name, indent(clean(text, true), "  "))
	}
	return nil
}

// historyTable tells each change with what led to it in words.
func (c *CLI) historyTable(history []v1.Change) error {
	t := &table{head: []string{"  SEQ", "TIME", "+SINCE", "WHO", "WHAT", "WHY"}}
	var before *v1.Change
	for i, ch := range history {
		since := ""
		if before != nil {
			since = "+" + seconds(ch.At.Sub(before.At))
		}
		t.add("  "+strconv.FormatInt(ch.Seq, 10), ch.At.Local().Format("2006-01-02 15:04:05.000"), since, ch.Actor, what(ch, before), cause(ch, history))
		before = &history[i]
	}
	return t.write(c.cfg.Out)
}

// what says what a change did: its verb, and the phase it entered.
func what(ch v1.Change, before *v1.Change) string {
	text := ch.Op
	if before == nil || before.Object.Phase != ch.Object.Phase {
		if ch.Object.Phase != "" && ch.Object.Phase != ch.Op {
			text += " → " + ch.Object.Phase
		}
	}
	if ch.Object.Deleted != nil && (before == nil || before.Object.Deleted == nil) {
		text += " (gone)"
	}
	if before != nil && before.Object.Generation != ch.Object.Generation {
		text += fmt.Sprintf(", generation %d", ch.Object.Generation)
	}
	if reason, _ := statusOf(ch.Object); reason != "" {
		if before == nil || why(before.Object) != reason {
			text += ": " + reason
		}
	}
	return text
}

// cause puts the log's cause into words; a change that the history holds is
// named by what it did.
func cause(ch v1.Change, history []v1.Change) string {
	kind, rest, _ := strings.Cut(ch.Cause, ":")
	switch kind {
	case "request":
		return ch.Actor + " asked for it (request " + rest + ")"
	case "report":
		cluster, number, _ := strings.Cut(rest, "@")
		return "cluster " + cluster + " reported it (report " + number + ")"
	case "resource":
		_, what, _ := strings.Cut(rest, "/")
		return "the custom resource " + what + " asks for it"
	case "push":
		return pushed(rest)
	case "schedule":
		return "it was time: " + rest
	case "change":
		at := strings.LastIndexByte(rest, '@')
		if at < 0 {
			return ch.Cause
		}
		ref, text := rest[:at], rest[at+1:]
		version, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return ch.Cause
		}
		if ref != ch.Object.Kind+"/"+ch.Object.ID {
			return "because " + strings.Replace(ref, "/", " ", 1) + " changed (version " + text + ")"
		}
		for i, earlier := range history {
			if earlier.Object.Version == version {
				var before *v1.Change
				if i > 0 {
					before = &history[i-1]
				}
				return fmt.Sprintf("followed %d: %s", earlier.Seq, what(earlier, before))
			}
		}
		return "followed version " + text
	}
	return ch.Cause
}

func capital(word string) string {
	if word == "" {
		return word
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
