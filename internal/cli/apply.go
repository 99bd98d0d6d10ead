package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) applyCommand() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "apply -f FILE...",
		Short: "Put offerings, cluster profiles, quotas, lists and terms into force from their files",
		Long: `Sends documents to the server, which checks each as a whole and puts it into force
without a restart. One that is wrong changes nothing: the last good version stays.
A file may hold several, with --- between them; of a directory all .yaml, .yml and
.json files are taken.`,
		Example: `  drover apply -f offerings/dinosaur.yaml
  drover apply -f quotas.yaml -f policies/
  drover apply -f profile.yaml                # kind ClusterProfile: a way to make clusters
  generate | drover apply -f -`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(files) == 0 {
				return usagef("which file? `drover apply -f FILE`")
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			return c.apply(cmd, s, files)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "`file` or directory with documents, - for standard input; may be repeated")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// document is one of a file.
type document struct {
	file     string
	kind     string // as it is written; empty: not to be read
	body     []byte
	resource v1.Resource
}

// apply reads all files, and knows where each document belongs, before it sends
// the first.
func (c *CLI) apply(cmd *cobra.Command, s *session, files []string) error {
	var documents []document
	for _, file := range files {
		found, err := c.documents(file)
		if err != nil {
			return err
		}
		documents = append(documents, found...)
	}
	if len(documents) == 0 {
		return usagef("there is no document in %s", strings.Join(files, ", "))
	}
	if err := s.address(cmd.Context(), documents); err != nil {
		return err
	}
	for _, d := range documents {
		o, err := s.ApplyTo(cmd.Context(), d.resource.Name, d.body)
		if err != nil {
			return placed(d.file, err)
		}
		if d.resource.Kind == "quota" {
			c.warnOfGrants(cmd.Context(), s, d)
		}
		name := d.resource.Singular + "/" + clean(label(o), false)
		switch format := output(cmd); format {
		case "json", "yaml":
			if err := c.print(format, o); err != nil {
				return err
			}
		case "name":
			c.printf("%s\n", name)
		default:
			c.printf("%s applied (generation %d)\n", name, o.Generation)
		}
	}
	return nil
}

// warnOfGrants tells of grants for offerings that are not sold here. They are in
// force all the same: the offering may come later.
func (c *CLI) warnOfGrants(ctx context.Context, s *session, d document) {
	var quota struct {
		Metadata struct {
			Name string `yaml:"name"`
		} `yaml:"metadata"`
		Spec struct {
			Grants []struct {
				Offering string `yaml:"offering"`
			} `yaml:"grants"`
		} `yaml:"spec"`
	}
	all, err := s.Resources(ctx) // again: the same file may have brought an offering
	if err != nil || yaml.Unmarshal(d.body, &quota) != nil {
		return
	}
	var sold []string
	for _, r := range all {
		if r.Offering != "" {
			sold = append(sold, r.Offering)
		}
	}
	for _, g := range quota.Spec.Grants {
		if g.Offering == "" || slices.Contains(sold, g.Offering) {
			continue
		}
		hint := didYouMean(g.Offering, sold)
		if hint == "" {
			hint = ": nobody can use the grant until there is one"
		}
		c.note("warning: %s: quota %s grants %s, and there is no such offering%s", d.file, quoted(quota.Metadata.Name), quoted(g.Offering), hint)
	}
}

// documents reads those of a file, or of all files of a directory.
func (c *CLI) documents(path string) ([]document, error) {
	files := []string{path}
	if info, err := os.Stat(path); path != "-" && err == nil && info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, &usageError{text: fmt.Sprintf("cannot read %s: %v", path, err), quiet: true}
		}
		files = nil
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); !strings.HasPrefix(e.Name(), ".") && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
	}
	var out []document
	for _, file := range files {
		data, err := c.readInput(file)
		if err != nil {
			return nil, err
		}
		for _, body := range parts(data) {
			var head struct {
				Kind string `yaml:"kind"`
			}
			_ = yaml.Unmarshal(body, &head) // the server tells what is wrong, with lines
			out = append(out, document{file: file, kind: head.Kind, body: body})
		}
	}
	return out, nil
}

// parts cuts a file at its --- lines. Each part keeps its place by empty lines
// before it, so that the server's line numbers are those of the file.
func parts(data []byte) [][]byte {
	var out [][]byte
	var part strings.Builder
	empty, count := true, 0
	end := func() {
		if !empty {
			out = append(out, []byte(part.String()))
		}
		part.Reset()
		part.WriteString(strings.Repeat("\n", count))
		empty = true
	}
	for line := range strings.Lines(string(data)) {
		count++
		text := strings.TrimRight(line, " \t\r\n")
		if text == "---" {
			end()
			continue
		}
		if text != "" && !strings.HasPrefix(text, "#") {
			empty = false
		}
		part.WriteString(line)
	}
	end()
	return out
}

// address finds out where documents go. What is not to be read goes where
// offerings go: the server says what is wrong with it.
func (s *session) address(ctx context.Context, documents []document) error {
	all, err := s.Resources(ctx)
	if err != nil {
		return err
	}
	byKind := map[string]v1.Resource{}
	var kinds []string
	for _, r := range all {
		if r.Offering == "" && slices.Contains(r.Verbs, "apply") {
			byKind[r.Kind] = r
			kinds = append(kinds, r.Kind)
		}
	}
	for i, d := range documents {
		kind := d.kind
		if kind == "" {
			kind = "offering"
		}
		r, ok := byKind[strings.ToLower(kind)]
		if !ok {
			hint := didYouMean(strings.ToLower(kind), kinds)
			if hint == "" {
				hint = "; it takes: " + strings.Join(kinds, ", ")
			}
			return usagef("%s: the server takes no documents of kind %s%s", d.file, quoted(kind), hint)
		}
		documents[i].resource = r
	}
	return nil
}

// place is where the server found a mistake in what it was sent.
var place = regexp.MustCompile(`(?m)^request:(\d+:\d+: )`)

// placed names the file that the caller knows in place of the request.
func placed(file string, err error) error {
	var answer *client.Error
	if errors.As(err, &answer) && place.MatchString(answer.Detail.Reason) {
		told := *answer
		told.Detail.Reason = place.ReplaceAllStringFunc(answer.Detail.Reason, func(at string) string {
			return file + strings.TrimPrefix(at, "request")
		})
		return &told
	}
	return fmt.Errorf("%s: %w", file, err)
}

func (c *CLI) acceptCommand() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "accept terms NAME",
		Short: "Accept terms, in your own name",
		Long: `Tells the server that you accept terms, in the version that is in force, or in the
one that you have read: then it is refused if there is a newer one.`,
		Example: `  drover get terms
  drover describe terms use
  drover accept terms use --version 2
  drover get acceptances`,
		Args:              arguments(1, 2),
		ValidArgsFunction: c.complete(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			word, name, err := target(args)
			if err != nil {
				return err
			}
			s, r, err := c.reach(cmd, word)
			if err != nil {
				return err
			}
			if !slices.Contains(r.Verbs, "accept") {
				return usagef("%s cannot be accepted; they take: %s", r.Name, strings.Join(r.Verbs, ", "))
			}
			found, err := s.find(cmd.Context(), r, name, "")
			if err != nil {
				return err
			}
			o, err := s.Accept(cmd.Context(), found.ID, version)
			if err != nil {
				return err
			}
			switch format := output(cmd); format {
			case "json", "yaml":
				return c.print(format, o)
			case "name":
				c.printf("acceptance/%s\n", clean(o.ID, false))
			default:
				c.printf("%s/%s accepted (version %s)\n", r.Singular, clean(name, false), clean(fieldText(o.Fields["terms_version"]), false))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "the version that you have read")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}
