package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) createUser() *cobra.Command {
	var u v1.CreateUser
	var stdin bool
	cmd := &cobra.Command{
		Use:     "user NAME",
		Aliases: []string{"users"},
		Short:   "Add a person who logs in here (operators)",
		Long: `Adds a person to the server's own identity provider, who can then log in with
` + "`drover login`" + `. The password is asked for, without an echo, or read from standard input;
it has 8 to 512 bytes, and nothing shows it again.`,
		Example: `  drover create user alice --org acme --org-admin
  pass show alice | drover create user alice --org acme --password-stdin
  drover create user olga --role drover-admin          # an operator`,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			u.Name = args[0]
			s, r, err := c.reach(cmd, "user")
			if err != nil {
				return err
			}
			if u.Password, err = c.password(stdin); err != nil {
				return err
			}
			o, err := s.Create(cmd.Context(), r.Name, u)
			if err != nil {
				return err
			}
			return c.showDone(cmd, r, o, "created")
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&u.Org, "org", "", "organisation of the user")
	flags.BoolVar(&u.OrgAdmin, "org-admin", false, "may change what others of the organisation own")
	flags.StringVar(&u.Account, "account", "", "account `id` in the user's tokens")
	flags.StringArrayVar(&u.Roles, "role", nil, "`role` in the user's tokens, may be repeated; drover-admin makes an operator")
	flags.BoolVar(&stdin, "password-stdin", false, "read the password from standard input")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) createServiceAccount() *cobra.Command {
	var a v1.CreateServiceAccount
	cmd := &cobra.Command{
		Use:     "serviceaccount NAME",
		Aliases: []string{"serviceaccounts"},
		Short:   "Make an account for a program of yours",
		Long: `Makes an id and a secret that a program logs in with. It acts for your organisation.
The secret is shown this once.`,
		Example: `  drover create serviceaccount ci --description "builds"
  drover create serviceaccount ci -o json > ci.json`,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Name = args[0]
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			made, err := s.CreateServiceAccount(cmd.Context(), a)
			if err != nil {
				return err
			}
			return c.showSecret(cmd, made, "created")
		},
	}
	cmd.Flags().StringVar(&a.Description, "description", "", "what it is for")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) resetCommand() *cobra.Command {
	var stdin bool
	cmd := &cobra.Command{
		Use:   "reset RESOURCE NAME",
		Short: "Give a service account another secret, or a user another password",
		Long: `The new secret of a service account is shown this once, and the old one counts no
more. A user's new password is asked for, or read from standard input, and ends the
user's logins; that is for operators.`,
		Example: `  drover reset serviceaccount ci
  drover reset user alice`,
		Args:              arguments(1, 2),
		ValidArgsFunction: c.complete(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, r, o, err := c.one(cmd, args, "reset")
			if err != nil {
				return err
			}
			if r.Kind == "serviceaccount" {
				made, err := s.ResetServiceAccount(cmd.Context(), o.ID)
				if err != nil {
					return err
				}
				return c.showSecret(cmd, made, "reset")
			}
			password, err := c.password(stdin)
			if err != nil {
				return err
			}
			if o, err = s.SetPassword(cmd.Context(), o.ID, password); err != nil {
				return err
			}
			return c.showDone(cmd, r, o, "reset")
		},
	}
	cmd.Flags().BoolVar(&stdin, "password-stdin", false, "read a user's password from standard input")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

// showDone tells of something that is done when the server has answered.
func (c *CLI) showDone(cmd *cobra.Command, r v1.Resource, o v1.Object, verb string) error {
	name := r.Singular + "/" + clean(label(o), false)
	switch format := output(cmd); format {
	case "json", "yaml":
		return c.print(format, o)
	case "name":
		c.printf("%s\n", name)
	default:
		c.printf("%s %s\n", name, verb)
	}
	return nil
}

func (c *CLI) showSecret(cmd *cobra.Command, a v1.ServiceAccount, verb string) error {
	if format := output(cmd); format == "json" || format == "yaml" {
		return c.print(format, a)
	}
	c.printf("serviceaccount/%s %s\n", clean(a.Name, false), verb)
	for _, line := range [][2]string{{"Client id", a.ClientID}, {"Client secret", a.ClientSecret}, {"Token URL", a.TokenURL}} {
		if line[1] != "" {
			c.printf("%-15s%s\n", line[0]+":", clean(line[1], false))
		}
	}
	c.note("the secret is not shown again; `drover reset serviceaccount %s` makes another", clean(a.Name, false))
	return nil
}

const maxPassword = 512

// password reads one from standard input, or asks a person for it twice.
func (c *CLI) password(stdin bool) (string, error) {
	if stdin {
		line, err := bufio.NewReader(io.LimitReader(c.cfg.In, maxPassword+2)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("cannot read the password: %w", err)
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			return "", usagef("standard input holds no password")
		}
		return line, nil
	}
	in, ok := c.cfg.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return "", usagef("there is nobody to ask for the password: give --password-stdin")
	}
	var typed [2]string
	for i, prompt := range []string{"Password: ", "Again: "} {
		fmt.Fprint(c.cfg.Err, prompt)
		text, err := term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(c.cfg.Err)
		if err != nil {
			return "", fmt.Errorf("cannot read the password: %w", err)
		}
		typed[i] = string(text)
	}
	if typed[0] != typed[1] {
		return "", &usageError{text: "the two passwords differ", quiet: true}
	}
	return typed[0], nil
}
