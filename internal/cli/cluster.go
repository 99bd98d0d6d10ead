package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

// clusterWait is longer than others wait: machines are made meanwhile.
const clusterWait = 30 * time.Minute

func (c *CLI) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Data planes: bring one in, make one, set one aside (operators)",
		Long: `A cluster is a data plane that hosts instances. One that is there joins the fleet with
one line, which whoever administrates it runs; the agent connects out. Others are made
from a profile.

  drover cluster register edge --provider aws --region us-east-1     one that is there
  drover cluster create c2 --profile small --wait                    a new one
  drover get clusters                                                phases, room, agents
  drover describe cluster edge                                       why it is not ready, its steps
  drover cluster cordon edge                                         no new orders there
  drover cluster drain edge --wait                                   and empty in the end
  drover cluster delete edge                                         and gone
  drover cluster abandon edge --reason TEXT                          lost for good`,
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	remove := c.deleteCommand()
	remove.Use, remove.Short = "delete NAME...", "Take clusters away on which nothing runs"
	remove.Long = `What made a cluster takes it away; one that was there before only leaves the fleet. It is
refused while instances run there. The same as ` + "`drover delete cluster`" + `.`
	remove.Example = `  drover cluster delete edge --wait`
	remove.ValidArgsFunction = c.completeNames("clusters", -1)
	run := remove.RunE
	remove.RunE = func(cmd *cobra.Command, args []string) error {
		return run(cmd, append([]string{"cluster"}, bare(args)...))
	}
	cmd.AddCommand(c.registerCluster(), c.joinCluster(),
		c.createCluster(&cobra.Command{Use: "create NAME", Example: "  drover cluster create c2 --profile small --provider aws --region us-east-1 --wait"}),
		c.drainCluster(), c.undrainCluster(), c.cordonCluster(true), c.cordonCluster(false), c.limitCluster(), c.labelCluster(), c.taintCluster(), c.abandonCluster(), remove)
	return cmd
}

// subcommand refuses what is no command of a group, and names the nearest.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	hint := didYouMean(args[0], names)
	if hint == "" {
		hint = "; there is: " + strings.Join(names, ", ")
	}
	return usagef("%s has no command %s%s", cmd.CommandPath(), quoted(args[0]), hint)
}

// bare takes the resource off names that `-o name` printed.
func bare(names []string) []string {
	out := slices.Clone(names)
	for i, name := range out {
		for _, prefix := range []string{"cluster/", "clusters/"} {
			out[i] = strings.TrimPrefix(out[i], prefix)
		}
		if out[i] == "" {
			out[i] = name
		}
	}
	return out
}

// clusterFlags say what a cluster is to be.
type clusterFlags struct {
	want       v1.CreateCluster
	kubeconfig string
	labels     []string
	limit      int64
}

func (f *clusterFlags) register(c *CLI, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.want.Provider, "provider", "", "cloud provider: instances are placed by it [the profile's]")
	flags.StringVar(&f.want.Region, "region", "", "region, likewise [the profile's]")
	flags.StringVar(&f.want.Profile, "profile", "", "`name` of the profile that says what makes it and what makes it fit")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "`file` to reach it with, - for standard input; it is sealed [its agent alone reaches it]")
	flags.StringVar(&f.want.Domain, "domain", "", "base domain of its routes")
	flags.StringArrayVar(&f.labels, "label", nil, "`KEY=VALUE`; zone is its failure domain; may be repeated")
	flags.StringSliceVar(&f.want.Taints, "taint", nil, "`word` that an offering must tolerate to be placed there; may be repeated")
	flags.Int64Var(&f.limit, "limit", 0, "`units` that may be placed there [as many as fit]")
	c.completePlaces(cmd)
	cmd.RegisterFlagCompletionFunc("profile", func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.namesOf(cmd, "profiles", prefix, nil)
	})
}

// request checks what can be checked here.
func (f *clusterFlags) request(c *CLI, cmd *cobra.Command, name string) (v1.CreateCluster, error) {
	f.want.Name = name
	labels, err := labelEdits(f.labels, false)
	if err != nil {
		return f.want, err
	}
	if len(labels) > 0 {
		f.want.Labels = labels
	}
	if cmd.Flags().Changed("limit") {
		if f.limit < 0 {
			return f.want, usagef("--limit is a number of units from 0 on")
		}
		f.want.Limit = &f.limit
	}
	if f.kubeconfig != "" {
		data, err := c.readInput(f.kubeconfig)
		if err != nil {
			return f.want, err
		}
		f.want.Kubeconfig = string(data)
	}
	return f.want, nil
}

// placed refuses a cluster that nothing can be placed on.
func placeKnown(want v1.CreateCluster, command string) error {
	if want.Profile == "" && (want.Provider == "" || want.Region == "") {
		return usagef("a cluster needs a place, because instances are placed by it: `%s %s --provider P --region R`", command, want.Name)
	}
	return nil
}

// createCluster is both `drover cluster create` and `drover create cluster`.
func (c *CLI) createCluster(cmd *cobra.Command) *cobra.Command {
	var f clusterFlags
	var b bodyFlags
	var w waitFlags
	cmd.Short = "Make a cluster from a profile, or make one known (operators)"
	cmd.Long = `With --profile the fleet makes the cluster: what the profile names makes it, its steps make
it fit, and its agent joins. --wait shows the phases, and each step as it goes.

Without a profile the cluster is there already: ` + "`drover cluster register`" + ` prints the line
that installs its agent, ` + "`drover token --cluster NAME`" + ` a token for one that you install.`
	cmd.Example += `
  drover create cluster edge --provider local --region local --label zone=b --limit 40`
	cmd.Args, cmd.ValidArgsFunction = arguments(0, 1), cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		body, err := b.body(c)
		if err != nil {
			return err
		}
		name, _ := body["name"].(string)
		if len(args) > 0 {
			name = bare(args)[0]
		}
		if name == "" {
			return usagef("a cluster needs a name: `%s NAME`", cmd.CommandPath())
		}
		want, err := f.request(c, cmd, name)
		if err != nil {
			return err
		}
		if err := lay(body, want); err != nil {
			return err
		}
		s, r, err := c.reach(cmd, "cluster")
		if err != nil {
			return err
		}
		verb := "created"
		if s.has(ctx, r, name) {
			verb = "exists already" // whoever joins a cluster may say so again, which changes nothing
		}
		if b.file == "" && len(b.sets) == 0 && verb == "created" {
			if err := placeKnown(want, cmd.CommandPath()); err != nil {
				return err
			}
		}
		o, err := s.Create(ctx, r.Name, body)
		if err != nil {
			return err
		}
		return c.finish(cmd, s, outcome{resource: r, object: o, verb: verb, goal: goal{word: "ready"}, wait: w})
	}
	f.register(c, cmd)
	cmd.Flags().StringVarP(&b.file, "file", "f", "", "`file` with the request in YAML or JSON, - for standard input")
	cmd.Flags().StringArrayVar(&b.sets, "set", nil, "any field of the request, `FIELD=VALUE`")
	w.register(cmd, "ready")
	setDefault(cmd, "timeout", clusterWait)
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// oneCluster finds the cluster that a command is for.
func (c *CLI) oneCluster(cmd *cobra.Command, name string) (*session, v1.Resource, v1.Object, error) {
	s, r, err := c.reach(cmd, "cluster")
	if err != nil {
		return nil, r, v1.Object{}, err
	}
	o, err := s.find(cmd.Context(), r, bare([]string{name})[0], "")
	return s, r, o, err
}

// completeNames offers the names of one resource.
func (c *CLI) completeNames(resource string, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.namesOf(cmd, resource, prefix, args)
	}
}

func (c *CLI) namesOf(cmd *cobra.Command, resource, prefix string, but []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	s, err := c.connect(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	page, err := s.List(ctx, resource, client.ListOptions{Size: 200})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.DeleteFunc(objectNames(page.Items), func(w string) bool {
		return !strings.HasPrefix(w, prefix) || slices.Contains(but, w)
	}), cobra.ShellCompDirectiveNoFileComp
}
