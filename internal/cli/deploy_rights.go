package cli

import (
	"github.com/spf13/cobra"
)

// DeployRights says what the agent deploys that rights are wanted for.
type DeployRights struct {
	Runtime    string
	ArgoCD     string   // namespace of Argo CD
	Namespaces []string // that are deployed into
	Everywhere bool
	Account    string // of the agent: <namespace>/<name>
}

func (c *CLI) rightsDeploy() *cobra.Command {
	var r DeployRights
	cmd := &cobra.Command{
		Use:   "rights",
		Short: "What a cluster's agent needs to carry deployments out: roles and bindings, for kubectl apply",
		Long: `An agent that ` + "`drover cluster register`" + ` has put onto a cluster may write what the fleet's offerings need, and
nothing else. These manifests let it deploy from Git as well. Nothing is asked of a server.

kubernetes: the agent writes the objects itself, into the namespaces that are named. It may write what workloads are
made of (Deployments, Services, ConfigMaps, Secrets, Jobs, Ingresses...), and no roles, no custom resources, nothing
without a namespace. Label a ClusterRole of your own with drover.dev/deploy=true, and its rules count as well.
With --all-namespaces changes by hand are seen at once; otherwise when the agent next looks.

argocd: the agent writes into the namespace of Argo CD alone; what is deployed is written by Argo CD's account.`,
		Example: `  drover deploy rights --namespace shop --namespace web | kubectl apply --server-side -f -
  drover deploy rights --all-namespaces | kubectl apply --server-side -f -
  drover deploy rights --runtime argocd | kubectl apply --server-side -f -`,
		Args: arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			out, err := c.cfg.Rights(r)
			if err != nil {
				return usagef("%v", err)
			}
			_, err = c.cfg.Out.Write(out)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Runtime, "runtime", "kubernetes", "of the agent: kubernetes or argocd")
	f.StringSliceVar(&r.Namespaces, "namespace", nil, "`namespace` that is deployed into; may be repeated")
	f.BoolVar(&r.Everywhere, "all-namespaces", false, "all namespaces are deployed into")
	f.StringVar(&r.ArgoCD, "argocd", "argocd", "`namespace` of Argo CD")
	f.StringVar(&r.Account, "account", "drover-system/drover-agent", "`NAMESPACE/NAME` of the agent's service account")
	cmd.RegisterFlagCompletionFunc("runtime", cobra.FixedCompletions([]string{"kubernetes", "argocd"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
