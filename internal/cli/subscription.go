package cli

import (
	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) subscriptionCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "subscription", Aliases: []string{"subscriptions"}, Short: "Have a URL told of every change",
		Long: `A subscription is told of every change that its organisation may see: one POST of a CloudEvent each,
in order, signed as Standard Webhooks describes. What a receiver misses while it is away is sent when it is
back; one that fails for a day is disabled, and says so.`,
		Args: subcommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	group.AddCommand(c.subscribeCommand(), c.resubscribeCommand(), c.switchCommand("enable", "Send again, what was missed first", true), c.switchCommand("disable", "Send nothing until it is enabled", false))
	return group
}

func (c *CLI) subscribeCommand() *cobra.Command {
	var s v1.CreateSubscription
	cmd := &cobra.Command{
		Use: "create NAME --url URL", Short: "Make one, and print the secret that deliveries are signed with",
		Example: `  drover subscription create ops --url https://hooks.example.org/drover
  drover subscription create orders --url https://hooks.example.org/orders --kind instance --kind operation
  drover get subscriptions
  drover delete subscription ops`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := given(cmd, "url"); err != nil {
				return err
			}
			session, err := c.connect(cmd)
			if err != nil {
				return err
			}
			s.Name = args[0]
			out, err := session.CreateSubscription(cmd.Context(), s)
			if err != nil {
				return err
			}
			return c.subscribed(cmd, out, "created")
		},
	}
	cmd.Flags().StringVar(&s.URL, "url", "", "`URL` that is told: https://, or http://")
	cmd.Flags().StringVar(&s.Description, "description", "", "for people")
	cmd.Flags().StringSliceVar(&s.Kinds, "kind", nil, "`kind` of objects; may be repeated [all]")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// subscribed shows a subscription, and its secret where that is new.
func (c *CLI) subscribed(cmd *cobra.Command, s v1.Subscription, verb string) error {
	switch format := output(cmd); format {
	case "json", "yaml":
		return c.print(format, s)
	case "name":
		c.printf("subscription/%s\n", clean(s.Name, false))
		return nil
	}
	c.printf("subscription/%s %s\n", clean(s.Name, false), verb)
	if s.Secret != "" {
		c.printf("secret: %s\n", clean(s.Secret, false))
		c.note("keep it: it is not shown again")
	}
	return nil
}

func (c *CLI) resubscribeCommand() *cobra.Command {
	var url, description string
	var kinds []string
	var rotate bool
	cmd := &cobra.Command{
		Use: "update NAME", Short: "Change where it goes and what it is told of, or give it a new secret",
		Example: `  drover subscription update ops --url https://hooks.example.org/v2
  drover subscription update ops --rotate`,
		Args: arguments(1, 1), ValidArgsFunction: c.completeNames("subscriptions", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			u := v1.UpdateSubscription{Rotate: rotate}
			flags := cmd.Flags()
			if flags.Changed("url") {
				u.URL = &url
			}
			if flags.Changed("description") {
				u.Description = &description
			}
			if flags.Changed("kind") {
				u.Kinds = &kinds
			}
			if u.URL == nil && u.Description == nil && u.Kinds == nil && !rotate {
				return usagef("say what to change: --url, --description, --kind or --rotate")
			}
			return c.changeSubscription(cmd, args[0], u, "updated")
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "`URL` that is told")
	cmd.Flags().StringVar(&description, "description", "", "for people")
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "`kind` of objects; may be repeated; empty: all")
	cmd.Flags().BoolVar(&rotate, "rotate", false, "a new secret; the old one signs nothing any more")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) switchCommand(verb, short string, on bool) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " NAME", Short: short, Example: "  drover subscription " + verb + " ops",
		Args: arguments(1, 1), ValidArgsFunction: c.completeNames("subscriptions", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeSubscription(cmd, args[0], v1.UpdateSubscription{Enabled: &on}, verb+"d")
		},
	}
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) changeSubscription(cmd *cobra.Command, name string, u v1.UpdateSubscription, verb string) error {
	s, err := c.connect(cmd)
	if err != nil {
		return err
	}
	out, err := s.UpdateSubscription(cmd.Context(), name, u)
	if err != nil {
		return err
	}
	return c.subscribed(cmd, out, verb)
}
