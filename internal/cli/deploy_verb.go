package cli

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) syncDeploy() *cobra.Command {
	var body v1.SyncDeployment
	var w waitFlags
	cmd := &cobra.Command{
		Use:   "sync NAME",
		Short: "Bring what is in Git to the cluster now: one sync of a manual deployment",
		Long: `The repository is looked at anew, then the revision is applied. Syncs of a deployment are
carried out one after the other; each is a sync run that keeps its outcome: drover get syncruns.`,
		Example:           "  drover deploy sync shop --wait\n  drover deploy sync shop --revision v1.3 --prune --wait",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("deployments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, o, err := c.oneDeploy(cmd, args[0])
			if err != nil {
				return err
			}
			run, err := s.SyncDeployment(cmd.Context(), o.ID, body)
			if err != nil {
				return err
			}
			r, err := s.resource(cmd.Context(), "syncruns")
			if err != nil {
				return err
			}
			return c.finish(cmd, s, outcome{resource: r, object: run, verb: "accepted", goal: goal{word: "succeeded"}, wait: w, since: run.Version})
		},
	}
	cmd.Flags().StringVar(&body.Revision, "revision", "", "branch, tag or commit [the deployment's]")
	cmd.Flags().BoolVar(&body.Prune, "prune", false, "remove what is no longer in Git")
	w.register(cmd, "done")
	setDefault(cmd, "timeout", deployWait)
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) terminateDeploy() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "terminate RUN",
		Short:             "End a sync run that waits or runs",
		Example:           "  drover get syncruns\n  drover deploy terminate shop-4k2f",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("syncruns", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, r, err := c.reach(cmd, "syncruns")
			if err != nil {
				return err
			}
			before, err := s.find(cmd.Context(), r, args[0], "")
			if err != nil {
				return err
			}
			o, err := s.TerminateSync(cmd.Context(), before.ID)
			if err != nil {
				return err
			}
			return c.finish(cmd, s, changed(r, before, o, "is being ended"))
		},
	}
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) refreshDeploy() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "refresh NAME",
		Short:             "Have the repository looked at now",
		Example:           "  drover deploy refresh shop",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("deployments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, r, before, err := c.oneDeploy(cmd, args[0])
			if err != nil {
				return err
			}
			o, err := s.RefreshDeployment(cmd.Context(), before.ID)
			if err != nil {
				return err
			}
			return c.finish(cmd, s, outcome{resource: r, object: o, verb: "is looked at"})
		},
	}
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) rollbackDeploy() *cobra.Command {
	var to string
	var w waitFlags
	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Go back to an earlier revision, and stay there",
		Long: `The deployment is pinned to a commit of its history, and to the repository and directory that it was
deployed from. ` + "`drover deploy update NAME --revision BRANCH`" + ` follows the branch again.`,
		Example:           "  drover deploy history shop\n  drover deploy rollback shop --to 3 --wait",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("deployments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, r, before, err := c.oneDeploy(cmd, args[0])
			if err != nil {
				return err
			}
			body := v1.RollbackDeployment{Revision: to}
			if id, err := strconv.ParseInt(to, 10, 32); err == nil && len(to) < 7 { // more digits are a commit
				body = v1.RollbackDeployment{ID: &id}
			}
			o, err := s.RollbackDeployment(cmd.Context(), before.ID, body)
			if err != nil {
				return err
			}
			done := changed(r, before, o, "goes back")
			done.goal, done.wait, done.since = deployed(o), w, o.Version
			return c.finish(cmd, s, done)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`id or commit` of the history [the one before the last]")
	cmd.RegisterFlagCompletionFunc("to", c.completeHistory)
	w.register(cmd, "deployed")
	setDefault(cmd, "timeout", deployWait)
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// readDeploy is a command that shows a deployment's status in some way.
func (c *CLI) readDeploy(cmd *cobra.Command, text func(v1.DeploymentStatus) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = arguments(1, 1), c.completeNames("deployments", 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, _, o, err := c.oneDeploy(cmd, args[0])
		if err != nil {
			return err
		}
		status, err := s.DeploymentStatus(cmd.Context(), o.ID)
		if err != nil {
			return err
		}
		if format := output(cmd); format == "json" || format == "yaml" {
			return c.print(format, status)
		}
		return text(status)
	}
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) statusDeploy() *cobra.Command {
	return c.readDeploy(&cobra.Command{Use: "status NAME", Short: "How a deployment is: sync, health, troubles, and each of its objects",
		Example: "  drover deploy status shop"}, func(d v1.DeploymentStatus) error {
		c.printf("%s is %s\n", clean(d.Name, false), d.Phase)
		c.printf("sync    %s %s\n", cmp.Or(d.Sync, "Unknown"), first12(clean(d.Revision, false)))
		c.printf("health  %s %s\n", cmp.Or(d.Health, "Unknown"), clean(d.Message, false))
		if k := d.Compared; k != nil {
			c.printf("compared  %s %s %s with %s\n", clean(k.Repository, false), clean(k.Path, false), clean(cmp.Or(k.Revision, "HEAD"), false),
				clean(strings.TrimPrefix(k.Target+"/"+k.Namespace, "/"), false))
		}
		for _, k := range d.Conditions {
			if k.Status == "True" {
				c.printf("%s: %s\n", clean(k.Type, false), strings.ReplaceAll(clean(k.Message, true), "\n", "\n  "))
			}
		}
		if h := d.Healed; h != nil {
			c.printf("put right at %s: %s\n", h.At.Local().Format(time.DateTime), clean(h.What, false))
		}
		if len(d.Resources) == 0 {
			return nil
		}
		c.printf("\n")
		t := &table{head: []string{"KIND", "NAMESPACE", "NAME", "SYNC", "HEALTH", "MESSAGE"}}
		for _, r := range d.Resources {
			t.add(r.Kind, r.Namespace, r.Name, r.Status, r.Health, r.Message)
		}
		if err := t.write(c.cfg.Out); err != nil {
			return err
		}
		if d.More > 0 {
			c.printf("and %d more\n", d.More)
		}
		return nil
	})
}

func (c *CLI) historyDeploy() *cobra.Command {
	return c.readDeploy(&cobra.Command{Use: "history NAME", Short: "Commits that were deployed: when, by whom, and how long it took",
		Example: "  drover deploy history shop"}, func(d v1.DeploymentStatus) error {
		t := &table{head: []string{"ID", "COMMIT", "PATH", "DEPLOYED", "TOOK", "CAUSE", "AUTHOR", "MESSAGE"}}
		for _, h := range d.History {
			t.add(strconv.FormatInt(h.ID, 10), first12(h.Revision), h.Path, h.Deployed.Local().Format(time.DateTime), took(h), causeOf(h), h.Author, h.Message)
		}
		if len(d.History) == 0 {
			c.note("nothing was deployed yet")
			return nil
		}
		return t.write(c.cfg.Out)
	})
}

// took is how long a sync was under way; empty: that is not known. Argo CD counts
// whole seconds, so that most have none.
func took(h v1.DeployedRevision) string {
	d := h.Deployed.Sub(h.Started).Round(time.Second)
	switch {
	case h.Started.IsZero() || d < 0:
		return ""
	case d == 0:
		return "<1s"
	}
	return d.String()
}

// causeOf is why a revision was deployed, as far as that is known.
func causeOf(h v1.DeployedRevision) string {
	switch {
	case h.Cause != "":
		return briefCause(h.Cause)
	case h.By == "" || h.By == "automated":
		return h.By
	}
	return "sync " + h.By
}

func (c *CLI) diffDeploy() *cobra.Command {
	return c.readDeploy(&cobra.Command{Use: "diff NAME", Short: "What is in the cluster against what is in Git",
		Long: `Objects that differ, with the lines that a sync would change: - as it is, + as Git has it. What Git has no
longer is removed by a sync that prunes. Values of Secrets are not shown, only that they differ.`,
		Example: "  drover deploy diff shop"}, func(d v1.DeploymentStatus) error {
		told := map[string]bool{}
		for _, x := range d.Diff {
			told[x.Kind+"/"+x.Namespace+"/"+x.Name] = true
			c.printf("%s %s\n", objectName(x.Kind, x.Namespace, x.Name), changes[x.Change])
			if x.Text != "" {
				c.printf("%s\n", clean(x.Text, true))
			}
		}
		differ := len(d.Diff)
		for _, r := range d.Resources {
			if r.Status == "OutOfSync" && !told[r.Kind+"/"+r.Namespace+"/"+r.Name] {
				differ++
				c.printf("%s is %s\n", objectName(r.Kind, r.Namespace, r.Name), cmp.Or(missing(r), "not as Git has it"))
			}
		}
		switch {
		case differ == 0 && d.Sync == "OutOfSync":
			c.note("%s is OutOfSync, and what differs is not known yet", clean(d.Name, false))
		case differ == 0:
			c.note("nothing differs: %s is %s", clean(d.Name, false), cmp.Or(d.Sync, "not compared yet"))
		case d.NoDiff != "":
			c.note("there are no lines: %s", clean(d.NoDiff, false))
		}
		return nil
	})
}

// changes are what a sync would do, in words.
var changes = map[string]string{"create": "is to be created", "remove": "is to be removed by a sync with --prune", "change": "is to be changed", "": "differs"}

func objectName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return clean(kind+" "+name, false)
}

func missing(r v1.DeployedResource) string {
	if r.Health == "Missing" {
		return "not there yet"
	}
	return ""
}
