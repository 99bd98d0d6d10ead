package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) headsCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "heads",
		Short: "The head of the sealed log, to be kept elsewhere",
		Long: `Prints where the chain of sealed blocks ends, signed, and the keys. Keep it where nobody
who can write the database can write: on paper, in another system, with an auditor.
A log that was rewritten as a whole no longer has that head.`,
		Example: `  drover ledger heads >> /media/safe/drover-heads.txt
  drover ledger heads -o json
  drover ledger verify --against /media/safe/drover-heads.txt`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 1000 {
				return usagef("--limit must be from 1 to 1000")
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			h, err := s.Heads(cmd.Context(), limit)
			if err != nil {
				return err
			}
			if len(h.Heads) == 0 {
				c.note("nothing is sealed yet: that is done within a minute after the first change")
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				h.Text = ""
				return c.print(format, h)
			}
			c.printf("# %s\n%s", c.now().UTC().Format(time.RFC3339), clean(h.Text, true))
			return nil
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 1, "how many, the newest first")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) eraseCommand() *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use:   "erase CHANGE",
		Short: "Take the content of a change out of the log, for good",
		Long: `For what must not be kept: a password in a wrong field, somebody's data. Who wrote it, when
and about what stays, and drover ledger verify still holds and names what was erased.
Who erased it and why is in drover audit. Change the object first, and before you delete
it: what it is now, or was when it was deleted, is never erased. Copies elsewhere
(backups, receivers of events) keep theirs.`,
		Example: `  drover audit --name rex -o jsonl     # seq is the number of the change
  drover ledger erase 4711 --reason "a card number in the description"`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || seq < 1 {
				return usagef("%.40q is not the number of a change", args[0])
			}
			if reason == "" {
				return usagef("say why: --reason")
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			if !yes {
				if err := c.ask(fmt.Sprintf("Erase the content of change %d for good?", seq), "nothing was erased", fmt.Sprintf("erasing change %d wants --yes", seq)); err != nil {
					return err
				}
			}
			e, err := s.EraseChange(cmd.Context(), seq, reason)
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, e)
			}
			c.printf("change %d of %s erased\n", e.Seq, clean(e.Of, false))
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that stays in the audit; needed")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

// flawError is a ledger that is not what was written: exit code 1.
type flawError struct{ text string }

func (e *flawError) Error() string { return e.text }

func (c *CLI) verifyCommand() *cobra.Command {
	var against, database string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove that nobody has edited the log or the objects",
		Long: `Reads the whole log once: every change is the one that was sealed, none is missing and
none was added, the blocks follow each other and are signed, and every object is what
its last change says. With --against, besides, that it is still the log whose head
somebody has kept elsewhere: without that, whoever can write the database could have
removed the newest blocks, or written all of it anew with another key.

Without --data-dir and --database the server does it and says how it went. With one of
them no server is asked, and none is needed: the files of an embedded one must not be in
use; a PostgreSQL may be.

Exit codes: 0 everything holds, 1 it does not, 2 or more: it could not be verified.`,
		Example: `  drover ledger verify
  drover ledger verify --against heads.txt
  drover ledger verify --data-dir /var/lib/drover --against heads.txt
  drover ledger verify --database postgres://auditor@db.example.org/drover`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := c.verify(cmd, against, database)
			if err != nil {
				if exitCode(err) == 1 { // which says that something was found
					err = &usageError{text: err.Error(), quiet: true}
				}
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				if err := c.print(format, report); err != nil {
					return err
				}
			} else {
				c.verified(report)
			}
			if report.Flaw != nil {
				return &flawError{"this ledger is not what was written: " + report.Flaw.Text}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&against, "against", "", "`file` of heads that were kept elsewhere")
	cmd.Flags().StringVar(&database, "database", "", "postgres:// `URL` to look at instead of asking a server")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) verify(cmd *cobra.Command, against, database string) (v1.Verification, error) {
	var heads []byte
	if against != "" {
		var err error
		if heads, err = os.ReadFile(against); err != nil {
			return v1.Verification{}, usagef("cannot read the heads: %v", err)
		}
	}
	seen := c.verifying()
	defer seen(0, -1)
	dir := cmd.Flags().Lookup("data-dir")
	if database == "" && (dir == nil || !dir.Changed) {
		s, err := c.connect(cmd)
		if err != nil {
			return v1.Verification{}, err
		}
		return s.Verify(cmd.Context(), v1.VerifyRequest{Heads: string(heads)}, func(p v1.VerifyProgress) { seen(p.Changes, p.Of) })
	}
	if database != "" {
		if err := checkDatabase(database); err != nil {
			return v1.Verification{}, usagef("--database: %v", err)
		}
	}
	if c.cfg.Verify == nil {
		return v1.Verification{}, errors.New("this program cannot look at a database")
	}
	return c.cfg.Verify(cmd.Context(), ServerSettings{DataDir: dir.Value.String(), Database: database}, heads, seen)
}

// verifying shows on a terminal how far it is; of below zero ends that.
func (c *CLI) verifying() func(changes, of int64) {
	var last time.Time
	return func(changes, of int64) {
		switch {
		case !c.tty:
		case of < 0 && !last.IsZero():
			fmt.Fprint(c.cfg.Err, "\r\x1b[K")
		case of > 0 && time.Since(last) > 200*time.Millisecond:
			last = time.Now()
			fmt.Fprintf(c.cfg.Err, "\rverifying: %d of %d changes", changes, of)
		}
	}
}

// Verification is what a Verifier says.
type Verification = v1.Verification

// Verifier looks at a database without a server.
type Verifier func(ctx context.Context, s ServerSettings, heads []byte, progress func(changes, of int64)) (Verification, error)

func (c *CLI) verified(r v1.Verification) {
	c.printf("Ledger:    %s\n", clean(r.Ledger, false))
	switch {
	case r.Flaw != nil:
		c.printf("Held:      the first %d changes, in %d blocks\n", r.Changes, r.Blocks)
		c.flawed(r.Flaw)
		return
	case r.Last != nil:
		c.printf("Sealed:    %d changes in %d blocks, up to change %d (%s)\n", r.Changes, r.Blocks, r.Last.Seq, r.Last.At.Local().Format(time.RFC3339))
	default:
		c.printf("Sealed:    nothing\n")
	}
	if r.Erased > 0 {
		c.printf("Erased:    the content of %d of them; who wrote them when still holds\n", r.Erased)
		for _, e := range r.Erasures {
			c.printf("           change %d of %s\n", e.Seq, clean(e.Of, false))
		}
	}
	c.printf("Unsealed:  %d newer changes\n", r.Unsealed)
	if r.Truncated > 0 {
		c.printf("Truncated: up to change %d; there is history from %s on\n", r.Truncated, r.History.Local().Format(time.RFC3339))
	}
	if r.Leftover > 0 {
		c.printf("Leftover:  %d changes that are yet to be dropped; nothing proves them any more\n", r.Leftover)
	}
	c.printf("Objects:   %d are what the log says\n", r.Objects)
	if r.Unknown > 0 {
		c.printf("Unknown:   %d objects of kinds that this program does not know\n", r.Unknown)
	}
	if r.Heads > 0 {
		c.printf("Heads:     %d that were kept elsewhere are this ledger's\n", r.Heads)
	}
	if r.Heads == 0 {
		c.printf("It holds. Whether the newest blocks were removed, or all of it was written anew, only heads that were kept elsewhere tell: drover ledger heads, then --against.\n")
		return
	}
	c.printf("It holds. Whether blocks after the newest of these heads were removed it does not tell.\n")
}

// flawed says what does not hold, and where.
func (c *CLI) flawed(f *v1.Flaw) {
	place := ""
	if f.Seq > 0 {
		place += fmt.Sprintf(", change %d", f.Seq)
	}
	if f.Block > 0 {
		place += fmt.Sprintf(", block %d", f.Block)
	}
	if f.Of != "" {
		place += ", " + clean(f.Of, false)
	}
	c.printf("FLAW:      %s%s\n           %s\n", clean(f.Kind, false), place, clean(f.Text, false))
}
