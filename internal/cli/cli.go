// Package cli is the command line: verbs first, for any kind of thing that the
// server knows.
//
// It owns flags, settings, contexts, tables, progress and exit codes. It must not
// know how the server works: the commands that run one are handed in by main, and
// everything else goes through api/client.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	v1 "github.com/droverhq/drover/api/v1"
)

// Config is what main hands in. The functions run until ctx ends and have no
// default.
type Config struct {
	Version string
	// Rights are what an agent needs on its cluster to carry deployments out.
	Rights func(DeployRights) ([]byte, error)

	Up     func(ctx context.Context, s ServerSettings) error
	Server func(ctx context.Context, s ServerSettings) error
	Agent  func(ctx context.Context, s AgentSettings) error
	Docs   func(ctx context.Context, listen string) error
	Verify Verifier // of a ledger without a server
	Drill  Driller  // of a promotion
	// CA works on a certificate authority in a directory.
	CA func(v1.AuthorityOrder) (v1.Authority, error)
	// Bootstrap makes a control plane from nothing.
	Bootstrap Bootstrapper
	// Manifests are what a Kubernetes API needs for deployments by custom resources.
	Manifests func() []byte
	// Webhook registers the server at a URL, with an authority's certificate, as one that
	// such an API asks.
	Webhook func(url string, authority []byte) ([]byte, error)

	// Defaults: the process's own.
	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Getenv func(string) string
	// Terminal says that Out is one; found out for files.
	Terminal bool
}

// CLI is the command tree.
type CLI struct {
	cfg   Config
	tty   bool // output is a terminal
	color bool
	now   func() time.Time
	root  *cobra.Command
}

const exitCodes = `Exit codes:
  0 ok   1 failed   2 wrong usage or configuration   3 not found   4 denied or not
  authenticated   5 conflict   6 server unavailable   7 something is wrong (doctor)
  124 timed out   130 interrupted`

// New builds the command tree.
func New(cfg Config) *CLI {
	if cfg.In == nil {
		cfg.In = os.Stdin
	}
	if cfg.Out == nil {
		cfg.Out = os.Stdout
	}
	if cfg.Err == nil {
		cfg.Err = os.Stderr
	}
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	c := &CLI{cfg: cfg, now: time.Now, tty: cfg.Terminal}
	if f, ok := cfg.Out.(*os.File); ok {
		c.tty = term.IsTerminal(int(f.Fd())) && cfg.Getenv("TERM") != "dumb"
	}
	c.color = c.tty && cfg.Getenv("NO_COLOR") == ""
	c.root = c.newRoot()
	return c
}

func (c *CLI) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "drover",
		Short: "A control plane for running managed services over a fleet",
		Long: `Drover takes what people want, writes it down, makes it so and keeps it so.

  drover up                              a whole control plane on this machine
  drover create dinosaur rex --wait      order something, and see it become ready
  drover get dinosaurs                   what there is
  drover describe dinosaur rex           who, when, why: the whole history
  drover delete dinosaur rex --wait      and be rid of it
  drover env create demo --template shop a whole environment of a template
  drover cluster register edge ...       bring a Kubernetes cluster into the fleet
  drover login --server URL              another server, as yourself

Verbs take any resource of the server, in singular or plural: ` + "`drover get`" + ` lists them.
Settings come from flags, then DROVER_* variables, then --config FILE, then defaults;
` + "`drover config show`" + ` names the source of each.

` + exitCodes,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       c.cfg.Version,
	}
	root.SetIn(c.cfg.In)
	root.SetOut(c.cfg.Out)
	root.SetErr(c.cfg.Err)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagMistake(cmd, err) })
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	register(root.PersistentFlags(), forClient)
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run a control plane:"},
		&cobra.Group{ID: "verb", Title: "Work with resources:"},
		&cobra.Group{ID: "look", Title: "Look behind the scenes:"},
		&cobra.Group{ID: "self", Title: "This tool:"},
	)
	for group, commands := range map[string][]*cobra.Command{
		"run": {c.upCommand(), c.serverCommand(), c.agentCommand(), c.caCommand(), c.bootstrapCommand()},
		"verb": {c.applyCommand(), c.envCommand(), c.templateCommand(), c.deployCommand(), c.clusterCommand(), c.acceptCommand(), c.getCommand(), c.describeCommand(), c.createCommand(), c.updateCommand(), c.deleteCommand(), c.waitCommand(),
			c.promoteCommand(), c.suspendCommand(), c.resumeCommand(), c.upgradeCommand(), c.resetCommand(), c.approveCommand(), c.refuseCommand(), c.subscriptionCommand()},
		"look": {c.doctorCommand(), c.searchCommand(), c.placementCommand(), c.eventsCommand(), c.auditCommand(), c.tokenCommand(), c.busCommand(), c.ledgerCommand(), c.drCommand()},
		"self": {c.loginCommand(), c.logoutCommand(), c.configCommand(), c.versionCommand()},
	} {
		for _, cmd := range commands {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(c.docsCommand(), dinosaurCommand())
	root.SetCompletionCommandGroupID("self")
	root.SetHelpCommandGroupID("self")
	return root
}

// Run executes a command line (without the program's name) and returns its exit code.
func (c *CLI) Run(ctx context.Context, args []string) int {
	c.root.SetArgs(args)
	cmd, err := c.root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errInterrupted
	}
	fmt.Fprintln(c.cfg.Err, "drover: "+explain(err))
	var usage *usageError
	if errors.As(err, &usage) && !usage.quiet {
		fmt.Fprintf(c.cfg.Err, "See `%s --help`.\n", cmd.CommandPath())
	}
	return exitCode(err)
}

// printf writes to standard output; a closed pipe is noticed by the next write.
func (c *CLI) printf(format string, args ...any) { fmt.Fprintf(c.cfg.Out, format, args...) }

// note writes to standard error, where it does not disturb a pipe.
func (c *CLI) note(format string, args ...any) { fmt.Fprintf(c.cfg.Err, format+"\n", args...) }
