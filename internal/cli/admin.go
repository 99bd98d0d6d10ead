package cli

import (
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) tokenCommand() *cobra.Command {
	var r v1.TokenRequest
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a token of the built-in issuer (admins only)",
		Example: `  drover token --user alice --org acme
  export DROVER_TOKEN=$(drover token --user alice --org acme --ttl 8h)
  drover token --cluster c1                   # for a cluster's agent`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case r.User == "" && r.Cluster == "":
				return usagef("for whom? --user NAME [--org ORG], or --cluster ID for an agent")
			case r.User != "" && r.Cluster != "":
				return usagef("a token is for a user or for a cluster's agent: give --user or --cluster")
			case r.Cluster != "" && (r.Admin || r.OrgAdmin || r.Org != ""):
				return usagef("--org, --admin and --org-admin are for users")
			case ttl < 0:
				return usagef("--ttl must be positive")
			case ttl > 0:
				r.TTL = ttl.String()
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			token, err := s.Token(cmd.Context(), r)
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, token)
			}
			c.printf("%s\n", token.Token)
			if c.tty {
				c.note("valid until %s", token.Expires.Local().Format(time.RFC3339))
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.User, "user", "", "name of the user")
	flags.StringVar(&r.Org, "org", "", "organisation of the user")
	flags.BoolVar(&r.OrgAdmin, "org-admin", false, "may change what others of the organisation own")
	flags.BoolVar(&r.Admin, "admin", false, "operator of this control plane: may do everything")
	flags.StringVar(&r.Cluster, "cluster", "", "`id` of a cluster: a token for its agent")
	flags.DurationVar(&ttl, "ttl", 0, "how long it is valid [1h, agents 8760h]")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) ledgerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Where the log stands and what work is due",
		Example: `  drover ledger
  drover ledger -o json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			l, err := s.Ledger(cmd.Context())
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, l)
			}
			c.printf("Ledger:     %s\nEpoch:      %d\nHead:       %d\n", clean(l.Ledger, false), l.Epoch, l.Seq)
			if !l.At.IsZero() {
				c.printf("Last write: %s (%s ago)\n", l.At.Local().Format(time.RFC3339), age(c.now().Sub(l.At)))
			}
			if len(l.Backlog) == 0 {
				c.printf("Backlog:    none\n")
				return nil
			}
			c.printf("\n")
			t := &table{head: []string{"KIND", "DUE", "RUNNING", "WAITING", "OLDEST"}}
			for _, b := range l.Backlog {
				t.add(b.Kind, strconv.FormatInt(b.Due, 10), strconv.FormatInt(b.Running, 10), strconv.FormatInt(b.Waiting, 10),
					seconds(time.Duration(b.Oldest*float64(time.Second))))
			}
			return t.write(c.cfg.Out)
		},
	}
	cmd.AddCommand(c.headsCommand(), c.verifyCommand(), c.eraseCommand())
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Which version this is",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			about := map[string]string{"version": c.cfg.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, about)
			}
			c.printf("drover %s (%s, %s)\n", about["version"], about["go"], about["platform"])
			return nil
		},
	}
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}
