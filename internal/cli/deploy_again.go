package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

// sameDeploy is the outcome of asking again for a deployment that is there: nothing,
// if it is the same. Otherwise the error says what differs, and how that is changed.
func (s *session) sameDeploy(cmd *cobra.Command, r v1.Resource, want v1.CreateDeployment, w waitFlags, refused error) (outcome, error) {
	o, err := s.Get(cmd.Context(), r.Name, want.Name, "")
	if err != nil || o.Deleted != nil || o.Phase == "deleting" {
		return outcome{}, refused // it is not known which one is meant, or it is on its way out
	}
	flags := differs(deployOf(o), want)
	if len(flags) == 0 {
		return outcome{resource: r, object: o, verb: "unchanged", goal: deployed(o), wait: w, since: o.Version}, nil
	}
	name := clean(label(o), false)
	if !slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--to") || strings.HasPrefix(f, "--sync") }) {
		return outcome{}, &conflictError{fmt.Sprintf("there is a deployment %s already, which is another one: `drover deploy update %s %s` makes it this one", name, name, strings.Join(flags, " "))}
	}
	return outcome{}, &conflictError{fmt.Sprintf("there is a deployment %s already, which goes to %s: delete it first, or take another name", name, clean(deployOf(o).destination(), false))}
}

// differs are the flags by which a wish is another one than what is there.
func differs(is deployState, want v1.CreateDeployment) (flags []string) {
	add := func(same bool, flag, value string) {
		if !same {
			flags = append(flags, strings.TrimSpace(flag+" "+value))
		}
	}
	add(is.Spec.Repository == want.Repository, "--repo", want.Repository)
	add(is.Spec.Path == want.Path, "--path", want.Path)
	add(is.Spec.Revision == want.Revision, "--revision", strconv.Quote(want.Revision))
	add(is.Spec.Automated || want.Manual, "--automated", "")
	add(!is.Spec.Automated || !want.Manual, "--manual", "")
	to := is.Spec.To
	if to.Cluster == want.Cluster && to.Target == want.Target && maps.Equal(to.Selector, want.Selector) {
		add(to.Namespace == want.Namespace, "--namespace", want.Namespace)
	} else {
		add(false, "--to", "")
	}
	add(len(want.SyncOptions) == 0 || slices.Equal(is.Spec.SyncOptions, want.SyncOptions), "--sync-option", "")
	return flags
}

// waitsFor is what a deployment is held up by that may pass, for who waits.
func waitsFor(since int64) func(v1.Object) string {
	return func(o v1.Object) string {
		s := deployOf(o).Status
		if o.Version <= since || o.Phase == "deployed" {
			return "" // what is known is of the wish before
		}
		if s.Error != "" {
			return s.Error
		}
		return s.Unread
	}
}

// completeDeploy offers what the flags of a new deployment can be.
func (c *CLI) completeDeploy(cmd *cobra.Command) {
	for flag, resource := range map[string]string{"to": "clusters", "to-target": "targets", "workspace": "workspaces", "repo": "repositories"} {
		cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
			defer cancel()
			s, err := c.connect(cmd)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			page, err := s.List(ctx, resource, client.ListOptions{Size: 200})
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			directive := cobra.ShellCompDirectiveNoFileComp
			var out []cobra.Completion
			for _, o := range page.Items {
				word := label(o)
				switch flag {
				case "to", "to-target": // the namespace comes behind it
					word += "/"
					directive |= cobra.ShellCompDirectiveNoSpace
				case "repo":
					word = fieldText(o.Fields["url"])
				}
				if word != "" && strings.HasPrefix(word, prefix) {
					out = append(out, word)
				}
			}
			return out, directive
		})
	}
	cmd.RegisterFlagCompletionFunc("sync-option", cobra.FixedCompletions([]string{"CreateNamespace=true", "CreateNamespace=false"}, cobra.ShellCompDirectiveNoFileComp))
}

// completeHistory offers the entries of a deployment's history.
func (c *CLI) completeHistory(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	s, _, o, err := c.oneDeploy(cmd, args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	status, err := s.DeploymentStatus(ctx, o.ID)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []cobra.Completion
	for _, h := range slices.Backward(status.History) {
		out = append(out, cobra.CompletionWithDesc(strconv.FormatInt(h.ID, 10), clean(first12(h.Revision)+" "+h.Message, false)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
