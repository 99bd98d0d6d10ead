package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) abandonCluster() *cobra.Command {
	var w waitFlags
	var a v1.AbandonCluster
	var yes bool
	cmd := &cobra.Command{
		Use:   "abandon NAME --reason TEXT",
		Short: "Give a cluster up that is lost for good",
		Long: `For a data plane that burnt down, was deleted elsewhere, or will never be reached again.
Its instances are failed with the reason, which their owners read, and hold no room; they
can be deleted without its agent's word. If the agent returns after all, it is told to
remove those that were deleted, leaves the others alone, and is refused otherwise.

It is refused while the agent is connected. There is no way back. What made the cluster is
not asked to take it away, unless --destroy says so. Once all its instances are deleted,
` + "`drover cluster delete`" + ` takes the cluster out of the list.`,
		Example: `  drover cluster abandon edge --reason "the site burnt down"
  drover cluster abandon c2 --reason "account closed" --destroy --yes`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("clusters", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(a.Reason) == "" {
				return usagef("say why: --reason %q; owners of what ran there will read it", "the site burnt down")
			}
			s, r, before, err := c.oneCluster(cmd, args[0])
			if err != nil {
				return err
			}
			if !yes {
				if err := c.askAbandon(before); err != nil {
					return err
				}
			}
			o, err := s.Abandon(cmd.Context(), before.ID, a)
			if client.Status(err) == 404 {
				return fmt.Errorf("%w\nan older server cannot give clusters up", err)
			}
			if err != nil {
				return err
			}
			verb := "is given up"
			if o.Version == before.Version {
				verb = "was given up before"
			}
			return c.finish(cmd, s, outcome{resource: r, object: o, verb: verb, goal: goal{word: "given up", judge: abandoned}, wait: w, since: o.Version})
		},
	}
	cmd.Flags().StringVar(&a.Reason, "reason", "", "`text` that owners of what ran there read; needed")
	cmd.Flags().BoolVar(&a.Destroy, "destroy", false, "what made it takes away what is left of it")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	w.register(cmd, "all its instances are marked")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// abandoned: everything that ran there is marked.
func abandoned(o v1.Object) (bool, error) { return clusterOf(o).Status.Operation == "", nil }

// askAbandon asks a person. A program cannot be asked, so it must say --yes.
func (c *CLI) askAbandon(o v1.Object) error {
	name := clean(o.ID, false)
	in, ok := c.cfg.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return usagef("giving cluster %s up cannot be taken back: say --yes", name)
	}
	fmt.Fprintf(c.cfg.Err, "Give cluster %s up for good? Its instances are lost, and there is no way back. Type its name: ", name)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err == nil && strings.TrimSpace(answer) == o.ID {
		return nil
	}
	return errors.New("nothing was given up")
}
