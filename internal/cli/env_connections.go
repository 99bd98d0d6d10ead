package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

// connections lists where executors work, and for whom. What they are opened with is
// told to nobody.
func (c *CLI) connections(cmd *cobra.Command, names []string) error {
	s, err := c.connect(cmd)
	if err != nil {
		return err
	}
	all, err := s.Connections(cmd.Context())
	if err != nil {
		return err
	}
	if len(names) > 0 {
		var known []string
		for _, i := range all.Items {
			known = append(known, i.Name)
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				return &notFoundError{"there is no connection " + quoted(name) + didYouMean(name, known)}
			}
		}
		all.Items = slices.DeleteFunc(all.Items, func(i v1.Connection) bool { return !slices.Contains(names, i.Name) })
	}
	switch format := output(cmd); format {
	case "json", "yaml":
		return c.print(format, all)
	case "name":
		for _, i := range all.Items {
			c.printf("connections/%s\n", clean(i.Name, false))
		}
		return nil
	}
	t := table{head: []string{"NAME", "EXECUTOR", "ORGANISATIONS", "TEMPLATES"}}
	for _, i := range all.Items {
		orgs := cmp.Or(strings.Join(i.Orgs, " "), "operators alone")
		if slices.Contains(i.Orgs, "*") {
			orgs = "all"
		}
		t.add(i.Name, i.Executor, orgs, cmp.Or(strings.Join(i.Templates, " "), "all"))
	}
	return t.write(c.cfg.Out)
}
