package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

const (
	caLeaf   = 90 * 24 * time.Hour
	caRoot   = 10 * 365 * 24 * time.Hour
	caWithin = 30 * 24 * time.Hour
)

func (c *CLI) caCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "A certificate authority for those who have none",
		Long: `Makes certificates for servers, agents and clients, so that everything is encrypted and
everybody is known. Everything is in one directory: keep it where nobody else can read
it, and away from the servers. Keys are never printed.

Nothing is revoked: certificates live for 90 days. Run ` + "`drover ca renew`" + ` every week and
carry what it names to where it is used; servers and agents read their files anew.`,
		Example: `  drover ca init
  drover ca issue server drover --host drover.example.org --host 10.0.0.5
  drover ca issue agent edge                   # of cluster edge
  drover ca issue client ci
  drover ca show
  drover ca renew
  drover ca rotate                             # another authority, with an overlap
  drover ca retire                             # the end of the overlap`,
	}
	cmd.AddCommand(c.caInit(), c.caIssue(), c.caRenew(), c.caRotate(), c.caRetire(), c.caShow())
	return cmd
}

// caVerb is a command on the directory.
func (c *CLI) caVerb(cmd *cobra.Command, count int, order func(o *v1.AuthorityOrder, args []string), tell func(cmd *cobra.Command, a v1.Authority)) *cobra.Command {
	var o v1.AuthorityOrder
	cmd.Args = arguments(count, count)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Verb = cmd.Name()
		if order != nil {
			order(&o, args)
		}
		if o.Lifetime < 0 || o.Within < 0 {
			return usagef("a time has no minus")
		}
		a, err := c.cfg.CA(o)
		if err != nil {
			return err
		}
		if format := output(cmd); format == "json" || format == "yaml" {
			return c.print(format, a)
		}
		tell(cmd, a)
		return nil
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Dir, "dir", "drover-ca", "`directory` of the authority")
	switch cmd.Name() {
	case "init", "rotate":
		flags.DurationVar(&o.Lifetime, "lifetime", caRoot, "how long the authority is good")
	case "issue":
		flags.DurationVar(&o.Lifetime, "lifetime", caLeaf, "how long the certificate is good")
		flags.StringSliceVar(&o.Hosts, "host", nil, "`name` or address that a server is reached by; several: several times")
		flags.StringVar(&o.Out, "out", "", "`directory` that gets tls.crt, tls.key and ca.crt, too")
	case "renew":
		flags.DurationVar(&o.Within, "within", caWithin, "renew what ends within this time")
	}
	if cmd.Name() == "init" {
		flags.StringVar(&o.Name, "name", "Drover", "`name` of the authority")
	}
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) caInit() *cobra.Command {
	return c.caVerb(&cobra.Command{Use: "init", Short: "Make an authority in a directory"}, 0, nil, func(_ *cobra.Command, a v1.Authority) {
		c.printf("%s is good until %s: everybody is to believe %s\n", clean(a.Authorities[0].Name, false), day(a.Authorities[0].NotAfter), clean(a.Bundle, false))
	})
}

func (c *CLI) caIssue() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "issue server|agent|client NAME",
		Short: "Make a key and its certificate",
		Long: `Makes a key and its certificate in the directory's issued/, and replaces what was issued
under that name. An agent's NAME is its cluster: the server refuses the certificate with
the token of another one.`,
		Example: `  drover ca issue server drover --host drover.example.org --out /etc/drover/tls
  drover ca issue agent edge --lifetime 720h
  drover ca issue client drover                # a user of PostgreSQL with clientcert=verify-full`,
		ValidArgs: []string{"server", "agent", "client"},
	}
	return c.caVerb(cmd, 2, func(o *v1.AuthorityOrder, args []string) { o.Use, o.Name = args[0], args[1] }, func(_ *cobra.Command, a v1.Authority) {
		for _, i := range a.Issued {
			c.printf("%s\n%s\n", clean(i.File, false), clean(i.KeyFile, false))
			c.note("%s %s is good until %s; those who check it believe %s", i.Use, clean(strings.Join(append(i.Names, i.Name)[:1], ""), false), day(i.NotAfter), clean(a.Bundle, false))
		}
	})
}

func (c *CLI) caRenew() *cobra.Command {
	return c.caVerb(&cobra.Command{Use: "renew", Short: "Issue again what ends soon, or is of an authority that was replaced"}, 0, nil, func(_ *cobra.Command, a v1.Authority) {
		for _, i := range a.Issued {
			c.printf("%s\n", clean(i.File, false))
		}
		c.note("%s: carry them, with their keys, to where they are used", was(len(a.Issued), "certificate", "certificates")+" renewed")
	})
}

func (c *CLI) caRotate() *cobra.Command {
	cmd := &cobra.Command{Use: "rotate", Short: "Replace the authority, with an overlap", Long: `Makes another authority, which the one before it signs for. From now on the bundle has both:
whoever has the old bundle believes what the new authority issues, and whoever has the new
one believes what the old has issued. So files may be replaced in any order:

  1. drover ca rotate
  2. the bundle ca.crt to everybody
  3. drover ca renew, and what it names to where it is used
  4. drover ca retire, and the bundle to everybody once more`}
	return c.caVerb(cmd, 0, nil, func(_ *cobra.Command, a v1.Authority) {
		c.printf("%s is good until %s\n", clean(a.Authorities[0].Name, false), day(a.Authorities[0].NotAfter))
		c.note("carry %s to everybody, then `drover ca renew`", clean(a.Bundle, false))
	})
}

func (c *CLI) caRetire() *cobra.Command {
	return c.caVerb(&cobra.Command{Use: "retire", Short: "Drop the authorities before the last rotation"}, 0, nil, func(_ *cobra.Command, a v1.Authority) {
		c.printf("%s\n", was(a.Dropped, "authority", "authorities")+" dropped")
		c.note("carry %s to everybody", clean(a.Bundle, false))
	})
}

func (c *CLI) caShow() *cobra.Command {
	return c.caVerb(&cobra.Command{Use: "show", Short: "The authority, and what it has issued"}, 0, nil, func(_ *cobra.Command, a v1.Authority) {
		t := &table{head: []string{"NAME", "USE", "FOR", "ENDS", "STATE"}}
		for _, i := range append(a.Authorities, a.Issued...) {
			t.add(clean(i.Name, false), i.Use, clean(strings.Join(i.Names, ","), false), day(i.NotAfter), c.certificateState(i))
		}
		if err := t.write(c.cfg.Out); err != nil {
			return // a closed pipe
		}
		for _, i := range a.Authorities {
			c.note("SHA-256 of %s until %s: %s", clean(i.Name, false), day(i.NotAfter), i.Fingerprint)
		}
	})
}

func (c *CLI) certificateState(i v1.Certificate) string {
	switch left := i.NotAfter.Sub(c.now()); {
	case left <= 0:
		return "ended"
	case i.Old && i.Use == "authority":
		return "replaced"
	case i.Old:
		return "renew: its authority was replaced"
	case left < caWithin:
		return "renew: ends in " + age(left)
	}
	return "good"
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func was(n int, one, many string) string {
	if n == 1 {
		return "1 " + one + " was"
	}
	return fmt.Sprintf("%d %s were", n, many)
}
