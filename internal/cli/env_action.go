package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) logsEnv() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NAME/RESOURCE",
		Short: "What a resource's executor says",
		Example: `  drover env logs demo/db
  drover env logs demo/db -f`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, address := placeOf(args[0])
			if address == "" {
				return usagef("of which resource? `drover env graph %s` lists them: drover env logs %s/RESOURCE", clean(name, false), clean(name, false))
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			return c.printLog(cmd.Context(), follow, func(ctx context.Context, after int64) (v1.Log, error) {
				return s.EnvironmentLog(ctx, name, address, after)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "stay, and show what comes")
	return cmd
}

// printLog prints a log, and goes on while more may come.
func (c *CLI) printLog(ctx context.Context, follow bool, read func(ctx context.Context, after int64) (v1.Log, error)) error {
	after := int64(0)
	for {
		l, err := read(ctx, after)
		if err != nil {
			return err
		}
		if l.Cut && after == 0 {
			c.note("its beginning is not kept")
		}
		c.printf("%s", clean(l.Text, true))
		after = l.Next
		if !follow || l.Done {
			return nil
		}
		if l.Text != "" {
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func (c *CLI) actionEnv() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "action",
		Short:   "What can be run on an environment",
		Example: "  drover env action list demo\n  drover env action run demo restart --set service=web",
		Args:    subcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	list := &cobra.Command{
		Use:               "list NAME",
		Short:             "List the actions of an environment's template",
		Example:           "  drover env action list demo",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			all, err := s.Actions(cmd.Context(), bareEnv(args)[0])
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, all)
			}
			t := table{head: []string{"ACTION", "APP", "COMMAND", "YOU MAY", "DESCRIPTION"}}
			for _, a := range all.Items {
				may := "no"
				if a.Allowed {
					may = "yes"
				}
				t.add(a.Name, a.App, strings.Join(a.Command, " "), may, a.Description)
			}
			return t.write(c.cfg.Out)
		},
	}
	outputFlag(list, "table", "json", "yaml")
	cmd.AddCommand(list, c.runAction())
	return cmd
}

func (c *CLI) runAction() *cobra.Command {
	var sets []string
	var detach bool
	cmd := &cobra.Command{
		Use:   "run NAME ACTION",
		Short: "Run an action on an environment, and show what it says",
		Example: `  drover env action run demo restart --set service=web
  drover env action run demo backup --detach`,
		Args:              arguments(2, 2),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := (&bodyFlags{sets: sets}).body(c)
			if err != nil {
				return err
			}
			s, r, err := c.reach(cmd, "operations")
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			op, err := s.RunAction(ctx, bareEnv(args[:1])[0], args[1], v1.RunAction{Arguments: arguments})
			if err != nil {
				return err
			}
			if detach {
				return c.finish(cmd, s, outcome{resource: r, object: op, verb: "started"})
			}
			if err := c.printLog(ctx, true, func(ctx context.Context, after int64) (v1.Log, error) { return s.OperationLog(ctx, op.ID, after) }); err != nil {
				return err
			}
			ended, err := s.Get(ctx, r.Name, op.ID, "")
			if err != nil {
				return err
			}
			if reason, _ := statusOf(ended); ended.Phase == "failed" {
				return errors.New("the action has failed: " + clean(reason, true))
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "an argument, `NAME=VALUE`; may be repeated")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait for its end")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}
