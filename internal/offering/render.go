package offering

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// RouteHost is a route of one instance.
type RouteHost struct {
	Name string `json:"name"`
	Host string `json:"host"`
}

var hostForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Routes of an instance, in the order of the file. A host that renders as
// nothing is left out.
func (o *Offering) Routes(ctx context.Context, facts Facts) ([]RouteHost, error) {
	v, err := o.render(ctx, o.routes, facts, Surroundings{})
	if err != nil {
		return nil, fmt.Errorf("cannot make the routes of offering %s: %w", o.Metadata.Name, err)
	}
	hosts, _ := v.([]any)
	out := make([]RouteHost, 0, len(hosts))
	for i, h := range hosts {
		host, _ := h.(string)
		if h == nil || h == "" {
			continue
		}
		host = strings.ToLower(host)
		if len(host) > 253 || !hostForm.MatchString(host) {
			return nil, fault.New(fault.Invalid, "the host of route %s would not be a host name", o.Spec.Routes[i].Name).Because("host")
		}
		out = append(out, RouteHost{Name: o.Spec.Routes[i].Name, Host: host})
	}
	return out, nil
}

// Desired is the document that the data plane receives for an instance, with
// marks where FillSecrets puts the secrets.
func (o *Offering) Desired(ctx context.Context, facts Facts, around Surroundings) (json.RawMessage, error) {
	v, err := o.render(ctx, o.desired, facts, around)
	if err != nil {
		return nil, fmt.Errorf("cannot make the desired state of offering %s: %w", o.Metadata.Name, err)
	}
	return document.Encode(marked(v))
}

// Present is what the public API shows of an instance beyond what it always
// shows: a JSON object, without null and "" at any depth of its objects.
func (o *Offering) Present(ctx context.Context, facts Facts) (json.RawMessage, error) {
	return o.view(ctx, o.present, facts, Surroundings{})
}

// PresentAdmin is the same for the offering's operators.
func (o *Offering) PresentAdmin(ctx context.Context, facts Facts, around Surroundings) (json.RawMessage, error) {
	if o.Spec.Admin.Present == nil {
		return o.view(ctx, o.present, facts, around)
	}
	return o.view(ctx, o.presentAdmin, facts, around)
}

func (o *Offering) view(ctx context.Context, t *expr.Template, facts Facts, around Surroundings) (json.RawMessage, error) {
	v, err := o.render(ctx, t, facts, around)
	if err != nil {
		return nil, fmt.Errorf("cannot make the presentation of offering %s: %w", o.Metadata.Name, err)
	}
	m, _ := prune(v).(map[string]any)
	if m == nil {
		return json.RawMessage("{}"), nil
	}
	return document.Encode(m)
}

// Rank is the text that lists of instances can be sorted by besides their
// columns; "" where the offering names none, or it cannot be made: an order
// must not keep an instance from being written.
func (o *Offering) Rank(ctx context.Context, facts Facts) string {
	if o.Spec.API.Rank == "" {
		return ""
	}
	text, _ := o.text(ctx, o.rank, facts, nil)
	return text
}

func (o *Offering) text(ctx context.Context, t *expr.Template, facts Facts, escape func(string) string) (string, error) {
	vars, err := o.vars(&facts, &Surroundings{})
	if err != nil {
		return "", err
	}
	return t.RenderText(ctx, vars, escape)
}

// AgentConfig is the document that an outside agent gets of itself, with marks
// for FillSecrets.
func (o *Offering) AgentConfig(ctx context.Context, around Surroundings) (json.RawMessage, error) {
	v, err := o.config.Render(ctx, o.surroundings(&around))
	if err != nil {
		return nil, fmt.Errorf("cannot make the configuration of agents of offering %s: %w", o.Metadata.Name, err)
	}
	if m, _ := v.(map[string]any); m == nil {
		v = map[string]any{}
	}
	return document.Encode(marked(v))
}

// AgentParameters are what a tenant's own cluster is to be set up with, with
// marks for FillSecret.
func (o *Offering) AgentParameters(ctx context.Context, around Surroundings) (map[string]string, error) {
	v, err := o.parametersOfAgent.Render(ctx, o.surroundings(&around))
	if err != nil {
		return nil, fmt.Errorf("cannot make the parameters of agents of offering %s: %w", o.Metadata.Name, err)
	}
	out := map[string]string{}
	m, _ := marked(v).(map[string]any)
	for name, value := range m {
		switch x := value.(type) {
		case string:
			out[name] = x
		default: // a number or a truth value
			out[name] = fmt.Sprint(x)
		}
	}
	return out, nil
}

// prune copies a tree without empty members.
func prune(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, member := range x {
			if member != nil && member != "" {
				out[k] = prune(member)
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, member := range x {
			out[i] = prune(member)
		}
		return out
	}
	return v
}

func (o *Offering) render(ctx context.Context, t *expr.Template, facts Facts, around Surroundings) (any, error) {
	vars, err := o.vars(&facts, &around)
	if err != nil {
		return nil, err
	}
	return t.Render(ctx, vars)
}

// vars are what the expressions about an instance see.
func (o *Offering) vars(facts *Facts, around *Surroundings) (map[string]any, error) {
	p, ok := o.plans[[2]string{facts.Type, facts.Size}]
	if !ok {
		return nil, fault.New(fault.Invalid, "offering %s has no plan %.64s.%.64s any more", o.Metadata.Name, facts.Type, facts.Size).Because("plan")
	}
	model, ok := o.BillingModel(facts.Billing)
	if !ok {
		model = BillingModel{Name: facts.Billing} // it may have left the file since
	}
	vars := o.surroundings(around)
	vars["instance"], vars["type"], vars["size"], vars["billing"] = facts, p.typ, p.size, &model
	return vars, nil
}

func (o *Offering) surroundings(around *Surroundings) map[string]any {
	return map[string]any{"offering": o, "cluster": &around.Cluster, "sso": &around.SSO, "server": &around.Server}
}
