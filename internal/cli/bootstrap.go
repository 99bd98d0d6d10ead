package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// BootstrapSettings is what bootstrap runs with. It has the fields of
// app.BootstrapSettings in their order; otherwise the program does not compile.
type BootstrapSettings struct {
	Location     string
	Organisation string
	Prefix       string
	BaseURL      string
	Repositories []string
	GitTokenFile string

	MetaRepository string
	State          string
	Port           int
	Kubeconfig     string
	Namespace      string
	Image          string
	PublicHost     string
	ServiceType    string
	DryRun         bool
	NoWait         bool
	Timeout        time.Duration
}

// BootstrapEvent is one step forward, as app.BootstrapEvent has it.
type BootstrapEvent struct {
	Step     string  `json:"step"`
	Name     string  `json:"name,omitempty"`
	Phase    string  `json:"phase,omitempty"`
	Message  string  `json:"message,omitempty"`
	Seconds  float64 `json:"seconds"`
	Executor string  `json:"executor,omitempty"`
}

// BootstrapReport is what has come of it.
type BootstrapReport struct {
	Outcome, Location, State, Server, Data string
	Namespace                              string // of a cluster; empty: it is on this machine
	Left                                   []string
	Seconds                                float64
	Whole                                  any // for programs
}

// Bootstrapper runs the verbs of bootstrap.
type Bootstrapper interface {
	Run(ctx context.Context, s BootstrapSettings, tell func(BootstrapEvent)) (BootstrapReport, error)
	Status(ctx context.Context, s BootstrapSettings) (map[string]bool, error)
	Destroy(ctx context.Context, s BootstrapSettings, tell func(BootstrapEvent)) error
}

func (c *CLI) bootstrapCommand() *cobra.Command {
	s := &BootstrapSettings{}
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Make everything that Drover needs, and Drover itself, from nothing",
		Long: `Makes the meta environment at a location: PostgreSQL, RabbitMQ, Consul, OpenBao, observability and
Drover itself. When it works it is handed over to the Drover in it, which keeps it from then on, and
which is sent the environments that the repositories of an organisation describe.

It may be interrupted at any moment: run the same command again, and it goes on where it stopped.`,
		Example: `  drover bootstrap --location local
  drover bootstrap --location local --dry-run
  drover bootstrap --location microk8s --github-organisation acme --repository-prefix infra-
  drover bootstrap --base-url https://git.example.org --github-organisation acme --repositories shop,billing`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			asJSON := output(cmd) == "json"
			report, err := c.cfg.Bootstrap.Run(cmd.Context(), *s, c.bootstrapTold(asJSON))
			return c.bootstrapped(report, err, asJSON)
		},
	}
	at := cmd.PersistentFlags()
	at.StringVar(&s.Location, "location", "local", "`where`: local (programs of this machine), microk8s, a context of the kubeconfig, or the address of a Kubernetes API")
	at.StringVar(&s.State, "state", "", "`directory` of what is known of this bootstrap; empty: one of yours by location")
	at.StringVar(&s.Namespace, "namespace", "drover-meta", "Kubernetes: `name` of the namespace")
	f := cmd.Flags()
	f.StringVar(&s.Organisation, "github-organisation", "", "`name` of the organisation, or person, whose repositories describe environments; empty: none")
	f.StringVar(&s.Prefix, "repository-prefix", "", "`text` that the names of those repositories begin with")
	f.StringVar(&s.BaseURL, "base-url", "https://github.com", "`URL` of the Git server")
	f.StringSliceVar(&s.Repositories, "repositories", nil, "`names` of the repositories; empty: GitHub is asked, of any other server drover.yaml in <prefix>meta lists them")
	f.StringVar(&s.GitTokenFile, "git-token-file", "", "`file` with the token that opens the repositories")
	f.StringVar(&s.MetaRepository, "meta-repository", "", "`name[@commit]` or URL of a repository that has the meta template (local/ or kubernetes/); whoever may push there says what runs; empty: the one that ships")
	f.IntVar(&s.Port, "port", 8100, "local: `port` of the API; the eleven after it are for the others")
	f.StringVar(&s.Kubeconfig, "kubeconfig", "", "Kubernetes: `file`; empty: KUBECONFIG, or ~/.kube/config")
	f.StringVar(&s.Image, "image", "", "Kubernetes: container `image` of Drover; empty: droverhq/drover of this version")
	f.StringVar(&s.PublicHost, "public-host", "", "Kubernetes: `name[:port]` that others reach the API by; empty: nobody from outside")
	f.StringVar(&s.ServiceType, "service-type", "ClusterIP", "Kubernetes: how they do: LoadBalancer, NodePort, or ClusterIP, where you put something before it")
	f.BoolVar(&s.DryRun, "dry-run", false, "only tell what would be made")
	f.BoolVar(&s.NoWait, "no-wait", false, "Kubernetes: end when everything is applied, whether it works or not; nothing is handed over")
	f.DurationVar(&s.Timeout, "timeout", 30*time.Minute, "how long it may take")
	outputFlag(cmd, "text", "json")
	cmd.AddCommand(c.bootstrapStatusCommand(s), c.bootstrapDestroyCommand(s))
	return cmd
}

// bootstrapTold prints steps as they come: lines for people, or a JSON document each.
func (c *CLI) bootstrapTold(asJSON bool) func(BootstrapEvent) {
	return func(e BootstrapEvent) {
		if asJSON {
			if data, err := json.Marshal(e); err == nil {
				c.printf("%s\n", data)
			}
			return
		}
		line := fmt.Sprintf("%-11s %-22s %-10s %6.1f s", e.Step, clean(e.Name, false), clean(e.Phase, false), e.Seconds)
		if e.Message != "" {
			line += "  " + clean(e.Message, false)
		}
		c.printf("%s\n", strings.TrimRight(line, " "))
	}
}

func (c *CLI) bootstrapped(r BootstrapReport, err error, asJSON bool) error {
	if asJSON && r.Whole != nil {
		if data, jerr := json.Marshal(map[string]any{"step": "report", "report": r.Whole}); jerr == nil {
			c.printf("%s\n", data)
		}
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return &timeoutError{strings.TrimSuffix(err.Error(), ": "+context.DeadlineExceeded.Error())}
		}
		return err
	}
	if asJSON {
		return nil
	}
	for _, left := range r.Left {
		c.printf("left out: %s\n", clean(left, false))
	}
	switch r.Outcome {
	case "planned":
		c.printf("nothing was touched; the same command without --dry-run makes it\n")
	case "applied":
		c.printf("everything is applied; whether it works was not waited for, and nothing was handed over: run the same command without --no-wait\n")
	case "revived":
		c.printf("what did not run was started again; the Drover at %s keeps the environment meta\n", clean(r.Server, false))
	case "unchanged":
		c.printf("nothing to do: the Drover at %s keeps the environment meta\n", clean(r.Server, false))
	default:
		c.printf("Drover is at %s after %s\n", clean(r.Server, false), seconds(time.Duration(r.Seconds*float64(time.Second))))
		c.printf("  the keys of everything are in %s: keep it safe\n", clean(r.State, false))
		if r.Namespace != "" { // its token is where it is
			c.printf("  try: kubectl --namespace %s exec deploy/drover -- /drover env describe meta\n", clean(r.Namespace, false))
			return nil
		}
		c.printf("  try: drover env describe meta --data-dir %s\n", clean(r.Data, false))
	}
	return nil
}

func (c *CLI) bootstrapStatusCommand(s *BootstrapSettings) *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Which programs of a local bootstrap run", Example: "  drover bootstrap status", Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := c.cfg.Bootstrap.Status(cmd.Context(), *s)
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, all)
			}
			t := &table{head: []string{"PROGRAM", "RUNS"}}
			dead := 0
			for _, name := range slices.Sorted(maps.Keys(all)) {
				runs := "yes"
				if !all[name] {
					runs, dead = "no", dead+1
				}
				t.add(name, runs)
			}
			if err := t.write(c.cfg.Out); err != nil {
				return err
			}
			if dead > 0 {
				return &unwellError{fmt.Sprintf("%d programs do not run: `drover bootstrap` starts them again", dead)}
			}
			return nil
		}}
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) bootstrapDestroyCommand(s *BootstrapSettings) *cobra.Command {
	yes := false
	cmd := &cobra.Command{Use: "destroy", Short: "End everything that a local bootstrap has made, and remove it with its data",
		Example: "  drover bootstrap destroy --yes", Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return usagef("the ledger, the broker's messages, Consul's keys and OpenBao's secrets would be lost: say --yes")
			}
			if err := c.cfg.Bootstrap.Destroy(cmd.Context(), *s, c.bootstrapTold(false)); err != nil {
				return err
			}
			c.printf("nothing of it is left\n")
			return nil
		}}
	cmd.Flags().BoolVar(&yes, "yes", false, "really")
	return cmd
}
