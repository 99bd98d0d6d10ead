package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) placementCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "placement",
		Short: "Why things are where they are, what if, and how much room there is",
		Long: `Where an instance goes is decided once and written down with its reason.

  drover placement explain dinosaur rex                     why there, and why not elsewhere
  drover placement plan --offering dinosaur --count 20      where orders would go; nothing is written
  drover placement capacity                                 units by region and type, and what scaling says`,
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.explainCommand(), c.planCommand(), c.capacityCommand())
	return cmd
}

func (c *CLI) explainCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "explain RESOURCE NAME",
		Short: "Why an instance is on its cluster, and why not elsewhere",
		Long: `Tells why an instance was placed where it is, as it was written down then, and where it
would go if it were placed now, with a reason for every other cluster. Operators read
the names of clusters; others the reasons of their region.`,
		Example: `  drover placement explain dinosaur rex
  drover placement explain dinosaur rex --all     # with every cluster of other regions
  drover placement explain dinosaur rex -o json`,
		Args:              arguments(1, 2),
		ValidArgsFunction: c.complete(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			word, name, err := target(args)
			if err != nil {
				return err
			}
			s, r, err := c.reach(cmd, word)
			if err != nil {
				return err
			}
			if r.Kind != "instance" {
				return usagef("%s are not placed, instances are: `drover placement explain dinosaur NAME`", r.Name)
			}
			o, err := s.find(cmd.Context(), r, name, "")
			if err != nil {
				return err
			}
			p, err := s.Placement(cmd.Context(), r.Name, o.ID)
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, p)
			}
			return c.showPlacement(r, o, p, all)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also clusters that stand elsewhere or are a tenant's own")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) showPlacement(r v1.Resource, o v1.Object, p v1.Placement, all bool) error {
	name := r.Singular + " " + clean(label(o), false)
	safe := func(text string) string { return clean(text, false) }
	switch {
	case p.Cluster != "":
		c.printf("%s is on cluster %s\n", name, safe(p.Cluster))
		if p.Placed != "" {
			c.printf("  placed there because %s\n", safe(p.Placed))
		}
	case p.Waiting != "":
		c.printf("%s is on no cluster: %s\n", name, safe(p.Waiting))
	default:
		c.printf("%s is on no cluster yet\n", name)
	}
	c.printf("  it is a %s of %s in %s/%s\n", safe(p.Plan), count(p.Units, "unit"), safe(p.Provider), safe(p.Region))
	if p.Limit != nil {
		c.printf("  the region takes %d units of its type, %d are taken\n", p.Limit.Units, p.Limit.Taken)
	}
	if len(p.Orders) == 0 {
		return nil
	}
	v := p.Orders[0]
	switch {
	case !v.Fits:
		c.printf("\nNow it would find no place: %s\n", safe(v.Reason))
	case v.Cluster == "":
		c.printf("\nNow it would find a place: %s\n", safe(v.Reason))
	case v.Cluster == p.Cluster:
		c.printf("\nNow it would go there again: %s\n", safe(v.Reason))
	default:
		c.printf("\nNow it would go to %s: %s\n", safe(v.Cluster), safe(v.Reason))
	}
	return c.whyNot(v.Others, all)
}

// elsewhere are the codes of clusters that were never in question.
var elsewhere = []string{"place", "tenant"}

// whyNot lists the other clusters; those with one reason share a line, because
// a fleet has many.
func (c *CLI) whyNot(others []v1.WhyNot, all bool) error {
	type group struct {
		v1.WhyNot
		names []string
	}
	var groups []*group
	var away int64
	for _, w := range others {
		if !all && slices.Contains(elsewhere, w.Code) {
			away++
			continue
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.Code == w.Code && g.Reason == w.Reason })
		if i < 0 {
			i, groups = len(groups), append(groups, &group{WhyNot: w})
		}
		if w.Cluster != "" {
			groups[i].names = append(groups[i].names, w.Cluster)
		}
	}
	if len(groups) > 0 {
		c.printf("\nNot elsewhere:\n")
		t := &table{head: []string{"  CLUSTER", "CODE", "WHY"}}
		told := slices.ContainsFunc(groups, func(g *group) bool { return len(g.names) > 0 })
		if !told { // tenants read reasons alone
			t.head = []string{"  CODE", "WHY"}
		}
		for _, g := range groups {
			if told {
				t.add("  "+some(g.names, 3), g.Code, g.Reason)
			} else {
				t.add("  "+g.Code, g.Reason)
			}
		}
		if err := t.write(c.cfg.Out); err != nil {
			return err
		}
	}
	if away > 0 {
		c.printf("  and %s of other regions or of tenants' own: --all lists them\n", count(away, "cluster"))
	}
	return nil
}

// some names the first of many.
func some(names []string, most int) string {
	switch {
	case len(names) == 0:
		return "-"
	case len(names) <= most:
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most-1], ", "), len(names)-most+1)
}

func (c *CLI) planCommand() *cobra.Command {
	var ask v1.AskPlacement
	var plan string
	var with []string
	var all bool
	cmd := &cobra.Command{
		Use:   "plan --offering OFFERING",
		Short: "Where orders would go that nobody made; nothing is written",
		Long: `Places orders one after the other, in thought. Operators may think clusters away
(--without) and think of more (--with), to see what a failure or a new cluster would mean.
Quota is not looked at.

--with takes units=N, and besides provider, region, zone, offering, type, taint,
multi-az (true or false) and label.KEY, with commas between them.`,
		Example: `  drover placement plan --offering dinosaur
  drover placement plan --offering dinosaur --region local --count 20 --without c1
  drover placement plan --offering kafka --plan standard.x2 --count 10 --with units=50,zone=b`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ask.Offering == "" {
				return usagef("of which offering? --offering NAME; `drover get offerings` lists them")
			}
			if cmd.Flags().Changed("count") && (ask.Count < 1 || ask.Count > 100) {
				return usagef("--count is 1 to 100")
			}
			ask.Type, ask.Size, _ = strings.Cut(plan, ".")
			ask.With = nil
			for _, text := range with {
				extra, err := extraCluster(text)
				if err != nil {
					return err
				}
				ask.With = append(ask.With, extra)
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			if ask.Offering, err = s.offering(cmd, ask.Offering); err != nil {
				return err
			}
			e, err := s.ExplainPlacement(cmd.Context(), ask)
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, e)
			}
			return c.showPlan(e, all)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&ask.Offering, "offering", "", "`name` of the offering, or of what it sells")
	flags.StringVar(&plan, "plan", "", "plan, TYPE or TYPE.SIZE [the offering's first]")
	flags.StringVar(&ask.Provider, "provider", "", "cloud provider [the offering's first]")
	flags.StringVar(&ask.Region, "region", "", "region [the provider's first]")
	flags.BoolVar(&ask.MultiAZ, "multi-az", false, "orders for several zones")
	flags.StringVar(&ask.Org, "org", "", "organisation that orders (operators) [yours]")
	flags.StringVar(&ask.Cluster, "cluster", "", "`id` of one of the organisation's own clusters")
	flags.IntVar(&ask.Count, "count", 1, "how many orders, one after the other")
	flags.StringSliceVar(&ask.Without, "without", nil, "`cluster` that is thought away (operators); may be repeated")
	flags.StringArrayVar(&with, "with", nil, "cluster that is thought to be there (operators), such as `units=50,zone=b`; may be repeated")
	flags.BoolVar(&all, "all", false, "also why not on clusters that stand elsewhere")
	c.completePlaces(cmd)
	for flag, resource := range map[string]string{"offering": "offerings", "without": "clusters"} {
		cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return c.namesOf(cmd, resource, prefix, nil)
		})
	}
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

// offering takes the name of what is sold, too.
func (s *session) offering(cmd *cobra.Command, word string) (string, error) {
	all, err := s.Resources(cmd.Context())
	if err != nil {
		return "", err
	}
	var words []string
	for _, r := range all {
		switch {
		case r.Offering == "":
		case word == r.Offering || word == r.Name || word == r.Singular:
			return r.Offering, nil
		default:
			words = append(words, r.Offering)
		}
	}
	hint := didYouMean(word, words)
	if hint == "" {
		hint = "; there is: " + strings.Join(words, ", ")
	}
	return "", &notFoundError{"no offering " + quoted(word) + hint}
}

// extraCluster reads units=50,zone=b.
func extraCluster(text string) (v1.ExtraCluster, error) {
	keys := []string{"units", "provider", "region", "zone", "offering", "type", "taint", "multi-az"}
	var out v1.ExtraCluster
	set := func(key, value string) {
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		out.Labels[key] = value
	}
	sized := false
	for _, part := range strings.Split(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		wrong := usagef("--with %s: want units=N, and perhaps zone=b and more with commas between them", quoted(text))
		if !ok || value == "" {
			return out, wrong
		}
		switch name, isLabel := strings.CutPrefix(key, "label."); {
		case isLabel && name != "":
			set(name, value)
		case key == "units":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return out, usagef("--with %s: units is a number", quoted(text))
			}
			out.Units, sized = n, true
		case key == "zone":
			set("zone", value)
		case key == "provider":
			out.Provider = value
		case key == "region":
			out.Region = value
		case key == "offering":
			out.Offering = value
		case key == "type":
			out.Types = append(out.Types, value)
		case key == "taint":
			out.Taints = append(out.Taints, value)
		case key == "multi-az":
			yes, err := strconv.ParseBool(value)
			if err != nil {
				return out, usagef("--with %s: multi-az is true or false", quoted(text))
			}
			out.MultiAZ = &yes
		default:
			hint := didYouMean(key, keys)
			if hint == "" {
				hint = "; there is: " + strings.Join(keys, ", ") + ", label.KEY"
			}
			return out, usagef("--with %s: a cluster has no %s%s", quoted(text), quoted(key), hint)
		}
	}
	if !sized {
		return out, usagef("--with %s: how large is it? units=N", quoted(text))
	}
	return out, nil
}
