package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// sold is what an offering's document says can be chosen. It only helps to
// complete words: the server decides.
type sold struct {
	Types []struct {
		Name  string
		Sizes []struct{ Name string }
	}
	Billing []struct {
		Name         string
		Marketplaces []string
		Promotable   []string
	}
	Providers []struct {
		Name    string
		Regions []struct{ Name string }
	}
	Components []struct {
		Name     string
		Versions []string
	}
}

func (s sold) plans() (out []string) {
	for _, t := range s.Types {
		for _, size := range t.Sizes {
			out = append(out, t.Name+"."+size.Name)
		}
	}
	return out
}

func (s sold) models() (out []string) {
	for _, m := range s.Billing {
		out = append(out, m.Name)
	}
	return out
}

func (s sold) marketplaces() (out []string) {
	for _, m := range s.Billing {
		out = append(out, m.Marketplaces...)
	}
	return out
}

func (s sold) promotable() (out []string) {
	for _, m := range s.Billing {
		out = append(out, m.Promotable...)
	}
	return out
}

func (s sold) providers() (out []string) {
	for _, p := range s.Providers {
		out = append(out, p.Name)
	}
	return out
}

func (s sold) regions() (out []string) {
	for _, p := range s.Providers {
		for _, r := range p.Regions {
			out = append(out, r.Name)
		}
	}
	return out
}

func (s sold) versions() (out []string) {
	if len(s.Components) > 0 {
		out = s.Components[0].Versions
	}
	return out
}

// components are offered with the versions that the file knows; the data
// plane's are not known here.
func (s sold) components() (out []string) {
	for _, c := range s.Components {
		out = append(out, c.Name+"=")
		for _, v := range c.Versions {
			out = append(out, c.Name+"="+v)
		}
	}
	return out
}

// completeValues completes flags with what the offering of the resource sells.
func (c *CLI) completeValues(cmd *cobra.Command, flags map[string]func(sold) []string) {
	for name, pick := range flags {
		cmd.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
			defer cancel()
			word, _, _ := strings.Cut(args[0], "/")
			s, r, err := c.reach(cmd, word)
			if err != nil || r.Offering == "" {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			o, err := s.Get(ctx, "offerings", r.Offering, "")
			var document struct{ Spec sold }
			if err != nil || json.Unmarshal(o.Spec, &document) != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			out := slices.DeleteFunc(pick(document.Spec), func(w string) bool { return !strings.HasPrefix(w, prefix) })
			slices.Sort(out)
			return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
		})
	}
}
