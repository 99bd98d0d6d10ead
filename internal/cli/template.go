package cli

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

// Bounds of a template's directory: it is sent in one request, which a server
// takes up to a MiB of, in base64.
const (
	maxTemplateFiles = 2_000
	maxTemplateBytes = 700 << 10
)

func (c *CLI) templateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Templates: what environments are made of (operators)",
		Long: `A template describes resources, what they need of each other, and what comes out: a file
template.yaml in a directory or a Git repository. Every commit is a version; adding one
changes no environment.

  drover template check ./examples/shop                 all mistakes, with file and line
  drover template add ./examples/shop                   bring it in
  drover template add https://git.example.org/shop.git//deploy@v1.2.0
  drover template versions shop                         what there is of it
  drover template executors file                        what a resource of a kind takes and gives
  drover get templates                                  all of them`,
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.addTemplate("add"), c.addTemplate("check"), c.templateVersions(), c.deleteTemplate(), c.templateExecutors())
	return cmd
}

func (c *CLI) addTemplate(verb string) *cobra.Command {
	var a v1.AddTemplate
	var password, key, hosts string
	cmd := &cobra.Command{
		Use:   verb + " DIRECTORY|REPOSITORY[//PATH][@REVISION]",
		Short: "Bring a version of a template in",
		Long: `Reads template.yaml and what lies beside it, from a directory of this machine or from a Git
repository, which the server reads itself. A broken one changes nothing. The same commit
twice is one version.`,
		Example: `  drover template add ./examples/shop
  drover template add https://git.example.org/shop.git//deploy@v1.2.0
  drover template add git@git.example.org:team/shop.git@main --ssh-key ~/.ssh/id_ed25519 --known-hosts ~/.ssh/known_hosts
  drover template add https://git.example.org/private.git --username ci --password-file token`,
		Args: arguments(1, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, secret := range []struct {
				file string
				into *string
			}{{password, &a.Password}, {key, &a.SSHKey}, {hosts, &a.KnownHosts}} {
				if secret.file == "" {
					continue
				}
				data, err := c.readInput(secret.file)
				if err != nil {
					return err
				}
				*secret.into = string(data)
			}
			a.Password = strings.TrimRight(a.Password, "\r\n")
			a.DryRun = verb == "check"
			if remote(args[0]) {
				a.Repository = args[0]
			} else {
				files, err := readTemplate(args[0])
				if err != nil {
					return err
				}
				a.Files, a.Origin = files, filepath.ToSlash(filepath.Clean(args[0]))
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			made, err := s.AddTemplate(cmd.Context(), a)
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, made)
			}
			name, version, commit := fieldText(made.Fields["template"]), fieldText(made.Fields["version"]), shortCommit(fieldText(made.Fields["commit"]))
			switch {
			case a.DryRun:
				c.printf("template %s %s is in order\n", clean(name, false), clean(version, false))
			case !made.New:
				c.printf("template/%s unchanged (version %s, commit %s)\n", clean(name, false), clean(version, false), clean(commit, false))
			default:
				c.printf("template/%s added (version %s, commit %s)\n", clean(name, false), clean(version, false), clean(commit, false))
				c.note("`drover env plan NAME --template %s` tells what it would make", clean(name, false))
			}
			return nil
		},
	}
	if verb == "check" {
		cmd.Short, cmd.Long = "Tell all mistakes of a template, with file and line", "Asks the server, which knows its executors; nothing is kept. Everybody may have a\ndirectory of theirs checked; repositories are read for operators alone."
		cmd.Example = "  drover template check ./examples/shop"
	}
	flags := cmd.Flags()
	flags.StringVar(&a.Revision, "revision", "", "branch, tag or commit [behind an @ of the repository, or the default branch]")
	flags.StringVar(&a.Path, "path", "", "directory in the repository [behind its //]")
	flags.StringVar(&a.Username, "username", "", "for a repository that asks")
	flags.StringVar(&password, "password-file", "", "`file` with the password or token, - for standard input; it is used once and not kept")
	flags.StringVar(&key, "ssh-key", "", "`file` with a private key; it is used once and not kept")
	flags.StringVar(&hosts, "known-hosts", "", "`file` with the hosts' keys; ssh is refused without")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

// remote tells a repository from a directory of this machine: what is there as a
// directory is one.
func remote(source string) bool {
	if info, err := os.Stat(source); err == nil && info.IsDir() {
		return false
	}
	return strings.Contains(source, "://") || strings.Contains(source, "@") && strings.Contains(source, ":")
}

// readTemplate reads a directory: regular files, .git aside.
func readTemplate(dir string) (map[string][]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &usageError{text: "cannot read the directory " + quoted(dir) + ": " + reasonOf(err), quiet: true}
	}
	defer root.Close()
	files, size := map[string][]byte{}, 0
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return usagef("%s is no regular file: a template holds files alone, no links", quoted(path))
		case len(files) == maxTemplateFiles:
			return usagef("%s holds more than %d files: is it the directory of a template?", quoted(dir), maxTemplateFiles)
		}
		data, err := fs.ReadFile(root.FS(), path)
		if size += len(data); size > maxTemplateBytes {
			return usagef("%s holds more than %d KiB (%s is one of its files): keep large files elsewhere, or bring the template in from a Git repository", quoted(dir), maxTemplateBytes>>10, quoted(path))
		}
		files[path] = bytes.Clone(data)
		return err
	})
	if err == nil && files["template.yaml"] == nil {
		err = usagef("there is no template.yaml in %s", quoted(dir))
	}
	return files, err
}

func reasonOf(err error) string {
	if os.IsNotExist(err) {
		return "there is none"
	}
	return err.Error()
}

func (c *CLI) templateVersions() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "versions NAME",
		Short:             "List the versions of a template, newest first",
		Example:           "  drover template versions shop",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("templates", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, r, err := c.reach(cmd, "templates")
			if err != nil {
				return err
			}
			if _, err := s.find(cmd.Context(), r, args[0], ""); err != nil {
				return err
			}
			page, err := s.List(cmd.Context(), "templateversions", client.ListOptions{Search: "template = '" + strings.ReplaceAll(args[0], "'", "''") + "'", OrderBy: "created desc"})
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, page)
			}
			t := table{head: []string{"VERSION", "COMMIT", "AGE", "ID"}}
			for _, o := range page.Items {
				t.add(fieldText(o.Fields["version"]), shortCommit(fieldText(o.Fields["commit"])), age(c.now().Sub(o.Created)), o.ID)
			}
			return t.write(c.cfg.Out)
		},
	}
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func (c *CLI) deleteTemplate() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "delete NAME",
		Short:             "Take a template out of use that no environment is made of",
		Example:           "  drover template delete shop",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("templates", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, r, err := c.reach(cmd, "templates")
			if err != nil {
				return err
			}
			o, err := s.Delete(cmd.Context(), r.Name, args[0])
			if err != nil {
				return err
			}
			return c.finish(cmd, s, outcome{resource: r, object: o, verb: "deleted"})
		},
	}
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}
