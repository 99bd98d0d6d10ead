package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) drCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dr",
		Short: "Two sites: how they stand, a rehearsal, and the bad day",
		Long: `One site leads and takes writes, the other one follows through PostgreSQL's replication and
answers reads. See docs/two-sites.md.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.drStatus(), c.drDrill(), c.drPromote())
	return cmd
}

func (c *CLI) drStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Both sites: role, state, epoch, lag, lease",
		Long: `Asks the server for its site, and the other site where that answers. Operators only.

Exit codes: 0 one site leads and the other one follows, 7 it is not so.`,
		Example: `  drover dr status
  drover dr status --server https://drover.west.example.org -o json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			here, err := s.Site(cmd.Context())
			if err != nil {
				if client.Status(err) == 404 {
					return fmt.Errorf("this server stands alone: start it with --site NAME and --primary, or --primary-url for a second site")
				}
				return err
			}
			both := append([]v1.Site{here}, c.other(cmd.Context(), s, here)...)
			if format := output(cmd); format == "json" || format == "yaml" {
				if err := c.print(format, both); err != nil {
					return err
				}
			} else if err := c.sites(both); err != nil {
				return err
			}
			return judged(both)
		},
	}
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

// other asks the other site itself; where it does not answer, what this one has heard
// of it.
func (c *CLI) other(ctx context.Context, s *session, here v1.Site) []v1.Site {
	if here.Peer == nil {
		return nil
	}
	heard := v1.Site{Site: here.Peer.Site, State: here.Peer.State, Epoch: here.Peer.Epoch, Seq: here.Peer.Seq, URL: here.Peer.URL, Why: here.Peer.Error}
	if here.Peer.Error != "" || here.Peer.Heard == nil {
		heard.State = "silent"
	}
	if here.Peer.Heard != nil {
		heard.Age = max(0, c.now().Sub(*here.Peer.Heard).Milliseconds())
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	way, err := s.at.files.client("")
	if err != nil {
		return []v1.Site{heard}
	}
	if there, err := client.New(client.Config{Server: here.Peer.URL, Token: s.at.token, HTTPClient: way, Timeout: 5 * time.Second}); err == nil {
		if told, err := there.Site(ctx); err == nil {
			return []v1.Site{told}
		}
	}
	return []v1.Site{heard}
}

func (c *CLI) sites(both []v1.Site) error {
	t := &table{head: []string{"SITE", "STATE", "EPOCH", "CHANGE", "BEHIND", "LEASE", "URL"}}
	for _, s := range both {
		behind, lease := "-", "-"
		if s.Lag != nil {
			behind = fmt.Sprintf("%.1fs", s.Lag.Seconds)
		}
		if s.Lease != nil {
			switch {
			case s.Lease.Error != "":
				lease = "unknown"
			case s.Lease.Until != nil:
				lease = "held"
			default:
				lease = "of " + s.Lease.Holder
			}
		}
		t.add(clean(s.Site, false), clean(s.State, false), strconv.FormatInt(s.Epoch, 10), strconv.FormatInt(s.Seq, 10), behind, clean(lease, false), clean(s.URL, false))
	}
	if err := t.write(c.cfg.Out); err != nil {
		return err
	}
	for _, s := range both {
		if s.Why != "" {
			c.printf("%s: %s\n", clean(s.Site, false), clean(s.Why, false))
		}
		if p := s.Peer; p != nil && p.Drained != nil {
			c.printf("%s: it was drained at %s (%s ago), says %s\n", clean(cmp.Or(p.Site, p.URL), false), p.Drained.Local().Format(time.RFC3339), age(c.now().Sub(*p.Drained)), clean(s.Site, false))
		}
	}
	return nil
}

// judged says what is wrong with two sites.
func judged(both []v1.Site) error {
	leading, following := 0, 0
	for _, s := range both {
		switch s.State {
		case "leading":
			leading++
		case "following":
			following++
		}
	}
	switch {
	case leading == 0:
		return &unwellError{"no site leads: nothing can be written"}
	case leading > 1:
		return &unwellError{"both sites say that they lead: the one with the lower epoch is about to stop"}
	case following == 0:
		return &unwellError{"there is no site that follows: what happens to the one that leads is not caught"}
	}
	return nil
}

func (c *CLI) drPromote() *cobra.Command {
	var word v1.PromoteSite
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "promote",
		Short: "Have the site that is asked lead",
		Long: `Ask the secondary (--server): its database is promoted, a new epoch begins, and it takes
writes. Agents follow by themselves; the old primary, when it comes back, stops by itself.

Where there is no witness it is your word that the primary does not act and will not: make
sure of that first (stop it, or take its network away). What the primary has acknowledged
and not replicated is lost; with synchronous replication there is nothing of that kind.`,
		Example: `  drover dr promote --server https://drover.west.example.org --primary-is-gone
  drover dr promote --server https://drover.west.example.org     # with a witness: when it has the lease`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			now, err := s.Site(ctx)
			if err != nil {
				return err
			}
			if !word.PrimaryIsGone && now.Lease == nil {
				err := c.ask(fmt.Sprintf("Does %s act no more, and will not until somebody has looked at it?", clean(now.Primary, false)),
					"nothing was promoted", "say that the primary does not act: --primary-is-gone")
				if err != nil {
					return err
				}
				word.PrimaryIsGone = true
			}
			began := c.now()
			if _, err := s.PromoteSite(ctx, word); err != nil {
				return err
			}
			for now.State != "leading" {
				if now, err = s.Site(ctx); err != nil && !client.Away(err) {
					return err
				}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(100 * time.Millisecond):
				}
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, now)
			}
			c.printf("%s leads in epoch %d, after %.1f s\n", clean(now.Site, false), now.Epoch, c.now().Sub(began).Seconds())
			return nil
		},
	}
	cmd.Flags().BoolVar(&word.PrimaryIsGone, "primary-is-gone", false, "your word that the other site does not act, and will not")
	cmd.Flags().DurationVar(&limit, "timeout", 2*time.Minute, "how long it may take")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}
