package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) promoteCommand() *cobra.Command {
	var w waitFlags
	var to v1.Promote
	cmd := &cobra.Command{
		Use:   "promote RESOURCE NAME --to MODEL",
		Short: "Move an instance to another billing model while it runs",
		Long: `Asks for another billing model. The instance is not touched: the new quota is taken
and the old one given back in one step. Without quota for it everything stays as it is.`,
		Example: `  drover promote kafka orders --to standard --wait
  drover promote kafka orders --to marketplace --marketplace aws --billing-account 123456789012`,
		Args:              arguments(1, 2),
		ValidArgsFunction: c.complete(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to.BillingModel == "" {
				return usagef("to which billing model? --to MODEL")
			}
			s, r, before, err := c.one(cmd, args, "promote")
			if err != nil {
				return err
			}
			o, err := s.Promote(cmd.Context(), r.Name, before.ID, to)
			if err != nil {
				return err
			}
			return c.finish(cmd, s, outcome{
				resource: r, object: o, verb: "is being promoted to " + clean(to.BillingModel, false), wait: w, since: o.Version,
				goal: goal{word: "promoted", judge: promoted(to.BillingModel)},
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&to.BillingModel, "to", "", "billing `model` to move to")
	flags.StringVar(&to.Marketplace, "marketplace", "", "marketplace that bills it from now on")
	flags.StringVar(&to.BillingAccount, "billing-account", "", "`id` of your account at the marketplace")
	c.completeValues(cmd, map[string]func(sold) []string{"to": sold.promotable, "marketplace": sold.marketplaces})
	w.register(cmd, "paid for so")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// promoted judges by the bill that is in force.
func promoted(model string) func(v1.Object) (bool, error) {
	return func(o v1.Object) (bool, error) {
		s := stateOf(o).Status
		switch {
		case s.Promotion == "promoting":
			return false, nil
		case s.Promotion != "":
			return false, errors.New(s.Details)
		}
		return s.Paid.Model == model, nil
	}
}

func (c *CLI) suspendCommand() *cobra.Command {
	return c.restCommand(true, &cobra.Command{
		Use:     "suspend RESOURCE NAME",
		Short:   "Stop an instance and keep it (operators)",
		Example: `  drover suspend kafka orders --wait`,
	})
}

func (c *CLI) resumeCommand() *cobra.Command {
	return c.restCommand(false, &cobra.Command{
		Use:     "resume RESOURCE NAME",
		Short:   "Start a suspended instance again (operators)",
		Example: `  drover resume kafka orders --wait`,
	})
}

func (c *CLI) restCommand(suspend bool, cmd *cobra.Command) *cobra.Command {
	var w waitFlags
	cmd.Args, cmd.ValidArgsFunction = arguments(1, 2), c.complete(2)
	word, verb := "ready", "is being resumed"
	if suspend {
		word, verb = "suspended", "is being suspended"
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.change(cmd, args, map[string]any{"suspended": suspend}, verb, goal{word: word}, w)
	}
	w.register(cmd, word)
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) upgradeCommand() *cobra.Command {
	var w waitFlags
	var to []string
	cmd := &cobra.Command{
		Use:   "upgrade RESOURCE NAME --to VERSION",
		Short: "Move an instance to other versions of its components",
		Long: `Wants other versions. A version alone is that of the offering's first component;
COMPONENT=VERSION names one, which is for operators. What a version may be changed to
is said by the offering and, where it leaves that open, by the cluster.`,
		Example: `  drover upgrade dinosaur rex --to 1.1.0 --wait
  drover upgrade kafka orders --to kafka=3.4.0,strimzi=strimzi-cluster-operator.v0.30.0-8 --wait`,
		Args:              arguments(1, 2),
		ValidArgsFunction: c.complete(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, versions, err := upgrade(to)
			if err != nil {
				return err
			}
			reach := goal{word: "upgraded", judge: func(o v1.Object) (bool, error) { return upgraded(o, versions) }}
			return c.change(cmd, args, body, "is being upgraded", reach, w)
		},
	}
	cmd.Flags().StringSliceVar(&to, "to", nil, "`version`, or COMPONENT=VERSION; several with commas between them")
	c.completeValues(cmd, map[string]func(sold) []string{"to": sold.components})
	w.register(cmd, "so")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// upgrade reads --to into a request, and into the versions by component.
func upgrade(to []string) (map[string]any, map[string]string, error) {
	body, versions := map[string]any{}, map[string]string{}
	for _, text := range to {
		component, version, named := strings.Cut(text, "=")
		switch {
		case text == "" || named && (component == "" || version == ""):
			return nil, nil, usagef("--to %s: want VERSION or COMPONENT=VERSION", quoted(text))
		case named && versions[component] != "", !named && body["version"] != nil:
			return nil, nil, usagef("--to %s: it is named twice", quoted(text))
		case named:
			versions[component] = version
		default:
			body["version"] = text
		}
	}
	if len(to) == 0 {
		return nil, nil, usagef("to which version? --to VERSION, or --to COMPONENT=VERSION")
	}
	if len(versions) > 0 {
		body["versions"] = versions
	}
	return body, versions, nil
}

// upgraded: the data plane has what is wanted, and says that it runs.
func upgraded(o v1.Object, versions map[string]string) (bool, error) {
	word := "ready"
	if o.Phase == "suspended" {
		word = o.Phase
	}
	done, err := goal{word: word, generation: o.Generation}.met(o)
	seen := stateOf(o).Status.Observed
	if !done || err != nil || seen == nil {
		return done, err
	}
	for component, version := range versions {
		if actual := seen.Versions[component]; actual != "" && actual != version {
			return false, nil
		}
	}
	return len(seen.Upgrading) == 0, nil
}

// one finds the object that a verb is for, if it takes that verb.
func (c *CLI) one(cmd *cobra.Command, args []string, verb string) (*session, v1.Resource, v1.Object, error) {
	word, name, err := target(args)
	if err != nil {
		return nil, v1.Resource{}, v1.Object{}, err
	}
	s, r, err := c.reach(cmd, word)
	if err != nil {
		return nil, r, v1.Object{}, err
	}
	if err := can(r, verb); err != nil {
		return nil, r, v1.Object{}, err
	}
	o, err := s.find(cmd.Context(), r, name, "")
	return s, r, o, err
}

// change sends an update and follows it.
func (c *CLI) change(cmd *cobra.Command, args []string, body map[string]any, verb string, reach goal, w waitFlags) error {
	s, r, before, err := c.one(cmd, args, "update")
	if err != nil {
		return err
	}
	o, err := s.Update(cmd.Context(), r.Name, before.ID, body)
	if err != nil {
		return err
	}
	reach.generation = o.Generation
	if o.Version == before.Version {
		verb = "unchanged"
	}
	return c.finish(cmd, s, outcome{resource: r, object: o, verb: verb, goal: reach, wait: w, since: o.Version})
}
