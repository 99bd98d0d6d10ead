package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) eventsCommand() *cobra.Command {
	var watch bool
	var after int64
	var limit int
	cmd := &cobra.Command{
		Use:   "events [RESOURCE [NAME]]",
		Short: "The log of every change: who, what, why",
		Example: `  drover events                               # the newest 50
  drover events --watch                       # and what comes
  drover events dinosaurs --after 4711
  drover events dinosaur rex -o json`,
		Args:              arguments(0, 2),
		ValidArgsFunction: c.complete(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if limit < 1 || limit > 1000 || after < 0 {
				return usagef("--limit must be from 1 to 1000 and --after at least 0")
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			o, err := s.about(ctx, args)
			if err != nil {
				return err
			}
			e := &eventPrinter{cli: c, format: output(cmd), table: &table{head: []string{"SEQ", "TIME", "WHO", "WHICH", "WHAT", "WHY"}}}
			var past v1.Changes
			if cmd.Flags().Changed("after") {
				o.After = after
				past, err = s.following(ctx, o, limit)
			} else {
				o.Newest = limit
				past, err = s.Changes(ctx, o)
			}
			if err != nil {
				return err
			}
			if past.Since > 0 {
				c.note("looked back as far as %d; `drover events --after 0` reads from the beginning", past.Since)
			}
			for _, ch := range past.Items {
				if err := e.add(ch); err != nil {
					return err
				}
			}
			if err := e.flush(); err != nil || !watch {
				return err
			}
			for ch, err := range s.Watch(ctx, client.WatchOptions{After: past.Next, Resource: o.Resource, ID: o.ID, Lost: c.lost}) {
				if err == nil {
					err = e.add(ch)
				}
				if err == nil {
					err = e.flush()
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "stay, and show changes as they happen")
	cmd.Flags().Int64Var(&after, "after", 0, "only changes after this sequence")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many: the newest, or with --after the next ones")
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

// about selects the changes of what the arguments name.
func (s *session) about(ctx context.Context, args []string) (o client.ChangeOptions, err error) {
	if len(args) == 0 {
		return o, nil
	}
	word, names, err := targets(args)
	if err != nil {
		return o, err
	}
	if len(names) > 1 {
		return o, usagef("one name at a time")
	}
	r, err := s.resource(ctx, word)
	if err != nil {
		return o, err
	}
	o.Resource = r.Name
	if len(names) == 1 {
		object, err := s.find(ctx, r, names[0], "")
		if err != nil {
			return o, err
		}
		o.ID = object.ID
	}
	return o, nil
}

// following reads the first changes after o.After. A page may be empty and move
// on all the same: what it went through was not for this caller.
func (s *session) following(ctx context.Context, o client.ChangeOptions, limit int) (v1.Changes, error) {
	out := v1.Changes{Next: o.After}
	for {
		o.Limit = limit - len(out.Items)
		page, err := s.Changes(ctx, o)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, page.Items...)
		if page.Next <= o.After {
			return out, nil
		}
		out.Next, o.After = page.Next, page.Next
		if len(out.Items) >= limit {
			return out, nil
		}
	}
}

// What is remembered to tell causes by what they were; beyond it they are told
// by their version.
const (
	maxSeen = 1000 // objects
	maxPast = 16   // changes of each
)

// eventPrinter prints changes in the format asked for.
type eventPrinter struct {
	cli    *CLI
	format string
	table  *table
	seen   map[string][]v1.Change // the changes before, per object
}

func (e *eventPrinter) add(ch v1.Change) error {
	if e.format == "json" || e.format == "yaml" {
		return e.cli.printLine(e.format, ch)
	}
	if e.seen == nil || len(e.seen) > maxSeen {
		e.seen = map[string][]v1.Change{}
	}
	past := e.seen[ch.Object.ID]
	var before *v1.Change
	if n := len(past); n > 0 {
		before = &past[n-1]
		past = past[max(0, n-maxPast):]
	}
	which := ch.Object.Kind
	if ch.Object.Resource != "" {
		which = ch.Object.Resource
	}
	e.table.add(strconv.FormatInt(ch.Seq, 10), ch.At.Local().Format("2006-01-02 15:04:05.000"), ch.Actor,
		which+"/"+label(ch.Object), what(ch, before), cause(ch, past))
	e.seen[ch.Object.ID] = append(past, ch)
	return nil
}

func (e *eventPrinter) flush() error {
	if e.format == "json" || e.format == "yaml" {
		return nil
	}
	return e.table.write(e.cli.cfg.Out)
}
