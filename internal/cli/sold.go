package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
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

// allSold reads what every offering sells.
func (c *CLI) allSold(cmd *cobra.Command) ([]sold, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	s, err := c.connect(cmd)
	if err != nil {
		return nil, err
	}
	page, err := s.List(ctx, "offerings", client.ListOptions{Size: 200})
	if err != nil {
		return nil, err
	}
	var out []sold
	for _, o := range page.Items {
		var document struct{ Spec sold }
		if json.Unmarshal(o.Spec, &document) == nil {
			out = append(out, document.Spec)
		}
	}
	return out, nil
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

// offeringFacts are the lines above an offering's document: what can be ordered,
// where, and how it is paid for.
func offeringFacts(o v1.Object) [][2]string {
	var document struct {
		Spec struct {
			sold
			Names struct{ Singular, Plural string }
		}
	}
	if json.Unmarshal(o.Spec, &document) != nil {
		return nil
	}
	s := document.Spec
	var out [][2]string
	add := func(name string, words ...string) {
		if text := strings.Join(words, ", "); text != "" {
			out = append(out, [2]string{name, text})
		}
	}
	if s.Names.Singular != "" {
		add("Order", "drover create "+s.Names.Singular+" NAME --wait")
	}
	add("Plans", s.plans()...)
	var places []string
	for _, p := range s.Providers {
		for _, r := range p.Regions {
			places = append(places, p.Name+"/"+r.Name)
		}
	}
	add("Places", places...)
	for _, c := range s.Components {
		if len(c.Versions) > 0 {
			add("Versions", c.Name+" "+strings.Join(c.Versions, ", "))
		}
	}
	add("Billing", s.models()...)
	return out
}
