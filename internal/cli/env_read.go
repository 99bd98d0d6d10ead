package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

func (c *CLI) graphEnv() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "graph NAME",
		Short: "Show the resources of an environment and what each needs",
		Example: `  drover env graph demo
  drover env graph demo -o svg > demo.svg
  drover env graph demo -o mermaid`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			name, format := bareEnv(args)[0], output(cmd)
			if format == "svg" {
				drawn, err := s.Drawing(cmd.Context(), name)
				if err == nil {
					_, err = c.cfg.Out.Write(drawn)
				}
				return err
			}
			g, err := s.Graph(cmd.Context(), name)
			if err != nil {
				return err
			}
			switch format {
			case "json", "yaml":
				return c.print(format, g)
			case "mermaid":
				return c.mermaid(g)
			}
			return c.graphTable(g, "")
		},
	}
	outputFlag(cmd, "table", "svg", "mermaid", "json", "yaml")
	return cmd
}

func (c *CLI) mermaid(g v1.Graph) error {
	at := map[string]int{}
	c.printf("graph LR\n")
	for i, n := range g.Nodes {
		at[n.Address] = i
		c.printf("  n%d[\"%s\"]\n", i, mermaidText(n))
	}
	for i, n := range g.Nodes {
		for _, need := range n.Needs {
			if from, known := at[need]; known {
				c.printf("  n%d --> n%d\n", from, i)
			}
		}
	}
	return nil
}

// mermaidText is a label that neither ends its quotes nor is markup.
func mermaidText(n v1.GraphNode) string {
	safe := strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "#", "#35;", "\n", " ")
	phase := n.Phase
	if n.External {
		phase = "outside"
	}
	return safe.Replace(clean(n.Address, false)) + "<br/>" + safe.Replace(clean(phase, false))
}

func (c *CLI) outputsEnv() *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:   "outputs NAME [OUTPUT]",
		Short: "What an environment gives: entry points, addresses, secrets",
		Example: `  drover env outputs demo
  drover env outputs demo url            # the value alone, for scripts
  drover env outputs demo password --reveal`,
		Args:              arguments(1, 2),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			out, err := s.Outputs(cmd.Context(), bareEnv(args[:1])[0], reveal)
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return c.oneOutput(out, args[1])
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, out)
			}
			t := table{head: []string{"NAME", "VALUE", "KIND"}}
			for _, o := range out.Items {
				kind := ""
				if o.Entry {
					kind = "entry point"
				}
				t.add(o.Name, valueText(o), kind)
			}
			return t.write(c.cfg.Out)
		},
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "secrets too; that is put on record")
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func valueText(o v1.OutputValue) string {
	if o.Secret && o.Value == nil {
		return "(secret)"
	}
	var text string
	if json.Unmarshal(o.Value, &text) == nil {
		return text
	}
	return string(o.Value)
}

func (c *CLI) oneOutput(out v1.Outputs, name string) error {
	var names []string
	for _, o := range out.Items {
		if o.Name != name {
			names = append(names, o.Name)
			continue
		}
		if o.Secret && o.Value == nil {
			return usagef("output %s is a secret: say --reveal", quoted(name))
		}
		c.printf("%s\n", clean(valueText(o), true))
		return nil
	}
	return &notFoundError{"there is no output " + quoted(name) + didYouMean(name, names)}
}

func (c *CLI) driftEnv() *cobra.Command {
	var all, look bool
	cmd := &cobra.Command{
		Use:   "drift NAME",
		Short: "What is not as it should be: changed, gone, or nobody's",
		Long: `Lists what was found to differ from what is expected, with when it was first seen and who
did it where that is known. What could not be looked at is unknown, not gone.`,
		Example: `  drover env drift demo
  drover env drift demo --now      # have everything looked at first
  drover env drift demo --all      # what is over, too`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, o, err := c.oneEnv(cmd, args[0])
			if err != nil {
				return err
			}
			if look {
				if err := c.lookNow(cmd.Context(), s, o); err != nil {
					return err
				}
			}
			search := "environment = '" + o.ID + "'"
			if !all {
				search += " and phase = open"
			}
			page, err := s.List(cmd.Context(), "drifts", client.ListOptions{Search: search, OrderBy: "created desc", Size: 500})
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, page)
			}
			if len(page.Items) == 0 {
				c.printf("everything that could be looked at is as it should be\n")
				return nil
			}
			t := table{head: []string{"RESOURCE", "WHAT", "STATE", "FIRST SEEN", "BY", "DIFFERENCE"}}
			for _, d := range page.Items {
				spec := driftOf(d)
				var fields []string
				for _, f := range spec.Fields {
					fields = append(fields, fmt.Sprintf("%s: %s → %s", f.Path, brief(f.Before), brief(f.After)))
				}
				t.add(spec.Address, spec.What, d.Phase, age(c.now().Sub(spec.First))+" ago", spec.By, strings.Join(fields, "; "))
			}
			return t.write(c.cfg.Out)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "what is over, too")
	cmd.Flags().BoolVar(&look, "now", false, "have everything looked at first")
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

// lookNow has an environment looked at, and waits until that was done.
func (c *CLI) lookNow(ctx context.Context, s *session, o v1.Object) error {
	asked, err := s.ObserveEnvironment(ctx, o.ID)
	if err != nil {
		return err
	}
	var want struct{ Look int64 }
	if err := json.Unmarshal(asked.Spec, &want); err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		var seen struct{ Looked int64 }
		if err := json.Unmarshal(asked.Status, &seen); err == nil && seen.Looked >= want.Look {
			return nil
		}
		select {
		case <-ctx.Done():
			return &timeoutError{"it takes longer than two minutes to look at everything; it goes on without you"}
		case <-time.After(pause):
		}
		if asked, err = s.Get(ctx, "environments", o.ID, ""); err != nil {
			return err
		}
	}
}

func (c *CLI) historyEnv() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "history NAME",
		Short:             "Every change of an environment: when, who, why",
		Example:           "  drover env history demo",
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, r, err := c.reach(cmd, "environments")
			if err != nil {
				return err
			}
			_, history, err := s.story(cmd.Context(), r, bareEnv(args)[0], "")
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, history)
			}
			return c.historyTable(history)
		},
	}
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func (c *CLI) whyEnv() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why NAME[/RESOURCE]",
		Short: "What something depends on and what depends on it, across environments",
		Example: `  drover env why shop-staging/db
  drover env why shop-staging`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("environments", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			name, address := placeOf(args[0])
			why, err := s.Why(cmd.Context(), name, address)
			if err != nil {
				return err
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				return c.print(format, why)
			}
			for _, side := range []struct {
				title string
				tree  []v1.Related
			}{{"depends on", why.Needs}, {"is used by", why.NeededBy}} {
				if len(side.tree) == 0 {
					c.printf("%s %s nothing\n", clean(args[0], false), side.title)
					continue
				}
				c.printf("%s %s\n", clean(args[0], false), side.title)
				c.relatedTree(side.tree, why.Of, "  ")
			}
			return nil
		},
	}
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

// relatedTree prints what hangs below an end.
func (c *CLI) relatedTree(all []v1.Related, of, by string) {
	for _, r := range all {
		if r.Via != of {
			continue
		}
		name := r.End
		if r.Name != "" {
			name = r.Kind + " " + r.Name
			if r.Environment != "" {
				name = r.Environment + "/" + r.Name
			}
		}
		c.printf("%s\n", strings.TrimRight(by+clean(name, false)+" "+c.phase(clean(r.Phase, false)), " "))
		c.relatedTree(all, r.End, by+"  ")
	}
}
