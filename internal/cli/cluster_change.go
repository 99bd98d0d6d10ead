package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

// lay puts what the flags say over a request that a file began.
func lay(body map[string]any, want v1.CreateCluster) error {
	data, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("cannot make the request: %w", err)
	}
	var over map[string]any
	if err := json.Unmarshal(data, &over); err != nil {
		return fmt.Errorf("cannot make the request: %w", err)
	}
	maps.Copy(body, over)
	return nil
}

// labelEdits reads KEY=VALUE, and where it may go KEY- too, which the server
// takes as an empty value.
func labelEdits(texts []string, remove bool) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range texts {
		key, value, set := strings.Cut(text, "=")
		if !set && remove {
			key, set = strings.CutSuffix(text, "-")
			value = ""
		} else if value == "" {
			set = false
		}
		_, twice := out[key]
		switch {
		case !set || key == "":
			want := "KEY=VALUE"
			if remove {
				want = "KEY=VALUE, or KEY- to take it away"
			}
			return nil, usagef("label %s: want %s", quoted(text), want)
		case twice:
			return nil, usagef("label %s is named twice", quoted(key))
		}
		out[key] = value
	}
	return out, nil
}

func (c *CLI) drainCluster() *cobra.Command {
	var w waitFlags
	var d v1.DrainCluster
	cmd := &cobra.Command{
		Use:   "drain NAME",
		Short: "Let a cluster take no new orders, and be empty in the end",
		Long: `A drained cluster takes no new orders. Instances whose offering says that they can move
(placement.movable) are made anew on other clusters, a few at a time, and removed here once
they are ready there and their hosts point there. While there are others it is refused,
with their names. --force lets those end where they are; --wait stays until it is empty.`,
		Example: `  drover cluster drain edge
  drover cluster drain edge --force --wait --timeout 24h
  drover cluster undrain edge`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("clusters", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, r, before, err := c.oneCluster(cmd, args[0])
			if err != nil {
				return err
			}
			o, err := s.Drain(cmd.Context(), before.ID, d)
			if client.Status(err) == 409 && !d.Force {
				return fmt.Errorf("%w\n`drover cluster drain %s --force` lets them end where they are", err, before.ID)
			}
			if err != nil {
				return err
			}
			verb := "is being drained"
			if state := clusterOf(o); state.Spec.Draining && o.Version == before.Version && state.Status.Operation == "" {
				verb = "is drained"
			}
			return c.finish(cmd, s, outcome{resource: r, object: o, verb: verb, goal: goal{word: "drained", judge: drained}, wait: w, since: o.Version})
		},
	}
	cmd.Flags().BoolVar(&d.Force, "force", false, "also while instances run there that cannot move: they end where they are")
	w.register(cmd, "empty")
	setDefault(cmd, "timeout", clusterWait)
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// drained: the operation that empties it has ended.
func drained(o v1.Object) (bool, error) {
	s := clusterOf(o)
	if !s.Spec.Draining {
		return false, errors.New("somebody took it back")
	}
	return s.Status.Operation == "", nil
}

func (c *CLI) undrainCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "undrain NAME",
		Short:             "Let a drained cluster take orders again",
		Example:           `  drover cluster undrain edge`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeNames("clusters", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, r, before, err := c.oneCluster(cmd, args[0])
			if err != nil {
				return err
			}
			o, err := s.Undrain(cmd.Context(), before.ID)
			if err != nil {
				return err
			}
			return c.finish(cmd, s, changed(r, before, o, "takes orders again"))
		},
	}
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func changed(r v1.Resource, before, o v1.Object, verb string) outcome {
	if o.Version == before.Version {
		verb = "unchanged"
	}
	return outcome{resource: r, object: o, verb: verb}
}

// editCluster changes one cluster: edit makes the request of its state.
func (c *CLI) editCluster(cmd *cobra.Command, name, verb string, edit func(clusterState) (v1.UpdateCluster, error)) error {
	s, r, before, err := c.oneCluster(cmd, name)
	if err != nil {
		return err
	}
	if err := can(r, "update"); err != nil {
		return err
	}
	body, err := edit(clusterOf(before))
	if err != nil {
		return err
	}
	o, err := s.Update(cmd.Context(), r.Name, before.ID, body)
	if err != nil {
		return err
	}
	return c.finish(cmd, s, changed(r, before, o, verb))
}

func (c *CLI) cordonCluster(off bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cordon NAME",
		Short:   "Let a cluster take no new orders; what runs there goes on",
		Example: "  drover cluster cordon edge\n  drover cluster uncordon edge",
	}
	verb := "takes no new orders"
	if !off {
		cmd.Use, cmd.Short, cmd.Example, verb = "uncordon NAME", "Let a cluster take orders again", "  drover cluster uncordon edge", "takes orders again"
	}
	cmd.Args, cmd.ValidArgsFunction = arguments(1, 1), c.completeNames("clusters", 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.editCluster(cmd, args[0], verb, func(s clusterState) (v1.UpdateCluster, error) {
			if !off && s.Spec.Draining {
				return v1.UpdateCluster{}, usagef("it is being drained: `drover cluster undrain %s` takes that back", clean(args[0], false))
			}
			take := !off
			return v1.UpdateCluster{Schedulable: &take}, nil
		})
	}
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) limitCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limit NAME UNITS|none",
		Short: "Set how many units may be placed on a cluster",
		Long: `Bounds what is placed on a cluster, whatever its agent says that fits. What is beyond a
lowered limit stays.`,
		Example: `  drover cluster limit edge 40
  drover cluster limit edge none`,
		Args: arguments(2, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []cobra.Completion{"none"}, cobra.ShellCompDirectiveNoFileComp
			}
			return c.completeNames("clusters", 1)(cmd, args, prefix)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, verb := int64(-1), "has no limit"
			if args[1] != "none" {
				var err error
				if limit, err = strconv.ParseInt(args[1], 10, 64); err != nil || limit < 0 {
					return usagef("%s: want a number of units from 0 on, or none", quoted(args[1]))
				}
				verb = fmt.Sprintf("takes at most %d units", limit)
			}
			return c.editCluster(cmd, args[0], verb, func(clusterState) (v1.UpdateCluster, error) {
				return v1.UpdateCluster{Limit: &limit}, nil
			})
		},
	}
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) labelCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "label NAME KEY=VALUE... KEY-...",
		Short: "Set labels of a cluster, or take them away",
		Long: `Offerings choose clusters by labels (placement.labels); zone is the failure domain that
spreading looks at. What runs there stays.`,
		Example: `  drover cluster label edge zone=b disk=fast
  drover cluster label edge disk-`,
		Args:              arguments(2, -1),
		ValidArgsFunction: c.completeNames("clusters", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			labels, err := labelEdits(args[1:], true)
			if err != nil {
				return err
			}
			return c.editCluster(cmd, args[0], "labelled", func(clusterState) (v1.UpdateCluster, error) {
				return v1.UpdateCluster{Labels: labels}, nil
			})
		},
	}
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (c *CLI) taintCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "taint NAME TAINT... TAINT-...",
		Short: "Keep offerings off a cluster that do not tolerate a word",
		Long: `Only instances whose offering tolerates all taints (placement.tolerates) are placed there
from now on. What runs there stays.`,
		Example: `  drover cluster taint edge gpu
  drover cluster taint edge gpu-`,
		Args:              arguments(2, -1),
		ValidArgsFunction: c.completeNames("clusters", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.editCluster(cmd, args[0], "tainted", func(s clusterState) (v1.UpdateCluster, error) {
				taints, err := taintEdits(s.Spec.Taints, args[1:])
				return v1.UpdateCluster{Taints: &taints}, err
			})
		},
	}
	outputFlag(cmd, "text", "json", "yaml", "name")
	return cmd
}

// taintEdits adds words, and takes those away that end in a dash.
func taintEdits(have, edits []string) ([]string, error) {
	out := append([]string{}, have...)
	for _, edit := range edits {
		word, away := strings.CutSuffix(edit, "-")
		switch {
		case word == "" || strings.ContainsAny(word, "=, "):
			return nil, usagef("taint %s: want a word, or the word with a dash behind it to take it away", quoted(edit))
		case away && !slices.Contains(out, word):
			return nil, usagef("the cluster has no taint %s%s", quoted(word), didYouMean(word, out))
		case away:
			out = slices.DeleteFunc(out, func(t string) bool { return t == word })
		case !slices.Contains(out, word):
			out = append(out, word)
		}
	}
	return out, nil
}
