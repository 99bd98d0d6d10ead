package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

const aboutApprovals = `A rule (a longer deny list, a grant that was cut short) that would take more than a set
share away within an hour stops and asks: what is beyond the share keeps running until
somebody decides. What a user deletes, and what comes to its own end, is never asked about.`

func (c *CLI) approveCommand() *cobra.Command {
	var a v1.Approve
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "approve APPROVAL",
		Short: "Let removals go that wait (operators)",
		Long: aboutApprovals + `

Without --count all go that the rule, as it is now, takes; of a rule without
versions (quota, scaling) as many as wait now.`,
		Example: `  drover get approvals --search "phase = open"
  drover describe approval k3v9q2m7xa
  drover approve k3v9q2m7xa
  drover approve k3v9q2m7xa --count 20 --for 30m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("count") && a.Count < 1:
				return usagef("--count is at least 1; `drover refuse` lets none go")
			case cmd.Flags().Changed("for") && (within < time.Minute || within > 7*24*time.Hour):
				return usagef("--for is a minute to seven days, such as 1h")
			case within > 0:
				a.For = within.String()
			}
			return c.decide(cmd, args, "approve", "approved", func(s *session, id string) (v1.Object, error) {
				return s.Approve(cmd.Context(), id, a)
			})
		},
	}
	cmd.Flags().Int64Var(&a.Count, "count", 0, "how many may go [all]")
	cmd.Flags().DurationVar(&within, "for", 0, "how long it holds [1h]")
	return c.decision(cmd)
}

func (c *CLI) refuseCommand() *cobra.Command {
	return c.decision(&cobra.Command{
		Use:   "refuse APPROVAL",
		Short: "Keep what waits to be removed (operators)",
		Long: aboutApprovals + `

What is refused stays until the rule changes, or until it is approved after all.`,
		Example: `  drover refuse k3v9q2m7xa`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.decide(cmd, args, "refuse", "refused", func(s *session, id string) (v1.Object, error) {
				return s.Refuse(cmd.Context(), id)
			})
		},
	})
}

// decision is what both commands have.
func (c *CLI) decision(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = arguments(0, 2), c.completeApprovals
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// decide takes `approve X`, `approve approval X` and `approve approval/X`.
func (c *CLI) decide(cmd *cobra.Command, args []string, verb, done string, do func(s *session, id string) (v1.Object, error)) error {
	s, r, err := c.reach(cmd, "approval")
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return c.whichApproval(cmd.Context(), s, verb)
	}
	name := args[len(args)-1]
	if kind, rest, split := strings.Cut(name, "/"); split && len(args) == 1 && (kind == r.Singular || kind == r.Name) {
		name = rest
	} else if len(args) == 2 && args[0] != r.Singular && args[0] != r.Name {
		return usagef("one at a time: `drover %s APPROVAL`", verb)
	}
	found, err := s.find(cmd.Context(), r, name, "")
	if err != nil {
		return err
	}
	o, err := do(s, found.ID)
	if err != nil {
		return err
	}
	if err := c.showDone(cmd, r, o, done); err != nil {
		return err
	}
	format := output(cmd)
	if _, message := statusOf(o); message != "" && (format == "" || format == "text") {
		c.note("%s", clean(message, false))
	}
	return nil
}

// whichApproval says what there is to decide about.
func (c *CLI) whichApproval(ctx context.Context, s *session, verb string) error {
	page, err := s.List(ctx, "approvals", client.ListOptions{Search: "phase = open"})
	if err != nil {
		return err
	}
	if len(page.Items) == 0 {
		return usagef("nothing waits for an approval")
	}
	return usagef("which one? `drover %s %s`; open are: %s", verb, clean(page.Items[0].ID, false), clean(strings.Join(objectNames(page.Items), ", "), false))
}

// completeApprovals offers what can be decided about.
func (c *CLI) completeApprovals(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	s, err := c.connect(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	page, err := s.List(ctx, "approvals", client.ListOptions{Size: 200})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []cobra.Completion
	for _, o := range page.Items {
		if o.Phase != "expired" && strings.HasPrefix(o.ID, prefix) {
			_, message := statusOf(o)
			out = append(out, cobra.CompletionWithDesc(o.ID, o.Phase+": "+clean(message, false)))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// checkLimit checks what rules may remove: the server reads it the same way.
func checkLimit(text string) error {
	objects, share, _ := strings.Cut(text, ",")
	percent, is := strings.CutSuffix(strings.TrimSpace(share), "%")
	n, err := strconv.ParseFloat(percent, 64)
	if checkInt(0, 1_000_000)(strings.TrimSpace(objects)) != nil || !is || err != nil || !(n >= 0 && n <= 100) {
		return errors.New("want OBJECTS,SHARE%, such as 5,5%")
	}
	return nil
}
