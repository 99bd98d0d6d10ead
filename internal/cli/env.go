package cli

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

// envWait is longer than others wait: clouds are slow.
const envWait = 30 * time.Minute

func (c *CLI) envCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "env",
		Aliases: []string{"environment"},
		Short:   "Environments: plan, make, look after and destroy what a template describes",
		Long: `An environment is a template deployed: resources of many executors in one graph.

  drover env plan shop-staging --template shop --set size=small    what would be done; nothing is touched
  drover env apply shop-staging --plan HASH --wait                 and do just that
  drover env create demo --template shop --ttl 8h --wait           both at once, with an end
  drover env get ; drover env describe demo ; drover env graph demo
  drover env outputs demo ; drover env logs demo/db -f
  drover env drift demo                                            what is not as it should be
  drover env extend demo +4h ; drover env destroy demo --wait`,
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.planEnv(), c.applyEnv(), c.createEnv(), c.destroyEnv(), c.retryEnv(), c.unlockEnv(), c.rollbackEnv(),
		c.onEnvironments(c.getCommand(), "get [NAME...]", "List environments", "  drover env get\n  drover env get demo -o yaml"),
		c.onEnvironments(c.describeCommand(), "describe NAME...", "What an environment is made of, how it is, and its whole history", "  drover env describe demo"),
		c.graphEnv(), c.outputsEnv(), c.driftEnv(), c.historyEnv(), c.whyEnv(), c.logsEnv(), c.extendEnv(), c.protectEnv(), c.tagEnv(), c.actionEnv())
	return cmd
}

// onEnvironments is a verb of all resources for this one.
func (c *CLI) onEnvironments(verb *cobra.Command, use, short, example string) *cobra.Command {
	verb.Use, verb.Short, verb.Long, verb.Example, verb.GroupID = use, short, "", example, ""
	verb.ValidArgsFunction = c.completeNames("environments", -1)
	run := verb.RunE
	verb.Args = arguments(0, -1)
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		return run(cmd, append([]string{"environments"}, bareEnv(args)...))
	}
	return verb
}

// bareEnv takes the resource off names that `-o name` printed.
func bareEnv(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.TrimPrefix(strings.TrimPrefix(name, "environments/"), "environment/")
	}
	return out
}

// envState is what the client reads of an environment's documents.
type envState struct {
	Spec struct {
		Description string         `json:"description"`
		Tags        []string       `json:"tags"`
		Template    string         `json:"template"`
		Version     string         `json:"version"`
		Parameters  map[string]any `json:"parameters"`
		Ends        time.Time      `json:"ends"`
		Protected   bool           `json:"protected"`
		Destroy     bool           `json:"destroy"`
		Next        *struct {
			Plan      string `json:"plan"`
			Operation string `json:"operation"`
		} `json:"next"`
	} `json:"spec"`
	Status struct {
		Message   string `json:"message"`
		Operation string `json:"operation"`
		Counts    struct {
			Total, Ready, Pending, Applying, Failed, Leaving, Drifted int64
		} `json:"counts"`
		Groups []struct {
			Address, Template, Status string
		} `json:"groups"`
		Entries, Checks []struct {
			Name, Of, URL, Message string
			OK                     *bool
		}
		Observed time.Time `json:"observed"`
	} `json:"status"`
}

func envOf(o v1.Object) envState {
	var s envState
	// What cannot be read is left out: the object is shown all the same.
	_ = json.Unmarshal(o.Spec, &s.Spec)
	_ = json.Unmarshal(o.Status, &s.Status)
	return s
}

// operation is the one that tells how the last wish goes.
func (s envState) operation() string {
	if s.Spec.Next != nil {
		return s.Spec.Next.Operation
	}
	return s.Status.Operation
}

// placeOf splits NAME/ADDRESS.
func placeOf(arg string) (environment, address string) {
	environment, address, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "environments/"), "environment/"), "/")
	return environment, address
}
