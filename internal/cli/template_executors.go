package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) templateExecutors() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "executors [NAME]",
		Short: "What resources of a template are made by: what each takes and gives",
		Example: `  drover template executors
  drover template executors consul`,
		Args: arguments(0, 1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			s, err := c.connect(cmd)
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			all, _ := s.Executors(cmd.Context()) // without an answer there is nothing to offer
			var names []cobra.Completion
			for _, e := range all.Items {
				if strings.HasPrefix(e.Name, prefix) {
					names = append(names, cobra.CompletionWithDesc(e.Name, e.Summary))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			all, err := s.Executors(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return c.oneExecutor(cmd, all, args[0])
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, all)
			}
			t := table{head: []string{"EXECUTOR", "CONNECTS", "OUTPUTS", "MAKES"}}
			for _, e := range all.Items {
				var outputs []string
				for _, o := range e.Outputs {
					outputs = append(outputs, o.Name)
				}
				if e.Open {
					outputs = append(outputs, "...")
				}
				t.add(e.Name, map[bool]string{true: "yes", false: "no"}[e.Connects], strings.Join(outputs, " "), e.Summary)
			}
			return t.write(c.cfg.Out)
		},
	}
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func (c *CLI) oneExecutor(cmd *cobra.Command, all v1.Executors, name string) error {
	var names []string
	for _, e := range all.Items {
		if e.Name != name {
			names = append(names, e.Name)
			continue
		}
		if format := output(cmd); format == "json" || format == "yaml" {
			return c.print(format, e)
		}
		c.printf("%s: %s\n\n", clean(e.Name, false), clean(e.Summary, false))
		in := &table{head: []string{"INPUT", "TYPE", "NEEDED", "WHAT"}}
		addInputs(in, "", e.Inputs)
		if err := in.write(c.cfg.Out); err != nil {
			return err
		}
		c.printf("\n")
		out := &table{head: []string{"OUTPUT", "TYPE", "SECRET", "WHAT"}}
		for _, o := range e.Outputs {
			out.add(o.Name, o.Type, map[bool]string{true: "yes"}[o.Secret], o.Summary)
		}
		return out.write(c.cfg.Out)
	}
	return &notFoundError{"there is no executor " + quoted(name) + didYouMean(name, names)}
}

// addInputs lists the properties of a schema, those inside objects behind a dot.
func addInputs(t *table, by string, schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	needed, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[name].(map[string]any)
		what, _ := p["description"].(string)
		if d, told := p["default"]; told {
			text, err := json.Marshal(d)
			if err == nil {
				what = strings.TrimSpace(what + " [" + string(text) + "]")
			}
		}
		kind := ""
		if p["type"] != nil {
			kind = fmt.Sprint(p["type"])
		}
		t.add(by+name, kind, map[bool]string{true: "yes"}[slices.Contains(needed, any(name))], what)
		addInputs(t, by+name+".", p)
	}
}
