package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

// planFlags say what an environment is to be.
type planFlags struct {
	want        v1.PlanEnvironment
	sets        []string
	file        string
	description string
}

func (f *planFlags) register(c *CLI, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.want.Template, "template", "", "`name`, name@version or name@commit [the version that it has]")
	flags.StringArrayVar(&f.sets, "set", nil, "a parameter, `NAME=VALUE`; dots reach inside; may be repeated")
	flags.StringVarP(&f.file, "file", "f", "", "`file` with parameters in YAML or JSON, - for standard input")
	flags.StringVar(&f.description, "description", "", "for people, and for search")
	flags.StringSliceVar(&f.want.Tags, "tag", nil, "may be repeated")
	flags.StringVar(&f.want.TTL, "ttl", "", "destroy it after this `time`, such as 8h [the template's, or never]")
	flags.BoolVar(&f.want.Reset, "reset", false, "parameters that are not named get their defaults, not what they are now")
	cmd.RegisterFlagCompletionFunc("template", func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.namesOf(cmd, "templates", prefix, nil)
	})
}

func (f *planFlags) request(c *CLI, cmd *cobra.Command) (v1.PlanEnvironment, error) {
	body, err := (&bodyFlags{file: f.file, sets: f.sets}).body(c)
	if err != nil {
		return f.want, err
	}
	if len(body) > 0 {
		f.want.Parameters = body
	}
	if cmd.Flags().Changed("description") {
		f.want.Description = &f.description
	}
	if f.want.TTL != "" {
		if d, err := time.ParseDuration(f.want.TTL); err != nil || d <= 0 {
			return f.want, usagef("--ttl %s: want a duration such as 8h or 30m", quoted(f.want.TTL))
		}
	}
	return f.want, nil
}

func (c *CLI) planEnv() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan NAME",
		Short: "Tell what would be done over every executor; nothing is touched",
		Long: `Asks every executor what it would do, in the order of the graph, and shows one plan with a
hash. What is known only after something was applied is said to be unknown.`,
		Example: `  drover env plan shop-staging --template shop --set size=small
  drover env plan shop-staging --template shop@1.3.0        # an upgrade
  drover env plan shop-staging --destroy`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := f.request(c, cmd)
			if err != nil {
				return err
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			return c.plan(cmd, s, bareEnv(args)[0], want)
		},
	}
	f.register(c, cmd)
	cmd.Flags().BoolVar(&f.want.Destroy, "destroy", false, "plan its destruction")
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

func (c *CLI) rollbackEnv() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "rollback NAME",
		Short:             "Plan the way back to the version and parameters before the last change",
		Example:           "  drover env rollback shop-staging",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			return c.plan(cmd, s, bareEnv(args)[0], v1.PlanEnvironment{Rollback: true})
		},
	}
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

// plan has a plan made and shows it.
func (c *CLI) plan(cmd *cobra.Command, s *session, name string, want v1.PlanEnvironment) error {
	p, err := s.PlanEnvironment(cmd.Context(), name, want)
	if err == nil {
		p, err = c.planned(cmd.Context(), s, p)
	}
	if err != nil {
		return err
	}
	if format := output(cmd); format == "json" || format == "yaml" {
		if err := c.print(format, p); err != nil {
			return err
		}
	} else {
		c.showEnvPlan(p)
	}
	switch p.Phase {
	case "failed":
		return fmt.Errorf("no plan could be made: %s", clean(p.Message, true))
	case "denied":
		return &deniedError{"the plan is denied: " + clean(p.Message, true)}
	}
	return nil
}

// planned waits until a plan is made. Most are within a moment: the pauses are
// short at first.
func (c *CLI) planned(ctx context.Context, s *session, p v1.Plan) (v1.Plan, error) {
	for pause := 20 * time.Millisecond; p.Phase == "planning"; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
			return p, context.Cause(ctx)
		case <-time.After(pause):
		}
		var err error
		if p, err = s.Plan(ctx, p.ID); err != nil {
			return p, err
		}
	}
	return p, nil
}

var planMarks = map[string]string{"create": "+", "change": "~", "replace": "±", "destroy": "-"}

// showEnvPlan prints what changes; what stays is only counted.
func (c *CLI) showEnvPlan(p v1.Plan) {
	safe := func(text string) string { return clean(text, false) }
	for _, r := range p.Resources {
		mark, moves := planMarks[r.Action]
		if !moves {
			continue
		}
		line := fmt.Sprintf("%s %s (%s)", mark, safe(r.Address), safe(r.Executor))
		if r.Unknown {
			line += ", depends on what is known only later"
		}
		c.printf("%s\n", c.planColor(r.Action, line))
		if r.Why != "" {
			c.printf("    because %s\n", safe(r.Why))
		}
		for _, f := range r.Fields {
			forces := ""
			if f.Forces {
				forces = "   # cannot be changed in place"
			}
			switch {
			case f.Before == nil:
				c.printf("    %s = %s%s\n", safe(f.Path), brief(f.After), forces)
			case f.After == nil:
				c.printf("    %s was %s%s\n", safe(f.Path), brief(f.Before), forces)
			default:
				c.printf("    %s: %s → %s%s\n", safe(f.Path), brief(f.Before), brief(f.After), forces)
			}
		}
	}
	for _, v := range p.Verdicts {
		c.printf("policy %s %s %s: %s\n", safe(v.Policy), map[string]string{"deny": "denies", "approve": "wants an approval for"}[v.Effect], safe(v.Address), safe(v.Message))
	}
	if p.Phase == "failed" {
		return
	}
	c.printf("%d to create, %d to change, %d to replace, %d to destroy, %d as they are\n", p.Creates, p.Updates, p.Replaces, p.Destroys, p.Same)
	short := p.Hash[:min(12, len(p.Hash))]
	switch p.Phase {
	case "planned":
		verb := "apply"
		if p.Destroy {
			verb = "destroy"
		}
		c.printf("Plan %s: `drover env %s %s --plan %s --wait` does just this, and nothing if anything has moved by then.\n", short, verb, safe(p.Environment), short)
	case "approval":
		c.printf("Plan %s waits for an approval: %s\n`drover approve %s`, then `drover env apply %s --plan %s`.\n", short, safe(p.Message), safe(p.Approval), safe(p.Environment), short)
	}
}

func (c *CLI) planColor(action, text string) string {
	code, known := map[string]string{"create": "32", "change": "33", "replace": "35", "destroy": "31"}[action]
	if !c.color || !known {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// brief is a value on one line, shortened.
func brief(v json.RawMessage) string {
	text := clean(strings.Join(strings.Fields(plainJSON(v)), " "), false)
	if text == `"(secret)"` || text == `"(known after apply)"` {
		return strings.Trim(text, `"`)
	}
	if short := []rune(text); len(short) > 100 {
		return string(short[:99]) + "…"
	}
	return text
}

// plainJSON takes back what JSON escapes for the sake of web pages.
func plainJSON(v json.RawMessage) string {
	return strings.NewReplacer(`\\`, `\\`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(v))
}

func (c *CLI) applyEnv() *cobra.Command {
	var w waitFlags
	var f planFlags
	var plan string
	var yes bool
	cmd := &cobra.Command{
		Use:   "apply NAME",
		Short: "Carry a plan out",
		Long: `Does what a plan says, and nothing at all if anything has moved since it was made. Without
--plan a plan is made and shown first, and carried out when you agree.`,
		Example: `  drover env apply shop-staging --plan 3fa9c2d1b0e7 --wait
  drover env apply shop-staging --set size=large --yes --wait`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := f.request(c, cmd)
			if err != nil {
				return err
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			name := bareEnv(args)[0]
			if plan == "" {
				if plan, err = c.agreed(cmd, s, name, want, yes); err != nil {
					return err
				}
			}
			since, err := s.moment(cmd.Context())
			if err != nil {
				return err
			}
			o, err := s.ApplyEnvironment(cmd.Context(), name, v1.ApplyEnvironment{Plan: plan})
			if err != nil {
				return err
			}
			return c.carried(cmd, s, carrying{object: o, verb: "is being changed", wait: w, since: since})
		},
	}
	f.register(c, cmd)
	cmd.Flags().StringVar(&plan, "plan", "", "`hash` of a plan that you have seen; 8 digits of it are enough")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	w.register(cmd, "Deployed-OK")
	setDefault(cmd, "timeout", envWait)
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// agreed makes a plan, shows it and asks.
func (c *CLI) agreed(cmd *cobra.Command, s *session, name string, want v1.PlanEnvironment, yes bool) (string, error) {
	p, err := s.PlanEnvironment(cmd.Context(), name, want)
	if err == nil {
		p, err = c.planned(cmd.Context(), s, p)
	}
	if err != nil {
		return "", err
	}
	if text := output(cmd); text == "" || text == "text" {
		c.showEnvPlan(p)
	}
	switch {
	case p.Phase == "denied":
		return "", &deniedError{"the plan is denied: " + clean(p.Message, true)}
	case p.Phase == "approval":
		return "", &conflictError{"the plan waits for an approval, nothing was done: " + clean(p.Message, true)}
	case p.Phase != "planned":
		return "", fmt.Errorf("no plan could be made: %s", clean(p.Message, true))
	case yes:
		return p.Hash, nil
	}
	return p.Hash, c.ask("Do it?", "nothing was done", fmt.Sprintf("nobody can be asked here: name the plan (--plan %.12s) or say --yes", p.Hash))
}

func (c *CLI) createEnv() *cobra.Command {
	var w waitFlags
	var f planFlags
	cmd := &cobra.Command{
		Use:   "create NAME --template TEMPLATE",
		Short: "Make an environment: plan and apply in one",
		Example: `  drover env create demo --template shop --ttl 8h --wait
  drover env create demo --template shop@1.2.0 --set size=large --tag demo`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := f.request(c, cmd)
			if err != nil {
				return err
			}
			if want.Template == "" {
				return usagef("which template? `drover get templates` lists them")
			}
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			since, err := s.moment(cmd.Context())
			if err != nil {
				return err
			}
			o, err := s.Create(cmd.Context(), "environments", v1.CreateEnvironment{Name: args[0], PlanEnvironment: want})
			if err != nil {
				return err
			}
			return c.carried(cmd, s, carrying{object: o, verb: "created", wait: w, since: since})
		},
	}
	f.register(c, cmd)
	w.register(cmd, "Deployed-OK")
	setDefault(cmd, "timeout", envWait)
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}
