package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (c *CLI) upCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a whole control plane on this machine, with a data plane",
		Long: `Runs server, agent and a data plane of local processes in one: everything is kept in
the data directory, nothing else is needed. The client verbs, run beside that
directory or with --data-dir, find the server and its admin token.`,
		Example: `  drover up
  drover up --data-dir /var/lib/drover --listen 127.0.0.1:9000 --routes 127.0.0.1:9080`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := resolve(cmd.Flags(), c.cfg.Getenv, forServer)
			if err != nil {
				return err
			}
			return c.cfg.Up(cmd.Context(), v.server())
		},
	}
	register(cmd.Flags(), forServer)
	return cmd
}

func (c *CLI) serverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a control plane without a local data plane",
		Long: `Runs the control plane alone. With --database, any number of them can share one
PostgreSQL: each works, none is the leader.`,
		Example: `  drover server --database "postgres://drover@db.example.org/drover?sslmode=verify-full" \
    --listen 0.0.0.0:8443 --tls-certificate-file tls.crt --tls-key-file tls.key
  drover server --config /etc/drover.yaml`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := resolve(cmd.Flags(), c.cfg.Getenv, forServer)
			if err != nil {
				return err
			}
			return c.cfg.Server(cmd.Context(), v.server())
		},
	}
	register(cmd.Flags(), forServer)
	return cmd
}

func (c *CLI) agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run the agent of a cluster",
		Long: `Connects out to the server with the cluster's own token, makes what it is told so, and
reports what it sees. It needs no inbound access, and without its server everything
keeps running.`,
		Example: `  drover token --cluster c1 > c1.token         # where an admin is
  drover agent --server https://drover.example.org --cluster c1 --token-file c1.token
  drover agent --runtime simulated --clusters 1000 --latency 200ms --fail-rate 0.01`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := resolve(cmd.Flags(), c.cfg.Getenv, forAgent)
			if err != nil {
				return err
			}
			s := v.agent()
			if s.Clusters > 0 {
				// A fleet is registered by an admin, who is found as client verbs do.
				at, err := c.fleetAdmin(v)
				if err != nil {
					return err
				}
				s.Server, s.Token = at.server, at.token
				s.CA, s.ClientCert, s.ClientKey, s.ServerName = at.files.CA, at.files.Certificate, at.files.Key, at.name
				return c.cfg.Agent(cmd.Context(), s)
			}
			if s.Server == "" {
				s.Server = defaultServer
			}
			if s.Token == "" && v.text("token-file") != "" {
				if s.Token, err = readToken(v.text("token-file")); err != nil {
					return &usageError{text: fmt.Sprintf("%s: cannot read %s: %v", v["token-file"].source, v.text("token-file"), err), quiet: true}
				}
			}
			if s.Cluster == "" || s.Token == "" {
				return usagef("an agent needs --cluster and --token or --token-file: `drover token --cluster ID` makes one")
			}
			return c.cfg.Agent(cmd.Context(), s)
		},
	}
	register(cmd.Flags(), forAgent)
	return cmd
}

// fleetAdmin finds who registers a simulated fleet, as client verbs do. The
// directory that is named may be the fleet's own; then the server's is where it
// is by default.
func (c *CLI) fleetAdmin(v values) (connection, error) {
	at, err := c.connection(v)
	if err != nil || at.token != "" || v["data-dir"].given == 0 {
		return at, err
	}
	s, _ := declared("data-dir")
	v["data-dir"] = value{setting: s, text: s.def, source: "default"}
	return c.connection(v)
}

func (c *CLI) docsCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:    "docs",
		Short:  "Serve the API's documentation",
		Hidden: true,
		Args:   arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAddress(listen); err != nil {
				return usagef("--listen %s: %v", quoted(listen), err)
			}
			return c.cfg.Docs(cmd.Context(), listen)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8082", "`address` to serve on")
	return cmd
}
