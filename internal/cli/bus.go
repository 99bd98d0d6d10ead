package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func (c *CLI) busCommand() *cobra.Command {
	group := &cobra.Command{Use: "bus", Short: "The broker that commands come from",
		Args: subcommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	dlq := &cobra.Command{Use: "dlq", Short: "Messages that nobody could take (the dead-letter queue)",
		Long: `A message that is no command, is too large, or is of a version that this server does not know is put
aside with the reason, and its sender is told where the message says how. It stays until somebody decides.`,
		Args: subcommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	dlq.AddCommand(c.rejectedCommand(), c.rejectedOneCommand(),
		c.decideCommand("retry", "Bring it back to its queue", "sent again", func(ctx context.Context, s *session, key string) error { return s.RetryMessage(ctx, key) }),
		c.dropCommand())
	group.AddCommand(dlq)
	return group
}

func (c *CLI) rejectedCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "What was put aside, and why, oldest first", Example: "  drover bus dlq list", Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			all, err := s.Rejected(cmd.Context())
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, all)
			}
			if all.NoBroker {
				c.note("the server has no broker (--bus): there is nothing to put aside")
				return nil
			}
			if len(all.Items) == 0 {
				c.note("nothing was put aside")
				return nil
			}
			t := &table{head: []string{"KEY", "AGE", "QUEUE", "TYPE", "SIZE", "BEGINS", "REASON"}}
			for _, m := range all.Items {
				t.add(m.Key, age(c.now().Sub(m.At)), m.Queue, m.Type, strconv.Itoa(m.Size), begins(m.Body), m.Reason)
			}
			if err := t.write(c.cfg.Out); err != nil {
				return err
			}
			if left := all.Count - len(all.Items); left > 0 {
				c.note("%d more were put aside", left)
			}
			return nil
		}}
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

// begins is as much of a body as a table has room for.
func begins(body string) string {
	const most = 24
	if r := []rune(clean(body, false)); len(r) > most {
		return string(r[:most]) + "..."
	}
	return clean(body, false)
}

func (c *CLI) rejectedOneCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show KEY", Short: "One of them, with its body", Example: "  drover bus dlq show 1f0c", Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			m, err := s.RejectedMessage(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, m)
			}
			for _, line := range [][2]string{{"key", m.Key}, {"id", m.ID}, {"type", m.Type}, {"queue", m.Queue}, {"put aside", m.At.Format("2006-01-02 15:04:05 MST")}, {"reason", m.Reason}, {"size", strconv.Itoa(m.Size)}} {
				c.printf("%-10s %s\n", line[0]+":", clean(line[1], false))
			}
			c.printf("\n%s\n", clean(m.Body, true))
			return nil
		}}
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) decideCommand(verb, short, done string, do func(ctx context.Context, s *session, key string) error) *cobra.Command {
	return &cobra.Command{Use: verb + " KEY...", Short: short, Example: "  drover bus dlq " + verb + " 1f0c", Args: arguments(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			for _, key := range args {
				if err := do(cmd.Context(), s, key); err != nil {
					return err
				}
				c.printf("%s %s\n", clean(key, false), done)
			}
			return nil
		}}
}

// dropCommand removes messages, which nothing brings back: it wants a yes.
func (c *CLI) dropCommand() *cobra.Command {
	var yes bool
	cmd := c.decideCommand("drop", "Remove it for good", "dropped", func(ctx context.Context, s *session, key string) error { return s.DropMessage(ctx, key) })
	cmd.Example += " --yes"
	drop := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !yes {
			what := clean(strings.Join(args, ", "), false)
			if err := c.ask("Remove "+what+" for good?", "nothing was dropped", "dropping "+what+" wants --yes"); err != nil {
				return err
			}
		}
		return drop(cmd, args)
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
