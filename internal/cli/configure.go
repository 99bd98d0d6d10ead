package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
)

func (c *CLI) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Settings and contexts: show them, switch between servers",
		Example: `  drover config show
  drover config set-context prod --server https://drover.example.org --token-file ~/.drover-token
  drover config use-context prod`,
	}
	cmd.AddCommand(c.configShow(), c.getContexts(), c.setContext(), c.useContext(), c.deleteContext())
	return cmd
}

// shown is one line of `config show`.
type shown struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func (c *CLI) configShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Every setting, its value and where it comes from",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, wrong := resolve(cmd.Flags(), c.cfg.Getenv, forClient|forServer|forAgent)
			// What client verbs would use is found as they find it.
			at, err := c.connection(v)
			if wrong == nil {
				wrong = err
			}
			var rows []shown
			for _, s := range settings {
				row := shown{s.name, v[s.name].show(), v[s.name].source}
				switch s.name {
				case "server":
					row.Value, row.Source = at.server, at.serverSource
				case "token":
					if row.Value = ""; at.token != "" {
						row.Value, row.Source = maskAll(at.token), at.tokenSource
					}
				}
				if row.Source == "" {
					row.Source = "default"
				}
				rows = append(rows, row)
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				if err := c.print(format, rows); err != nil {
					return err
				}
				return wrong
			}
			t := &table{head: []string{"SETTING", "VALUE", "SOURCE"}}
			for _, row := range rows {
				t.add(row.Name, row.Value, row.Source)
			}
			if err := t.write(c.cfg.Out); err != nil {
				return err
			}
			return wrong
		},
	}
	register(cmd.Flags(), forServer|forAgent)
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func (c *CLI) getContexts() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get-contexts",
		Short: "The servers that are remembered",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := c.loadContexts()
			if err != nil {
				return err
			}
			type row struct {
				Name    string `json:"name"`
				Server  string `json:"server"`
				Current bool   `json:"current"`
			}
			rows := []row{}
			for _, name := range file.names() {
				rows = append(rows, row{name, file.Contexts[name].Server, name == file.Current})
			}
			switch format := output(cmd); format {
			case "json", "yaml":
				return c.print(format, rows)
			case "name":
				for _, r := range rows {
					c.printf("%s\n", r.Name)
				}
				return nil
			}
			if len(rows) == 0 {
				c.note("no contexts yet: `drover config set-context NAME --server URL` makes one")
				return nil
			}
			t := &table{head: []string{"CURRENT", "NAME", "SERVER"}}
			for _, r := range rows {
				mark := ""
				if r.Current {
					mark = "*"
				}
				t.add(mark, r.Name, r.Server)
			}
			return t.write(c.cfg.Out)
		},
	}
	outputFlag(cmd, "table", "json", "yaml", "name")
	return cmd
}

func (c *CLI) setContext() *cobra.Command {
	return &cobra.Command{
		Use:               "set-context NAME --server URL [--token TOKEN | --token-file FILE] [--ca-file FILE]",
		Short:             "Remember a server under a name",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := resolve(cmd.Flags(), c.cfg.Getenv, forClient)
			if err != nil {
				return err
			}
			file, err := c.loadContexts()
			if err != nil {
				return err
			}
			item, verb := file.Contexts[args[0]], "changed"
			if item == (contextItem{}) {
				verb = "created"
			}
			// Only what is said on the command line is remembered: a variable of
			// this shell has no place in a file.
			changed := cmd.Flags().Changed
			if changed("server") {
				item.Server = v.text("server")
			}
			if changed("token") {
				item = contextItem{Server: item.Server, Files: item.Files, Token: v.text("token")}
			}
			if changed("token-file") {
				// The file is found from whatever directory later commands run in.
				path, err := filepath.Abs(v.text("token-file"))
				if err != nil {
					return fmt.Errorf("cannot find the token file: %w", err)
				}
				item = contextItem{Server: item.Server, Files: item.Files, TokenFile: path}
			}
			if err := item.Files.remember(v, changed); err != nil {
				return err
			}
			if item.Server == "" {
				return usagef("context %s needs a --server", quoted(args[0]))
			}
			file.Contexts[args[0]] = item
			if err := file.save(); err != nil {
				return err
			}
			c.printf("context %s %s\n", clean(args[0], false), verb)
			return nil
		},
	}
}

func (c *CLI) useContext() *cobra.Command {
	return &cobra.Command{
		Use:               "use-context NAME",
		Short:             "Make a context the one that verbs use",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeContexts(args[0], func(file *contexts) {
				file.Current = args[0]
			}, "context %s is now current\n")
		},
	}
}

func (c *CLI) deleteContext() *cobra.Command {
	return &cobra.Command{
		Use:               "delete-context NAME",
		Short:             "Forget a server",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeContexts(args[0], func(file *contexts) {
				delete(file.Contexts, args[0])
				if file.Current == args[0] {
					file.Current = ""
				}
			}, "context %s deleted\n")
		},
	}
}

func (c *CLI) changeContexts(name string, change func(*contexts), done string) error {
	file, err := c.loadContexts()
	if err != nil {
		return err
	}
	if _, err := file.get(name); err != nil {
		return err
	}
	change(file)
	if err := file.save(); err != nil {
		return err
	}
	c.printf(done, clean(name, false))
	return nil
}

func (c *CLI) completeContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	file, err := c.loadContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return file.names(), cobra.ShellCompDirectiveNoFileComp
}
