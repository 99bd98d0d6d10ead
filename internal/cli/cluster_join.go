package cli

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) registerCluster() *cobra.Command {
	var f clusterFlags
	var w waitFlags
	var way joinWay
	cmd := &cobra.Command{
		Use:   "register NAME",
		Short: "Bring a Kubernetes cluster that is there into the fleet",
		Long: `Makes a cluster known and prints one line, which whoever administrates the cluster runs
on it. The line installs the agent, which connects out: nothing needs to reach the
cluster. The line alone goes to standard output.

The line works for an hour and for this one cluster; run the command again for another
one, which leaves the cluster as it is.

With --kubeconfig no line is needed: the control plane makes the cluster fit from where it
is, and puts the agent there.`,
		Example: `  drover cluster register edge --provider aws --region us-east-1
  drover cluster register edge --provider aws --region us-east-1 --label zone=b --wait
  drover cluster register edge --provider aws --region us-east-1 --kubeconfig edge.kubeconfig
  drover cluster register edge                 # another line for the same cluster
  drover cluster register edge --helm
  drover cluster register edge --runtime argocd
  drover cluster register far --provider aws --region us-east-1 --namespace drover-far   # beside the agent of edge, in one Kubernetes`,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			want, err := f.request(c, cmd, bare(args)[0])
			if err != nil {
				return err
			}
			s, r, err := c.reach(cmd, "cluster")
			if err != nil {
				return err
			}
			o, err := s.Get(ctx, r.Name, want.Name, "")
			switch {
			case err == nil:
				if err := c.known(o, want); err != nil {
					return err
				}
			case client.Status(err) != 404:
				return err
			default:
				if err := placeKnown(want, "drover cluster register"); err != nil {
					return err
				}
				if o, err = s.Create(ctx, r.Name, want); err != nil {
					return err
				}
				if want.Kubeconfig != "" {
					return c.showReached(cmd, s, r, o, w)
				}
			}
			return c.showJoin(cmd, s, r, o, way, w)
		},
	}
	f.register(c, cmd)
	return c.joinFlags(cmd, &way, &w)
}

// known refuses to register a cluster a second time as another one.
func (c *CLI) known(o v1.Object, want v1.CreateCluster) error {
	s := clusterOf(o)
	switch {
	case want.Provider != "" && want.Provider != s.Spec.Provider || want.Region != "" && want.Region != s.Spec.Region:
		return &conflictError{fmt.Sprintf("cluster %s is there already, in %s/%s: that does not change. Give another name, or delete it first",
			quoted(o.ID), clean(s.Spec.Provider, false), clean(s.Spec.Region, false))}
	case want.Kubeconfig != "" || want.Profile != "" && want.Profile != s.Spec.Profile:
		return &conflictError{fmt.Sprintf("cluster %s is there already: its profile and kubeconfig do not change. `drover cluster join %s` prints another line", quoted(o.ID), clean(o.ID, false))}
	case len(want.Labels)+len(want.Taints) > 0 || want.Limit != nil || want.Domain != "":
		c.note("cluster %s is there already and stays as it is: `drover cluster label`, `taint` and `limit` change it", quoted(o.ID))
	}
	return nil
}

func (c *CLI) joinCluster() *cobra.Command {
	var w waitFlags
	var way joinWay
	cmd := &cobra.Command{
		Use:   "join NAME",
		Short: "Print another line that installs a cluster's agent",
		Long: `Prints a new line for a cluster that is known. Run it again on the cluster after an
offering has changed that needs other rights, too: what runs there is left alone.`,
		Example: `  drover cluster join edge
  drover cluster join edge --helm --wait`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("clusters", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, r, o, err := c.oneCluster(cmd, args[0])
			if err != nil {
				return err
			}
			return c.showJoin(cmd, s, r, o, way, w)
		},
	}
	return c.joinFlags(cmd, &way, &w)
}

// joinWay is how an agent is put onto a cluster.
type joinWay struct {
	helm      bool
	runtime   string
	namespace string
}

func (c *CLI) joinFlags(cmd *cobra.Command, way *joinWay, w *waitFlags) *cobra.Command {
	cmd.Flags().StringVar(&way.runtime, "runtime", "", "what the agent works with: kubernetes, or argocd where deployments go through an Argo CD of the cluster [kubernetes]")
	cmd.RegisterFlagCompletionFunc("runtime", cobra.FixedCompletions([]string{"kubernetes", "argocd"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&way.helm, "helm", false, "the line for Helm and the chart deploy/helm/drover-agent")
	cmd.Flags().StringVar(&way.namespace, "namespace", "", "`namespace` of the agent: one of its own, where the Kubernetes has the agent of another cluster already [drover-system]")
	w.register(cmd, "ready")
	setDefault(cmd, "timeout", clusterWait)
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

// setDefault gives a command a longer patience than others have.
func setDefault(cmd *cobra.Command, name string, d time.Duration) {
	flag := cmd.Flags().Lookup(name)
	flag.DefValue = d.String()
	_ = flag.Value.Set(flag.DefValue) // a duration that was printed can be read
}

// showJoin prints the line, and beside it how long it works and what comes next.
func (c *CLI) showJoin(cmd *cobra.Command, s *session, r v1.Resource, o v1.Object, way joinWay, w waitFlags) error {
	if err := oneOf("", "kubernetes", "argocd")(way.runtime); err != nil {
		return usagef("--runtime %s: it is kubernetes or argocd", quoted(way.runtime))
	}
	helm := way.helm
	join, err := s.Join(cmd.Context(), o.ID, way.runtime, way.namespace)
	if err != nil {
		return fmt.Errorf("cluster %s is known, but there is no line for it: %w", quoted(o.ID), err)
	}
	format := output(cmd)
	switch {
	case format == "json" || format == "yaml":
		if err := c.print(format, struct {
			Cluster v1.Object `json:"cluster"`
			v1.Join
		}{o, join}); err != nil {
			return err
		}
	case helm:
		c.printf("%s\n", clean(join.Helm, false))
	default:
		c.printf("%s\n", clean(join.Command, false))
	}
	left := join.Expires.Sub(c.now()).Round(time.Minute)
	tool := "kubectl"
	if helm {
		tool = "helm"
	}
	c.note("Run this line where %s administrates cluster %s. It works until %s (%s) and holds a token: hand it on with care.",
		tool, clean(o.ID, false), join.Expires.Local().Format("15:04:05"), age(left))
	if at := lineServer(join.Command); client.Loopback(at) {
		c.note("It names %s, which only this machine reaches: start the server with --public-url for a cluster elsewhere.", clean(at, false))
	}
	rights := "drover deploy rights"
	if way.namespace == "" {
		c.note("In a Kubernetes that has the agent of another cluster already it would take that one's place: give this one a namespace of its own then (--namespace).")
	} else {
		rights += " --account " + clean(way.namespace, false) + "/drover-agent"
	}
	c.note("It brings the rights for instances of the fleet's offerings; `%s` prints those for deployments.", rights)
	if !w.wait {
		c.note("The agent then connects out, and the cluster becomes ready: `drover wait cluster %s` waits for it.", clean(o.ID, false))
		return nil
	}
	_, err = c.wait(cmd.Context(), s, waiting{resource: r, object: o, goal: goal{word: "ready"}, since: o.Version, timeout: w.timeout, out: c.cfg.Err, live: c.tty && format == ""})
	return err
}

// showReached tells of a cluster that the control plane reaches itself.
func (c *CLI) showReached(cmd *cobra.Command, s *session, r v1.Resource, o v1.Object, w waitFlags) error {
	if format := output(cmd); format == "json" || format == "yaml" {
		if w.wait {
			var err error
			if o, err = c.wait(cmd.Context(), s, waiting{resource: r, object: o, goal: goal{word: "ready"}, timeout: w.timeout, out: c.cfg.Err}); err != nil {
				return err
			}
		}
		return c.print(format, struct {
			Cluster v1.Object `json:"cluster"`
		}{o})
	}
	if !w.wait {
		c.note("The control plane makes it fit and puts its agent there, with the kubeconfig: no line is needed.")
	}
	return c.finish(cmd, s, outcome{resource: r, object: o, verb: "created", goal: goal{word: "ready"}, wait: w})
}

// lineServer is the host that a line fetches from.
func lineServer(line string) string {
	_, rest, _ := strings.Cut(line, `"`)
	at, err := url.Parse(strings.TrimSuffix(rest, `"`))
	if err != nil {
		return ""
	}
	return at.Hostname()
}
