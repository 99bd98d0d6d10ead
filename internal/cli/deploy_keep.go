package cli

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

// keeping is a group of commands on something that deployments need.
func (c *CLI) keeping(resource, singular, short, long string, put *cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: singular, Short: short, Long: long, Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	list := c.getCommand()
	list.Use, list.Short, list.Long, list.Example, list.GroupID = "get [NAME...]", "List them", "", "  drover deploy "+singular+" get", ""
	list.ValidArgsFunction, list.Args = c.completeNames(resource, -1), arguments(0, -1)
	run := list.RunE
	list.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, append([]string{resource}, args...)) }
	group.AddCommand(put, list)
	remove := c.deleteCommand()
	remove.Use, remove.Short, remove.Long, remove.GroupID = "delete NAME...", "Take it away", "", ""
	remove.Example = "  drover deploy " + singular + " delete shop"
	if resource == "workspaces" {
		remove.Short = "Forget one in which nothing is any more (operators)"
	}
	remove.ValidArgsFunction, remove.Args = c.completeNames(resource, -1), arguments(1, -1)
	take := remove.RunE
	remove.RunE = func(cmd *cobra.Command, args []string) error { return take(cmd, append([]string{resource}, args...)) }
	group.AddCommand(remove)
	return group
}

// kept shows what was put.
func (c *CLI) kept(cmd *cobra.Command, s *session, resource string, o v1.Object) error {
	r, err := s.resource(cmd.Context(), resource)
	if err != nil {
		return err
	}
	return c.finish(cmd, s, outcome{resource: r, object: o, verb: "kept"})
}

func (c *CLI) repositoryCommand() *cobra.Command {
	var r v1.PutRepository
	var password, key, hosts string
	put := &cobra.Command{
		Use:   "put NAME",
		Short: "Keep the credential of a repository, or replace it",
		Long: `It is tried at once (drover deploy repository get tells how that went), sealed, and used for
deployments of this repository alone. Replacing it reaches the clusters by itself.`,
		Example: `  drover deploy repository put shop --url https://git.example.org/shop.git --username ci --password-file token
  drover deploy repository put shop --url ssh://git@git.example.org/shop.git --ssh-key ~/.ssh/id_ed25519 --known-hosts ~/.ssh/known_hosts`,
		Args: arguments(1, 1), ValidArgsFunction: c.completeNames("repositories", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := given(cmd, "url"); err != nil {
				return err
			}
			for file, into := range map[*string]*string{&password: &r.Password, &key: &r.SSHKey, &hosts: &r.KnownHosts} {
				if *file == "" {
					continue
				}
				data, err := c.readInput(*file)
				if err != nil {
					return err
				}
				*into = string(data)
			}
			r.Password = strings.TrimRight(r.Password, "\r\n")
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			o, err := s.PutRepository(cmd.Context(), args[0], r)
			if err != nil {
				return err
			}
			return c.kept(cmd, s, "repositories", o)
		},
	}
	f := put.Flags()
	f.StringVar(&r.URL, "url", "", "`URL` of the repository: https:// or ssh://")
	f.StringVar(&r.Username, "username", "", "user name, for https")
	f.StringVar(&password, "password-file", "", "`file` with the password or token, - for standard input")
	f.StringVar(&key, "ssh-key", "", "`file` with the private key, for ssh")
	f.StringVar(&hosts, "known-hosts", "", "`file` with the host keys, for ssh [the server's]")
	f.StringVar(&r.Workspace, "workspace", "", "`name` of the workspace [default]")
	outputFlag(put, "text", "json", "yaml", "name")
	return c.keeping("repositories", "repository", "Credentials of repositories", "", put)
}

func (c *CLI) targetCommand() *cobra.Command {
	var t v1.PutTarget
	var kubeconfig string
	put := &cobra.Command{
		Use:   "put NAME",
		Short: "Take in a cluster that you bring along, or replace how it is reached",
		Example: `  drover deploy target put mine --url https://api.example.org:6443 --kubeconfig mine.kubeconfig
  drover deploy target put mine --url https://api.example.org:6443 --kubeconfig mine.kubeconfig --new-account --allow-namespace shop`,
		Args: arguments(1, 1), ValidArgsFunction: c.completeNames("targets", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := given(cmd, "url", "kubeconfig"); err != nil {
				return err
			}
			data, err := c.readInput(kubeconfig)
			if err != nil {
				return err
			}
			t.Kubeconfig = string(data)
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			o, err := s.PutTarget(cmd.Context(), args[0], t)
			if err != nil {
				return err
			}
			return c.kept(cmd, s, "targets", o)
		},
	}
	f := put.Flags()
	f.StringVar(&t.URL, "url", "", "`URL` of its API, as the kubeconfig has it")
	f.StringVar(&kubeconfig, "kubeconfig", "", "`file` to reach it with, - for standard input")
	f.BoolVar(&t.NewAccount, "new-account", false, "make a service account there and use its token [the kubeconfig's]")
	f.BoolVar(&t.Insecure, "insecure-skip-tls-verify", false, "do not verify its certificate")
	f.StringSliceVar(&t.Namespaces, "allow-namespace", nil, "`namespace` that may be deployed to; may be repeated [all]")
	f.BoolVar(&t.ClusterResources, "cluster-resources", false, "objects without a namespace may be deployed, with --allow-namespace")
	f.StringVar(&t.Workspace, "workspace", "", "`name` of the workspace [default]")
	outputFlag(put, "text", "json", "yaml", "name")
	return c.keeping("targets", "target", "Clusters that you bring along", "", put)
}

func (c *CLI) workspaceCommand() *cobra.Command {
	var w v1.PutWorkspace
	var reach []string
	put := &cobra.Command{
		Use:     "put NAME",
		Short:   "Say where an organisation may deploy to (operators)",
		Example: "  drover deploy workspace put acme --org 13640203 --reach 'edge/acme-*' --engine edge",
		Args:    arguments(1, 1), ValidArgsFunction: c.completeNames("workspaces", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, text := range reach {
				cluster, namespaces, ok := strings.Cut(text, "/")
				if !ok || cluster == "" || namespaces == "" {
					return usagef("--reach is CLUSTER/NAMESPACE[,NAMESPACE...], and %s is not", quoted(text))
				}
				w.Reach = append(w.Reach, v1.Reach{Cluster: cluster, Namespaces: strings.Split(namespaces, ",")})
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			o, err := s.PutWorkspace(cmd.Context(), args[0], w)
			if err != nil {
				return err
			}
			return c.kept(cmd, s, "workspaces", o)
		},
	}
	f := put.Flags()
	f.StringVar(&w.Org, "org", "", "organisation whose it is [the name]")
	f.StringArrayVar(&reach, "reach", nil, "`CLUSTER/NAMESPACE,...`: cluster * is any, a namespace may end in *; may be repeated")
	f.StringVar(&w.Engine, "engine", "", "`cluster` whose agent carries out deployments to targets")
	f.BoolVar(&w.ClusterResources, "cluster-resources", false, "objects without a namespace may be deployed")
	outputFlag(put, "text", "json", "yaml", "name")
	return c.keeping("workspaces", "workspace", "Where organisations may deploy to", "", put)
}

func (c *CLI) webhookDeploy() *cobra.Command {
	var rotate bool
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Where a Git server is to send pushes, and the secret that signs them",
		Long: `Add a webhook for pushes to your repositories at GitHub, GitLab, Gitea, Forgejo or Bitbucket, with this URL
and secret (content type JSON). What follows the branch is then looked at as soon as it is pushed to.
GitLab 19 and later can sign pushes in place of sending the secret along: give it the signing token.`,
		Example: "  drover deploy webhook\n  drover deploy webhook --rotate",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			w, err := s.WebhookSecret(cmd.Context(), rotate)
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, w)
			}
			c.printf("URL            %s\nSecret         %s\n", clean(w.URL, false), clean(w.Secret, false))
			if w.SigningToken != "" {
				c.printf("Signing token  %s\n", clean(w.SigningToken, false))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&rotate, "rotate", false, "another secret from now on; the one before is taken for another hour")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) manifestsDeploy() *cobra.Command {
	var url, authority string
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "What a Kubernetes API needs for deployments by custom resources: definitions and roles",
		Example: `  drover deploy manifests | kubectl apply --server-side -f -
  drover deploy manifests --webhook-url https://drover.example.org --webhook-ca-file ca.pem | kubectl apply --server-side -f -
  drover server --gitops-options kubeconfig=FILE,engines=edge`,
		Args: arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			out := c.cfg.Manifests()
			if url == "" && authority != "" {
				return usagef("--webhook-ca-file goes with --webhook-url")
			}
			if url != "" {
				var ca []byte
				var err error
				if authority != "" {
					if ca, err = os.ReadFile(authority); err != nil {
						return err
					}
				}
				hook, err := c.cfg.Webhook(url, ca)
				if err != nil {
					return err
				}
				out = append(out, hook...)
			}
			_, err := c.cfg.Out.Write(out)
			return err
		},
	}
	cmd.Flags().StringVar(&url, "webhook-url", "", "where the API reaches this server by HTTPS: the webhook that warns of sync runs is registered too")
	cmd.Flags().StringVar(&authority, "webhook-ca-file", "", "PEM file of the authority that made the server's certificate; default: one that the API server trusts")
	return cmd
}

// runTrouble is what is said of a sync run.
func runTrouble(o v1.Object) string {
	var s struct {
		Error string
		Run   struct{ Message string }
	}
	_ = json.Unmarshal(o.Status, &s)
	return cmp.Or(s.Error, s.Run.Message)
}

// ofDeployments are the columns of what deployments are and need, by kind; nil: it
// is another kind.
func ofDeployments(kind string) []column {
	phase := column{"PHASE", false, phaseOf}
	of := func(head string, pick func(deployState) string) column {
		return column{head, false, func(o v1.Object) string { return pick(deployOf(o)) }}
	}
	conditions := column{"STATE", false, func(o v1.Object) string {
		var status struct {
			Conditions []struct{ Type, Status, Reason string }
			Condition  struct{ Status, Reason string }
		}
		_ = json.Unmarshal(o.Status, &status)
		for _, k := range status.Conditions {
			if k.Type == "ErrorOccurred" {
				return k.Reason
			}
		}
		return status.Condition.Reason
	}}
	url := column{"URL", false, func(o v1.Object) string { return fieldText(o.Fields["url"]) }}
	switch kind {
	case "deployment":
		return []column{phase,
			{"SYNC", false, func(o v1.Object) string { return fieldText(o.Fields["sync"]) }},
			{"HEALTH", false, func(o v1.Object) string { return fieldText(o.Fields["health"]) }},
			of("TO", deployState.destination),
			of("REPOSITORY", func(s deployState) string { return s.Spec.Repository + "//" + s.Spec.Path }),
			of("REF", func(s deployState) string { return s.Spec.Revision })}
	case "syncrun":
		return []column{phase, {"DEPLOYMENT", false, func(o v1.Object) string { return fieldText(o.Fields["deployment"]) }}}
	case "repository", "target":
		return []column{url, conditions}
	case "workspace":
		return []column{{"REACH", false, func(o v1.Object) string {
			var spec struct {
				Home, Namespace, Engine string
				Reach                   []v1.Reach
			}
			_ = json.Unmarshal(o.Spec, &spec)
			texts := []string{}
			if spec.Home != "" { // a namespace reaches itself, on the cluster that carries out what is in it
				texts = append(texts, cmp.Or(spec.Engine, "?")+"/"+spec.Namespace)
			}
			for _, r := range spec.Reach {
				texts = append(texts, r.Cluster+"/"+strings.Join(r.Namespaces, ","))
			}
			return strings.Join(texts, " ")
		}}}
	}
	return nil
}
