package cli

import (
	"context"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

// Rehearsal is how one went.
type Rehearsal = v1.Drill

// Driller rehearses a promotion; bin is where PostgreSQL's programs are.
type Driller func(ctx context.Context, s ServerSettings, bin string) (Rehearsal, error)

func (c *CLI) drDrill() *cobra.Command {
	var bin string
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Rehearse a promotion on a copy of the standby",
		Long: `Copies the standby with pg_basebackup into a temporary directory of this machine, starts and
promotes the copy, begins a new epoch in it, verifies its log as drover ledger verify does, and
removes it. Neither site notices. It prints

  RPO  what the secondary lacked when the drill began: changes, and how old it was at most
  RTO  from the promotion of the copy until it took writes

Run it where the secondary's server runs: it needs its --database (a user that may replicate)
and PostgreSQL's programs of the same version. The secondary is asked for its lag.`,
		Example: `  drover dr drill --data-dir /var/lib/drover --database postgres://drover@standby.west.example.org/drover`,
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := resolve(cmd.Flags(), c.cfg.Getenv, forServer)
			if err != nil {
				return err
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			at, err := s.Site(cmd.Context())
			if err != nil {
				return err
			}
			d, err := c.cfg.Drill(cmd.Context(), v.server(), bin)
			if err != nil {
				return err
			}
			if at.Lag != nil {
				d.RPO = at.Lag.Seconds
			}
			if at.Peer != nil {
				d.Changes = max(0, at.Peer.Seq-at.Seq)
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				if err := c.print(format, d); err != nil {
					return err
				}
			} else {
				c.printf("RPO       %.1f s, %d changes\nRTO       %.1f s\nCopy      %.1f s, up to change %d\nVerified  %.1f s\n", d.RPO, d.Changes, d.RTO, d.Copied, d.Seq, d.Verified)
			}
			if d.Verification.Flaw != nil {
				return &flawError{"the copy is not what was written: " + d.Verification.Flaw.Text}
			}
			return nil
		},
	}
	register(cmd.Flags(), forServer)
	cmd.Flags().StringVar(&bin, "postgres-bin", "", "`directory` of pg_basebackup, pg_ctl and postgres; empty: where they are installed")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}
