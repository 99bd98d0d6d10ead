package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

// bodyFlags are the ways to say what is wanted.
type bodyFlags struct {
	file   string
	params []string
	sets   []string
	words  map[string]*string // flag to field of the request
}

func (b *bodyFlags) register(cmd *cobra.Command, words map[string][2]string) {
	flags := cmd.Flags()
	flags.StringVarP(&b.file, "file", "f", "", "`file` with the request in YAML or JSON, - for standard input")
	flags.StringArrayVarP(&b.params, "param", "p", nil, "a parameter of the offering, `NAME=VALUE`; dots reach inside")
	flags.StringArrayVar(&b.sets, "set", nil, "any field of the request, `FIELD=VALUE`")
	b.words = map[string]*string{}
	for flag, word := range words {
		b.words[word[0]] = flags.String(flag, "", word[1])
	}
}

// body builds the request: the file, then the flags over it.
func (b *bodyFlags) body(c *CLI) (map[string]any, error) {
	body := map[string]any{}
	if b.file != "" {
		data, err := c.readInput(b.file)
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(data, &body); err != nil {
			return nil, &usageError{text: fmt.Sprintf("%s: %v", b.file, err), quiet: true}
		}
		if body == nil {
			body = map[string]any{}
		}
	}
	for field, text := range b.words {
		if *text != "" {
			body[field] = *text
		}
	}
	for _, assignment := range b.sets {
		if err := assign(body, assignment, "--set"); err != nil {
			return nil, err
		}
	}
	for _, assignment := range b.params {
		if err := assign(body, "parameters."+assignment, "--param"); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// assign sets a.b=value. A value that is a number, true, false, null or JSON is
// that; everything else is text.
func assign(body map[string]any, assignment, flag string) error {
	path, text, ok := strings.Cut(assignment, "=")
	keys := strings.Split(path, ".")
	if !ok || slices.Contains(keys, "") {
		return usagef("%s %s: want NAME=VALUE", flag, quoted(strings.TrimPrefix(assignment, "parameters.")))
	}
	var v any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil || decoder.More() {
		v = text
	}
	for _, key := range keys[:len(keys)-1] {
		inner, ok := body[key].(map[string]any)
		if !ok {
			inner = map[string]any{}
			body[key] = inner
		}
		body = inner
	}
	body[keys[len(keys)-1]] = v
	return nil
}

const maxInput = 10 << 20

func (c *CLI) readInput(path string) ([]byte, error) {
	if path != "-" {
		data, err := readBounded(path, maxInput)
		if err != nil {
			return nil, &usageError{text: fmt.Sprintf("cannot read %s: %v", path, err), quiet: true}
		}
		return data, nil
	}
	data, err := readAll(c.cfg.In, maxInput)
	if err != nil {
		return nil, fmt.Errorf("cannot read standard input: %w", err)
	}
	return data, nil
}

// waitFlags are shared by the verbs that can wait.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

func (w *waitFlags) register(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "stay until it is "+what+", with progress")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 5*time.Minute, "how long --wait waits")
}

func (c *CLI) createCommand() *cobra.Command {
	var b bodyFlags
	var w waitFlags
	cmd := &cobra.Command{
		Use:   "create RESOURCE [NAME]",
		Short: "Order something new",
		Example: `  drover create dinosaur rex --wait
  drover create dinosaur rex --param species=Triceratops --region local --plan standard.x1
  drover create dinosaur -f rex.yaml          # name: rex, region: local, parameters: {...}
  drover create kafka orders --plan standard.x1 --billing-model eval --provider aws --region us-east-1
  drover create offering -f dinosaur.yaml     # the same as drover apply -f`,
		Args:              arguments(1, 2),
		ValidArgsFunction: c.complete(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if len(args) == 1 && strings.Contains(args[0], "/") {
				args = strings.SplitN(args[0], "/", 2)
			}
			body, err := b.body(c)
			if err != nil {
				return err
			}
			s, r, err := c.reach(cmd, args[0])
			if err != nil {
				return err
			}
			if slices.Contains(r.Verbs, "apply") {
				if b.file == "" || len(args) > 1 {
					return usagef("%s are made from a file: `drover apply -f FILE`", r.Name)
				}
				return c.apply(cmd, s, []string{b.file})
			}
			if err := can(r, "create"); err != nil {
				return err
			}
			if len(args) > 1 {
				body["name"] = args[1]
			}
			if body["name"] == nil || body["name"] == "" {
				return usagef("a %s needs a name: `drover create %s NAME`", r.Singular, r.Singular)
			}
			verb := "created"
			if name, ok := body["name"].(string); ok && r.Kind == "cluster" && s.has(ctx, r, name) {
				verb = "exists already" // whoever joins a cluster may say so again, which changes nothing
			}
			o, err := s.Create(ctx, r.Name, body)
			if err != nil {
				return err
			}
			return c.finish(cmd, s, outcome{resource: r, object: o, verb: verb, goal: goal{word: "ready"}, wait: w})
		},
	}
	b.register(cmd, map[string][2]string{
		"provider": {"cloud_provider", "cloud provider [the offering's first]"},
		"region":   {"region", "region [the provider's first]"},
		"plan":     {"plan", "plan, TYPE.SIZE [the offering's first]"},
		"version":  {"version", "version [the offering's newest]"},

		"billing-model":   {"billing_model", "how it is paid for [what you have quota for]"},
		"marketplace":     {"marketplace", "marketplace that bills it"},
		"billing-account": {"billing_cloud_account_id", "`id` of your account at the marketplace"},
		"cluster":         {"cluster_id", "`id` of a cluster of your own [the fleet's]"},
	})
	c.completeValues(cmd, map[string]func(sold) []string{
		"provider": sold.providers, "region": sold.regions, "plan": sold.plans, "billing-model": sold.models, "marketplace": sold.marketplaces, "version": sold.versions,
	})
	cmd.AddCommand(c.createUser(), c.createServiceAccount(), c.createCluster(&cobra.Command{
		Use: "cluster NAME", Aliases: []string{"clusters"}, Example: "  drover create cluster c2 --profile small --provider aws --region us-east-1 --wait",
	}))
	w.register(cmd, "ready")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) updateCommand() *cobra.Command {
	var b bodyFlags
	var w waitFlags
	var suspend, resume bool
	cmd := &cobra.Command{
		Use:   "update RESOURCE NAME",
		Short: "Change what is wanted of something",
		Example: `  drover update dinosaur rex --param species=Stegosaurus --wait
  drover update dinosaur rex --version 1.1.0
  drover update dinosaur rex --owner bob
  drover update dinosaur rex --suspend        # and --resume`,
		Args:              arguments(1, 2),
		ValidArgsFunction: c.complete(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			word, name, err := target(args)
			if err != nil {
				return err
			}
			body, err := b.body(c)
			if err != nil {
				return err
			}
			reach := goal{word: "ready"}
			switch {
			case suspend && resume:
				return usagef("--suspend or --resume, not both")
			case suspend:
				body["suspended"], reach.word = true, "suspended"
			case resume:
				body["suspended"] = false
			}
			if len(body) == 0 {
				return usagef("nothing to change: give --param, --set, --version, --owner, --suspend, --resume or -f")
			}
			s, r, err := c.reach(cmd, word)
			if err != nil {
				return err
			}
			if err := can(r, "update"); err != nil {
				return err
			}
			before, err := s.find(ctx, r, name, "")
			if err != nil {
				return err
			}
			o, err := s.Update(ctx, r.Name, before.ID, body)
			if err != nil {
				return err
			}
			reach.generation = o.Generation
			verb := "updated"
			if o.Version == before.Version {
				verb = "unchanged"
			}
			return c.finish(cmd, s, outcome{resource: r, object: o, verb: verb, goal: reach, wait: w, since: o.Version})
		},
	}
	b.register(cmd, map[string][2]string{
		"version": {"version", "version to move to"},
		"owner":   {"owner", "user who owns it from now on"},
	})
	cmd.Flags().BoolVar(&suspend, "suspend", false, "stop it, and keep it")
	cmd.Flags().BoolVar(&resume, "resume", false, "start it again")
	w.register(cmd, "so")
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// outcome is an accepted request, and what is left to do for the command.
type outcome struct {
	resource v1.Resource
	object   v1.Object
	verb     string
	goal     goal
	wait     waitFlags
	since    int64
}

// finish says what was accepted, waits if asked to, and prints the result.
func (c *CLI) finish(cmd *cobra.Command, s *session, o outcome) error {
	format := output(cmd)
	text := format == "" || format == "text"
	name := o.resource.Singular + "/" + clean(label(o.object), false)
	if text && (!o.wait.wait || o.verb == "unchanged") {
		c.printf("%s %s\n", name, o.verb)
	}
	object := o.object
	if o.wait.wait {
		w := waiting{resource: o.resource, object: o.object, goal: o.goal, since: o.since, timeout: o.wait.timeout, out: c.cfg.Out, live: c.tty}
		if !text {
			w.out, w.live = c.cfg.Err, false
		}
		var err error
		if object, err = c.wait(cmd.Context(), s, w); err != nil && !(o.goal.word == "deleted" && client.Status(err) == 404) {
			return err
		}
	}
	switch {
	case format == "name":
		c.printf("%s\n", name)
	case !text:
		return c.print(format, object)
	case o.wait.wait && o.goal.word == "ready":
		if link := s.link(object); link != "" {
			c.printf("%s\n", clean(link, false))
		}
	case !o.wait.wait && o.verb == "created":
		c.note("`drover wait %s %s` waits until it is ready", o.resource.Singular, clean(label(object), false))
	}
	return nil
}
