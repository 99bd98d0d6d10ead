package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

func (c *CLI) searchCommand() *cobra.Command {
	var kind string
	var limit int
	cmd := &cobra.Command{
		Use:   "search WORDS...",
		Short: "Find anything by words, or along its dependencies",
		Long: `Looks through names, descriptions, tags and types of everything that you may see, best
first. All words must match; the last may be the beginning of one.

  dependsOn:db*    what depends on anything named so, directly or not
  usedBy:web       what anything named so depends on, directly or not`,
		Example: `  drover search payments
  drover search payments dependsOn:db*
  drover search usedBy:web --kind resources`,
		Args: arguments(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 100 {
				return usagef("--limit is 1 to 100")
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			found, err := s.Search(cmd.Context(), strings.Join(args, " "), kind, limit)
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, found)
			}
			if len(found.Items) == 0 {
				return &notFoundError{"nothing has " + quoted(strings.Join(args, " "))}
			}
			t := table{head: []string{"KIND", "NAME", "PHASE", "WHERE", "ID"}}
			for _, o := range found.Items {
				t.add(o.Kind, label(o.Object), phaseOf(o.Object), fieldText(o.Fields["environment"]), o.ID)
			}
			t.paint = func(column int, text string) string {
				if column == 2 {
					return c.phase(text)
				}
				return text
			}
			return t.write(c.cfg.Out)
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "only of this kind: environments, resources, templates, ...")
	cmd.Flags().IntVar(&limit, "limit", 20, "how many at most")
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}
