package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) deployCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "deploy",
		Aliases: []string{"deployment"},
		Short:   "Deployments: directories of Git repositories on clusters, through Argo CD or without",
		Long: `A deployment brings a directory of a Git repository to a namespace of a cluster and keeps it
so: what is pushed is applied, what is removed is pruned, what is changed by hand is put right.

  drover deploy create shop --repo https://git.example.org/shop.git --path k8s --to edge/shop --wait
  drover deploy create shop --repo URL --path k8s --to-selector region=eu,tier=prod --namespace shop
  drover deploy get ; drover deploy status shop              what is deployed, and how it is
  drover deploy history shop ; drover deploy rollback shop   commits that were there, and the way back
  drover deploy sync shop --revision v2 --wait               of a manual one (--manual)
  drover deploy repository put shop --url URL --username ci --password-file token
  drover deploy target put mine --kubeconfig FILE --url https://...
  drover deploy webhook                                      so that a push arrives in seconds`,
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.createDeploy(), c.updateDeploy(), c.deleteDeploy(),
		c.onDeployments(c.getCommand(), "get [NAME...]", "List deployments", "  drover deploy get\n  drover deploy get shop -o yaml"),
		c.onDeployments(c.describeCommand(), "describe NAME...", "A deployment with its whole history in the control plane", "  drover deploy describe shop"),
		c.statusDeploy(), c.historyDeploy(), c.diffDeploy(), c.syncDeploy(), c.terminateDeploy(), c.refreshDeploy(), c.rollbackDeploy(),
		c.repositoryCommand(), c.targetCommand(), c.workspaceCommand(), c.webhookDeploy(), c.manifestsDeploy(), c.rightsDeploy())
	return cmd
}

// onDeployments is a verb of all resources for this one.
func (c *CLI) onDeployments(verb *cobra.Command, use, short, example string) *cobra.Command {
	verb.Use, verb.Short, verb.Long, verb.Example, verb.GroupID = use, short, "", example, ""
	verb.ValidArgsFunction = c.completeNames("deployments", -1)
	run := verb.RunE
	verb.Args = arguments(0, -1)
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		names := make([]string, len(args))
		for i, name := range args {
			names[i] = bareDeploy(name)
		}
		return run(cmd, append([]string{"deployments"}, names...))
	}
	return verb
}

// bareDeploy takes the resource off a name that `-o name` printed.
func bareDeploy(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "deployments/"), "deployment/")
}

// oneDeploy finds a deployment.
func (c *CLI) oneDeploy(cmd *cobra.Command, arg string) (*session, v1.Resource, v1.Object, error) {
	s, r, err := c.reach(cmd, "deployments")
	if err != nil {
		return nil, r, v1.Object{}, err
	}
	o, err := s.find(cmd.Context(), r, bareDeploy(arg), "")
	return s, r, o, err
}

// deployState is what the client reads of a deployment's documents.
type deployState struct {
	Spec struct {
		Repository, Path, Revision string
		Automated                  bool
		SyncOptions                []string `json:"sync_options"`
		To                         struct {
			Cluster, Target, Namespace string
			Selector                   map[string]string
		}
	}
	Status struct {
		Engine, Error string
		Unread        string
		Operation     string
		Conditions    []struct{ Type, Status, Message string }
		Issued        int64
		Observed      *struct {
			Generation int64
			Message    string
			Detail     struct {
				Sync, Health struct{ Status, Revision, Message string }
				Compared     *struct{ Repository, Path, Revision string }
			}
		}
	}
}

func deployOf(o v1.Object) (s deployState) {
	// What cannot be read is left out: the object is shown all the same.
	_ = json.Unmarshal(o.Spec, &s.Spec)
	_ = json.Unmarshal(o.Status, &s.Status)
	return s
}

// trouble is what is wrong with a deployment; empty: nothing is known.
func (s deployState) trouble() string {
	if s.Status.Error != "" {
		return s.Status.Error
	}
	for _, c := range s.Status.Conditions {
		if c.Status == "True" && c.Message != "" {
			return c.Type + ": " + c.Message
		}
	}
	if o := s.Status.Observed; o != nil && o.Detail.Health.Message != "" {
		return o.Detail.Health.Message
	}
	return ""
}

func (s deployState) destination() string {
	to := s.Spec.To
	where := to.Cluster
	switch {
	case to.Target != "":
		where = "target:" + to.Target
	case len(to.Selector) > 0:
		where = "selector:" + strings.Join(pairsOf(to.Selector), ",")
	case where == "":
		where = s.Status.Engine
	}
	return where + "/" + to.Namespace
}

// deployed is the goal of who waits for a deployment: the wish was carried out,
// and what was compared with the cluster is what is wanted now. Of a manual one
// nothing more can be waited for than that its cluster has it.
func deployed(o v1.Object) goal {
	return goal{word: "deployed", judge: func(now v1.Object) (bool, error) {
		s := deployOf(now)
		if now.Version < o.Version || s.Status.Operation != "" {
			return false, nil
		}
		if seen := s.Status.Observed; seen != nil {
			c := seen.Detail.Compared
			if seen.Generation < s.Status.Issued || c != nil && (c.Path != s.Spec.Path || strings.TrimPrefix(c.Revision, "HEAD") != s.Spec.Revision || c.Repository != s.Spec.Repository) {
				return false, nil // what is known is of the wish before
			}
		}
		switch {
		case now.Phase == "failed":
			return false, errors.New(s.trouble())
		case now.Phase == "deployed":
			return true, nil
		}
		return !s.Spec.Automated && (now.Phase == "outofsync" || s.Status.Observed != nil), nil
	}}
}

// deployWait is how long --wait waits.
const deployWait = 10 * time.Minute

func (c *CLI) createDeploy() *cobra.Command {
	var d v1.CreateDeployment
	var w waitFlags
	var to, target string
	var selector []string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Bring a directory of a Git repository to a namespace, and keep it so",
		Long: `Asking again for what is there already changes nothing and is no failure; for something else it is
(exit code 5): drover deploy update changes a deployment. With --wait the command ends once the cluster has
what Git has (0), once it is certain that it cannot (1, with the reason), or after --timeout (124).`,
		Example: `  drover deploy create shop --repo https://git.example.org/shop.git --path k8s --to edge/shop --wait
  drover deploy create shop --repo git@git.example.org:team/shop.git --path k8s --revision v1.2 --to edge/shop --manual
  drover deploy create agents --repo URL --path k8s --to-selector region=eu,tier=prod --namespace agents`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.Name = args[0]
			if err := given(cmd, "repo", "path"); err != nil {
				return err
			}
			if err := destination(&d, to, target, selector); err != nil {
				return err
			}
			s, r, err := c.reach(cmd, "deployments")
			if err != nil {
				return err
			}
			order := d
			if len(order.SyncOptions) == 0 {
				order.SyncOptions = []string{"CreateNamespace=true"}
			}
			o, err := s.CreateDeployment(cmd.Context(), order)
			done := outcome{resource: r, object: o, verb: "accepted", goal: deployed(o), wait: w, since: o.Version}
			if client.Status(err) == http.StatusConflict {
				done, err = s.sameDeploy(cmd, r, d, w, err)
			}
			if err != nil {
				return err
			}
			if why := deployOf(done.object).Status.Error; why != "" && !w.wait {
				c.note("%s", clean(why, false))
			}
			return c.finish(cmd, s, done)
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.Repository, "repo", "", "`URL` of the Git repository: https://, http://, ssh:// or git@host:path")
	f.StringVar(&d.Path, "path", "", "directory of the manifests in it")
	f.StringVar(&d.Revision, "revision", "", "branch, tag or commit [the default branch]")
	f.StringVar(&to, "to", "", "`CLUSTER/NAMESPACE` of the fleet")
	f.StringVar(&target, "to-target", "", "`TARGET/NAMESPACE`: a cluster that you brought along (drover deploy target put)")
	f.StringSliceVar(&selector, "to-selector", nil, "`KEY=VALUE,...`: all clusters with these labels (and region, provider), as they come and go")
	f.StringVar(&d.Namespace, "namespace", "", "namespace there, with --to-selector")
	f.StringVar(&d.Workspace, "workspace", "", "`name` of the workspace [default]")
	f.BoolVar(&d.Manual, "manual", false, "do nothing before a sync is asked for (drover deploy sync)")
	f.StringSliceVar(&d.SyncOptions, "sync-option", nil, "`CreateNamespace=false`: fail if the namespace is not there, instead of making it")
	c.completeDeploy(cmd)
	w.register(cmd, "deployed")
	setDefault(cmd, "timeout", deployWait)
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// given refuses a command without what it cannot do without.
func given(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if f := cmd.Flags().Lookup(name); f.Value.String() == "" {
			return usagef("%s wants --%s", cmd.CommandPath(), name)
		}
	}
	return nil
}

// destination reads where a deployment goes.
func destination(d *v1.CreateDeployment, to, target string, selector []string) error {
	ways := 0
	for _, given := range []bool{to != "", target != "", len(selector) > 0} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return usagef("say where it goes with one of --to CLUSTER/NAMESPACE, --to-target TARGET/NAMESPACE and --to-selector KEY=VALUE")
	}
	if len(selector) > 0 {
		labels, err := labelEdits(selector, false)
		if err != nil {
			return err
		}
		if d.Namespace == "" {
			return usagef("--to-selector wants --namespace: where on each of the clusters")
		}
		d.Selector = labels
		return nil
	}
	where, namespace, ok := strings.Cut(to+target, "/")
	if !ok || where == "" || namespace == "" {
		return usagef("%s is no CLUSTER/NAMESPACE: edge/shop is one", quoted(to+target))
	}
	if d.Namespace != "" && d.Namespace != namespace {
		return usagef("--namespace says another namespace than %s", quoted(to+target))
	}
	if d.Namespace = namespace; to != "" {
		d.Cluster = where
	} else {
		d.Target = where
	}
	return nil
}

func (c *CLI) updateDeploy() *cobra.Command {
	var repo, path, revision, namespace string
	var manual, automated bool
	var w waitFlags
	cmd := &cobra.Command{
		Use:               "update NAME",
		Short:             "Change a deployment: another revision, path, namespace, or whether Git is followed",
		Example:           "  drover deploy update shop --revision v1.3 --wait\n  drover deploy update shop --manual",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("deployments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var u v1.UpdateDeployment
			for name, field := range map[string]struct {
				into **string
				from *string
			}{"repo": {&u.Repository, &repo}, "path": {&u.Path, &path}, "revision": {&u.Revision, &revision}, "namespace": {&u.Namespace, &namespace}} {
				if cmd.Flags().Changed(name) {
					*field.into = field.from
				}
			}
			switch {
			case manual && automated:
				return usagef("--manual and --automated are opposites")
			case manual || automated:
				u.Manual = &manual
			}
			if u == (v1.UpdateDeployment{}) {
				return usagef("say what is to change: --revision, --repo, --path, --namespace, --manual or --automated")
			}
			s, r, before, err := c.oneDeploy(cmd, args[0])
			if err != nil {
				return err
			}
			o, err := s.Update(cmd.Context(), r.Name, before.ID, u)
			if err != nil {
				return err
			}
			done := changed(r, before, o, "updated")
			done.goal, done.wait, done.since = deployed(o), w, o.Version
			return c.finish(cmd, s, done)
		},
	}
	f := cmd.Flags()
	f.StringVar(&repo, "repo", "", "`URL` of the Git repository")
	f.StringVar(&path, "path", "", "directory in it")
	f.StringVar(&revision, "revision", "", "branch, tag or commit")
	f.StringVar(&namespace, "namespace", "", "namespace on the cluster")
	f.BoolVar(&manual, "manual", false, "do nothing before a sync is asked for")
	f.BoolVar(&automated, "automated", false, "follow Git")
	w.register(cmd, "deployed")
	setDefault(cmd, "timeout", deployWait)
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// takeAway deletes something; a deployment without what it has deployed, if that is said.
func (s *session) takeAway(cmd *cobra.Command, r v1.Resource, o v1.Object) (v1.Object, error) {
	if keep, err := cmd.Flags().GetBool("keep"); err == nil && keep {
		return s.ForgetDeployment(cmd.Context(), o.ID)
	}
	return s.Delete(cmd.Context(), r.Name, o.ID)
}

func (c *CLI) deleteDeploy() *cobra.Command {
	remove := c.deleteCommand()
	remove.Use, remove.Short, remove.GroupID = "delete NAME...", "Remove deployments with all that they have deployed", ""
	remove.Long = `Everything that was deployed is removed, and then the deployment. With --keep it is left as it is, and the deployment is
forgotten; an Application of Argo CD goes without what it has deployed. That is also the way out where the agent lacks the right
to remove something (drover deploy status tells which): say it again with --keep, and drover deploy rights for the next time.
That cannot be taken back.`
	remove.Example = "  drover deploy delete shop --wait\n  drover deploy delete shop --keep"
	remove.Flags().Bool("keep", false, "leave what was deployed as it is")
	remove.ValidArgsFunction = c.completeNames("deployments", -1)
	run := remove.RunE
	remove.RunE = func(cmd *cobra.Command, args []string) error {
		names := []string{"deployment"}
		for _, name := range args {
			names = append(names, bareDeploy(name))
		}
		return run(cmd, names)
	}
	return remove
}
