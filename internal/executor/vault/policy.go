package vault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/vault"
)

// policy is an ACL policy. It says whose it is in a comment, because there is no
// other place; the server has no conditions for writes.
type policy struct {
	c           *vault.Client
	r           executor.Resource
	name, rules executor.Input
	have        map[string]string // text by name, of those that are ours
}

func newPolicy(c *vault.Client, r executor.Resource) (*policy, error) {
	p := &policy{c: c, r: r, name: r.Input("policy"), rules: r.Input("rules")}
	if err := errors.Join(p.name.Open(), p.rules.Open()); err != nil {
		return nil, err
	}
	if n := p.name.Text(); p.name.Known && (n == "" || n != strings.ToLower(n) || strings.ContainsAny(n, "/ ?#%")) {
		return nil, fault.New(fault.Invalid, "%q cannot be the name of a policy; use lower case letters, digits, - and _", n)
	}
	if strings.HasPrefix(strings.TrimSpace(p.rules.Text()), "{") {
		return nil, fault.New(fault.Invalid, "the rules are JSON, which has no room for the mark of their owner; write them in HCL")
	}
	return p, nil
}

func (p *policy) mark() string { return "# drover-resource: " + p.r.ID }

// body is what a text says without the mark.
func (p *policy) body(text string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), p.mark()))
}

func (p *policy) names() []string {
	names := p.r.Memory().Names
	if p.name.Known && !slices.Contains(names, p.name.Text()) {
		names = append(names, p.name.Text())
	}
	slices.Sort(names)
	return names
}

func (p *policy) read(ctx context.Context) (foreign string, err error) {
	p.have = map[string]string{}
	for _, name := range p.names() {
		var is struct {
			Policy string `json:"policy"`
		}
		found, err := p.c.Read(ctx, "sys/policies/acl/"+name, &is)
		if err != nil {
			return "", err
		}
		if !found {
			continue
		}
		other := strings.HasPrefix(is.Policy, "# drover-resource: ")
		switch {
		case strings.HasPrefix(is.Policy, p.mark()), !other && p.r.Outputs["policy"] == name:
			p.have[name] = is.Policy
		case name == p.name.Text():
			foreign = name
		}
	}
	return foreign, nil
}

// Look implements executor.Thing.
func (p *policy) Look(ctx context.Context) (executor.View, error) {
	foreign, err := p.read(ctx)
	if err != nil {
		return executor.View{}, err
	}
	if foreign != "" {
		return executor.View{}, executor.NotOurs("the policy " + foreign)
	}
	v := executor.View{Name: "policy " + p.name.Text(), Outputs: p.Outputs()}
	if p.name.Known {
		v.Takes = []string{"the policy " + p.name.Text()}
	}
	seen := []any{"policy"}
	for _, name := range p.names() {
		text, ok := p.have[name]
		if !ok {
			continue
		}
		seen = append(seen, name, text)
		if !p.name.Known || name != p.name.Text() {
			v.Left = append(v.Left, executor.Field{Path: "policy", Before: name, After: p.name.Show(), Forces: true})
			continue
		}
		v.There = true
		if !p.rules.Known || p.body(text) != strings.TrimSpace(p.rules.Text()) {
			v.Fields = append(v.Fields, executor.Field{Path: "rules", Before: p.body(text), After: p.rules.Show()})
		}
	}
	if !v.There {
		v.Fields = []executor.Field{{Path: "policy", After: p.name.Show()}, {Path: "rules", After: p.rules.Show()}}
	}
	v.Mark = executor.Mark(seen...)
	return v, nil
}

// Make implements executor.Thing.
func (p *policy) Make(ctx context.Context) error {
	if err := p.r.Remember(ctx, p.names(), nil); err != nil {
		return err
	}
	_, err := p.c.Write(ctx, "sys/policies/acl/"+p.name.Text(), map[string]any{"policy": fmt.Sprintf("%s\n%s\n", p.mark(), strings.TrimSpace(p.rules.Text()))})
	return err
}

// Finish implements executor.Thing.
func (p *policy) Finish(ctx context.Context) error {
	for name := range p.have {
		if name != p.name.Text() {
			if err := p.c.Remove(ctx, "sys/policies/acl/"+name); err != nil {
				return err
			}
		}
	}
	return p.r.Remember(ctx, []string{p.name.Text()}, nil)
}

// Remove implements executor.Thing.
func (p *policy) Remove(ctx context.Context) error {
	if _, err := p.read(ctx); err != nil {
		return err
	}
	for name := range p.have {
		if err := p.c.Remove(ctx, "sys/policies/acl/"+name); err != nil {
			return err
		}
	}
	return nil
}

// Outputs implements executor.Thing.
func (p *policy) Outputs() map[string]any { return map[string]any{"policy": p.name.Show()} }
