package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

// oneEnv finds an environment.
func (c *CLI) oneEnv(cmd *cobra.Command, arg string) (*session, v1.Resource, v1.Object, error) {
	s, r, err := c.reach(cmd, "environments")
	if err != nil {
		return nil, r, v1.Object{}, err
	}
	o, err := s.find(cmd.Context(), r, bareEnv([]string{arg})[0], "")
	return s, r, o, err
}

func (c *CLI) destroyEnv() *cobra.Command {
	var w waitFlags
	var plan string
	var yes bool
	cmd := &cobra.Command{
		Use:   "destroy NAME",
		Short: "Take everything away that an environment has made, in reverse order",
		Example: `  drover env destroy demo --wait
  drover env plan demo --destroy; drover env destroy demo --plan 3fa9c2d1b0e7`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, o, err := c.oneEnv(cmd, args[0])
			if err != nil {
				return err
			}
			name := clean(label(o), false)
			if plan == "" && !yes {
				if err := c.ask("Destroy environment "+name+" and all it has made?", "nothing was destroyed", "destroying "+name+" wants --yes, or the plan of it (--plan)"); err != nil {
					return err
				}
			}
			since, err := s.moment(cmd.Context())
			if err != nil {
				return err
			}
			if o, err = s.DestroyEnvironment(cmd.Context(), o.ID, v1.DestroyEnvironment{Plan: plan}); err != nil {
				return err
			}
			return c.carried(cmd, s, carrying{object: o, verb: "is being destroyed", wait: w, since: since, gone: true})
		},
	}
	cmd.Flags().StringVar(&plan, "plan", "", "`hash` of a plan of its destruction that you have seen")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	w.register(cmd, "Destroyed")
	setDefault(cmd, "timeout", envWait)
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) retryEnv() *cobra.Command {
	var w waitFlags
	cmd := &cobra.Command{
		Use:               "retry NAME",
		Short:             "Go on with what has failed, and with what waits for it",
		Example:           "  drover env retry demo --wait",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, o, err := c.oneEnv(cmd, args[0])
			if err != nil {
				return err
			}
			since, err := s.moment(cmd.Context())
			if err != nil {
				return err
			}
			if o, err = s.RetryEnvironment(cmd.Context(), o.ID); err != nil {
				return err
			}
			return c.carried(cmd, s, carrying{object: o, verb: "goes on", wait: w, since: since, gone: envOf(o).Spec.Destroy})
		},
	}
	w.register(cmd, "Deployed-OK")
	setDefault(cmd, "timeout", envWait)
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) unlockEnv() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "unlock NAME/ADDRESS",
		Short: "Take the lock on a resource's state away from a run whose machine is gone",
		Long: `A run of OpenTofu that was killed on this machine gives its lock back by itself. Where the whole
machine is gone nobody can tell: be sure that it is. Whatever that run still does is not written down any more.`,
		Example:           "  drover env unlock demo/network",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, address := placeOf(args[0])
			if address == "" {
				return usagef("say which resource of environment %s: NAME/ADDRESS", name)
			}
			s, r, o, err := c.oneEnv(cmd, name)
			if err != nil {
				return err
			}
			if !yes {
				if err := c.ask("Is the machine gone that works on "+args[0]+"?", "nothing was unlocked", "unlocking "+args[0]+" wants --yes"); err != nil {
					return err
				}
			}
			after, err := s.UnlockEnvironment(cmd.Context(), o.ID, address)
			if err != nil {
				return err
			}
			return c.finish(cmd, s, changed(r, o, after, address+" is unlocked"))
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// editEnv changes what is said of an environment.
func (c *CLI) editEnv(cmd *cobra.Command, arg string, u v1.UpdateEnvironment, verb func(v1.Object) string) error {
	s, r, before, err := c.oneEnv(cmd, arg)
	if err != nil {
		return err
	}
	o, err := s.Update(cmd.Context(), r.Name, before.ID, u)
	if err != nil {
		return err
	}
	return c.finish(cmd, s, changed(r, before, o, verb(o)))
}

func (c *CLI) extendEnv() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "extend NAME WHEN",
		Short: "Move the planned destruction of an environment",
		Long: `WHEN is a time (2030-01-31T12:00:00Z), a span from now (8h), a span behind what was planned
(+8h), or never.`,
		Example: `  drover env extend demo +4h
  drover env extend demo never`,
		Args:              arguments(2, 2),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.editEnv(cmd, args[0], v1.UpdateEnvironment{Ends: &args[1]}, func(o v1.Object) string {
				ends := envOf(o).Spec.Ends
				if ends.IsZero() {
					return "stays until somebody destroys it"
				}
				return "is destroyed at " + ends.Local().Format(time.RFC3339)
			})
		},
	}
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) protectEnv() *cobra.Command {
	var off bool
	cmd := &cobra.Command{
		Use:               "protect NAME",
		Short:             "Keep an environment from being destroyed, by whomever and whatever date",
		Example:           "  drover env protect production\n  drover env protect production --off",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			on := !off
			return c.editEnv(cmd, args[0], v1.UpdateEnvironment{Protected: &on}, func(v1.Object) string {
				if on {
					return "is protected"
				}
				return "is no longer protected"
			})
		},
	}
	cmd.Flags().BoolVar(&off, "off", false, "take the protection back")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) tagEnv() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "tag NAME TAG... TAG-...",
		Short:             "Set tags of an environment, or take them away",
		Example:           "  drover env tag demo payments old-",
		Args:              arguments(2, -1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, _, o, err := c.oneEnv(cmd, args[0])
			if err != nil {
				return err
			}
			tags, err := taintEdits(envOf(o).Spec.Tags, args[1:])
			if err != nil {
				return usagef("%s", strings.ReplaceAll(strings.ReplaceAll(err.Error(), "taint", "tag"), "cluster", "environment"))
			}
			return c.editEnv(cmd, args[0], v1.UpdateEnvironment{Tags: &tags}, func(v1.Object) string { return "tagged" })
		},
	}
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}
