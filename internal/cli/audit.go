package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) auditCommand() *cobra.Command {
	var o client.AuditOptions
	var since, until, export string
	var limit int
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Who did what, when, from where, and with which outcome",
		Long: `Shows what people and programs asked for, the newest first: operators see everything,
administrators of an organisation what was done in it. With --all, also what Drover did
because of it. What proves that nobody has edited it: ` + "`drover ledger verify`" + `.`,
		Example: `  drover audit --since 24h
  drover audit --org acme --actor bob --kind instance
  drover audit --outcome refused -o jsonl
  drover audit --since 2030-01-01T00:00:00Z --export january.jsonl`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if limit < 1 || limit > 100_000 {
				return usagef("--limit must be from 1 to 100000")
			}
			if o.Since, err = c.moment("since", since); err != nil {
				return err
			}
			if o.Until, err = c.moment("until", until); err != nil {
				return err
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			if export != "" {
				return c.exportAudit(cmd.Context(), s, o, export)
			}
			return c.showAudit(cmd.Context(), s, o, limit, output(cmd))
		},
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "from this `time` on: 24h, 7d or 2030-01-31T12:00:00Z")
	f.StringVar(&until, "until", "", "before this `time`")
	f.StringVar(&o.Org, "org", "", "in this `organisation`")
	f.StringVar(&o.Actor, "actor", "", "by this `name`")
	f.StringVar(&o.Kind, "kind", "", "to things of this `kind`: instance, environment, deployment, cluster, ...")
	f.StringVar(&o.ID, "name", "", "to the thing of this `name` or id")
	f.StringVar(&o.Verb, "verb", "", "`what`: create, update, delete, ..., or call")
	f.StringVar(&o.Outcome, "outcome", "", "done, refused, hidden, failed, or started (how it ended is not known)")
	f.BoolVar(&o.Everything, "all", false, "also what Drover did of its own accord")
	f.IntVar(&limit, "limit", 100, "how many, the newest")
	f.StringVar(&export, "export", "", "write all of it to this `file`, the oldest first, as JSON Lines")
	outputFlag(cmd, "table", "json", "jsonl", "yaml")
	return cmd
}

// moment reads a time, or how long ago it was.
func (c *CLI) moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	ago, err := time.ParseDuration(text)
	if days, is := strings.CutSuffix(text, "d"); is && err != nil {
		var n int
		if n, err = strconv.Atoi(days); err == nil {
			ago = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || ago < 0 {
		return time.Time{}, usagef("--%s %s is not a time: 24h, 7d or 2030-01-31T12:00:00Z", flag, quoted(text))
	}
	return c.now().Add(-ago), nil
}

// records reads pages until that is all, or each says that it is enough.
func (s *session) records(ctx context.Context, o client.AuditOptions, each func(v1.AuditRecord) (bool, error)) (history time.Time, err error) {
	for {
		page, err := s.Audit(ctx, o)
		if err != nil {
			return history, err
		}
		history = page.History
		for _, r := range page.Items {
			if more, err := each(r); err != nil || !more {
				return history, err
			}
		}
		if page.Next == 0 {
			return history, nil
		}
		if o.Oldest {
			o.After = page.Next
		} else {
			o.Before = page.Next
		}
	}
}

func (c *CLI) showAudit(ctx context.Context, s *session, o client.AuditOptions, limit int, format string) error {
	o.Limit = min(limit, 1000)
	found := []v1.AuditRecord{}
	t := &table{head: []string{"TIME", "WHO", "FROM", "WHAT", "WHICH", "ORG", "OUTCOME", "REQUEST"}}
	n := 0
	history, err := s.records(ctx, o, func(r v1.AuditRecord) (bool, error) {
		n++
		switch format {
		case "jsonl":
			if err := c.printLine("json", r); err != nil {
				return false, err
			}
		case "json", "yaml":
			found = append(found, r)
		default:
			t.add(r.At.Local().Format("2006-01-02 15:04:05"), r.Actor, r.From, done(r), which(r), r.Org, ending(r), r.Request)
		}
		return n < limit, nil
	})
	if err != nil {
		return err
	}
	if !history.IsZero() && (o.Since.IsZero() || o.Since.Before(history)) {
		c.note("the log is whole from %s on: of before, only the last change of each thing is there", history.Local().Format(time.RFC3339))
	}
	switch format {
	case "jsonl":
		return nil
	case "json", "yaml":
		return c.print(format, found)
	}
	if n == 0 {
		c.note("nothing was done that is asked for here")
		return nil
	}
	return t.write(c.cfg.Out)
}

func done(r v1.AuditRecord) string {
	if r.Call != "" {
		return r.Call
	}
	return r.Verb
}

func which(r v1.AuditRecord) string {
	switch {
	case r.Kind == "":
		return r.Name
	case r.Name == "":
		return r.Kind + "/" + r.ID
	}
	return r.Kind + "/" + r.Name
}

func ending(r v1.AuditRecord) string {
	if r.Status != 0 {
		return fmt.Sprintf("%s (%d)", r.Outcome, r.Status)
	}
	return r.Outcome
}

// exportAudit writes a file that is there as a whole or not at all.
func (c *CLI) exportAudit(ctx context.Context, s *session, o client.AuditOptions, path string) error {
	o.Oldest, o.Limit = true, 1000
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return usagef("cannot write %s: %v", quoted(path), err)
	}
	defer os.Remove(part)
	defer f.Close()
	w := bufio.NewWriter(f)
	lines := json.NewEncoder(w)
	n := 0
	history, err := s.records(ctx, o, func(r v1.AuditRecord) (bool, error) {
		n++
		return true, lines.Encode(r)
	})
	for _, step := range []func() error{w.Flush, f.Sync, f.Close, func() error { return os.Rename(part, path) }} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return fmt.Errorf("%s was not written: %w", quoted(path), err)
	}
	if !history.IsZero() && (o.Since.IsZero() || o.Since.Before(history)) {
		c.note("the log is whole from %s on: of before, only the last change of each thing is there", history.Local().Format(time.RFC3339))
	}
	c.note("%d records are in %s", n, path)
	return nil
}
