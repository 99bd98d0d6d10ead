package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) deleteCommand() *cobra.Command {
	var w waitFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete RESOURCE NAME...",
		Short: "Be rid of something",
		Long: `Asks the server to delete something. What carries it out goes on in the background;
--wait stays until it is gone.

More than one thing, or a thing that others stand on (an offering, a cluster), wants a yes.`,
		Example: `  drover delete dinosaur rex --wait
  drover delete dinosaur rex bob ann --yes`,
		Args:              arguments(1, -1),
		ValidArgsFunction: c.complete(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			word, names, err := targets(args)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return usagef("which one? There is no deleting of all at once: name them")
			}
			s, r, err := c.reach(cmd, word)
			if err != nil {
				return err
			}
			if err := can(r, "delete"); err != nil {
				return err
			}
			// All are looked up first: a typing mistake in the last name deletes none.
			var found []v1.Object
			var missing []error
			for _, name := range names {
				o, err := s.find(ctx, r, name, "")
				if err != nil {
					missing = append(missing, err)
					continue
				}
				found = append(found, o)
			}
			if len(missing) > 0 {
				return errors.Join(missing...)
			}
			if !yes && (len(found) > 1 || r.Offering == "") {
				if err := c.confirm(r, found); err != nil {
					return err
				}
			}
			// One that is refused keeps nobody from hearing of the others.
			var refused []error
			var gone []v1.Object
			for _, o := range found {
				deleted, err := s.takeAway(cmd, r, o)
				switch {
				case err != nil:
					refused = append(refused, fmt.Errorf("cannot delete %s %s: %w", r.Singular, label(o), err))
				case deleted.ID == "": // a server may answer without a body
					gone = append(gone, o)
				default:
					gone = append(gone, deleted)
				}
			}
			for _, o := range gone {
				verb := "is being deleted"
				if o.Deleted != nil {
					verb = "deleted"
				}
				if err := c.finish(cmd, s, outcome{resource: r, object: o, verb: verb, goal: goal{word: "deleted"}, wait: w, since: o.Version}); err != nil {
					return errors.Join(append(refused, err)...)
				}
			}
			return errors.Join(refused...)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	w.register(cmd, "gone")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// confirm asks a person. A program cannot be asked, so it must say --yes.
func (c *CLI) confirm(r v1.Resource, found []v1.Object) error {
	what := fmt.Sprintf("%s %s", r.Singular, label(found[0]))
	if len(found) > 1 {
		what = fmt.Sprintf("%d %s (%s)", len(found), r.Name, strings.Join(objectNames(found), ", "))
	}
	return c.ask("Delete "+clean(what, false)+"?", "nothing was deleted", "deleting "+clean(what, false)+" wants --yes")
}

// ask wants a yes of a person; no is what is said without one, and program what is
// said where nobody can be asked.
func (c *CLI) ask(question, no, program string) error {
	in, ok := c.cfg.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return usagef("%s", program)
	}
	fmt.Fprint(c.cfg.Err, question+" [y/N] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err == nil && strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y") {
		return nil
	}
	return errors.New(no)
}

// phases are those that things of a kind can be in. What is not listed here may
// be in any.
var phases = map[string][]string{
	"instance":    {"accepted", "preparing", "provisioning", "ready", "failed", "suspending", "suspended", "resuming", "deprovision", "deleting"},
	"cluster":     {"cluster_accepted", "cluster_provisioning", "cluster_provisioned", "waiting_for_fleetshard_operator", "ready", "deprovisioning", "cleanup", "failed", "abandoned"},
	"operation":   {"running", "succeeded", "failed", "superseded"},
	"environment": {"Deploying", "Deployed-Waiting", "Deployed-OK", "Deployed-Fail", "Destroying", "Destroyed"},
}

// possible refuses to wait for what never comes.
func possible(r v1.Resource, word string) error {
	words, known := phases[r.Kind]
	same := func(w string) bool { return strings.EqualFold(w, word) }
	if words = append([]string{"deleted"}, words...); !known || slices.ContainsFunc(words, same) {
		return nil
	}
	hint := didYouMean(word, words)
	return usagef("no %s is ever %s%s; --for takes: %s", r.Singular, quoted(word), strings.TrimSuffix(hint, "?"), strings.Join(words, ", "))
}

func (c *CLI) waitCommand() *cobra.Command {
	var word string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait RESOURCE NAME",
		Short: "Wait until something is ready, deleted or in a phase",
		Example: `  drover wait dinosaur rex
  drover wait dinosaur rex --for deleted --timeout 1m`,
		Args:              arguments(1, 2),
		ValidArgsFunction: c.complete(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			resource, name, err := target(args)
			if err != nil {
				return err
			}
			s, r, err := c.reach(cmd, resource)
			if err != nil {
				return err
			}
			if err := possible(r, word); err != nil {
				return err
			}
			o, err := s.find(ctx, r, name, "")
			var missing *notFoundError
			if errors.As(err, &missing) && word == "deleted" {
				c.printf("%s %s is deleted\n", r.Singular, clean(name, false))
				return nil
			}
			if err != nil {
				return err
			}
			w := waiting{resource: r, object: o, goal: goal{word: word}, since: o.Version, timeout: timeout, out: c.cfg.Out, live: c.tty}
			if word == "ready" {
				w.goal.generation = o.Generation
			}
			_, err = c.wait(ctx, s, w)
			return err
		},
	}
	cmd.Flags().StringVar(&word, "for", "ready", "ready, deleted or any phase")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}
