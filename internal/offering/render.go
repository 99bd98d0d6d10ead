package offering

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

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
	v, err := o.render(ctx, o.routes, facts)
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

// Desired is the document that the data plane receives for an instance.
func (o *Offering) Desired(ctx context.Context, facts Facts, around Surroundings) (json.RawMessage, error) {
	v, err := o.render(ctx, o.desired, facts)
	if err != nil {
		return nil, fmt.Errorf("cannot make the desired state of offering %s: %w", o.Metadata.Name, err)
	}
	return encode(v)
}

// Present is what the public API shows of an instance beyond what it always
// shows: a JSON object, without null and "" at any depth of its objects.
func (o *Offering) Present(ctx context.Context, facts Facts) (json.RawMessage, error) {
	v, err := o.render(ctx, o.present, facts)
	if err != nil {
		return nil, fmt.Errorf("cannot make the presentation of offering %s: %w", o.Metadata.Name, err)
	}
	m, _ := prune(v).(map[string]any)
	if m == nil {
		return json.RawMessage("{}"), nil
	}
	return encode(m)
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

func (o *Offering) render(ctx context.Context, t *expr.Template, facts Facts) (any, error) {
	p, ok := o.plans[[2]string{facts.Type, facts.Size}]
	if !ok {
		return nil, fault.New(fault.Invalid, "offering %s has no plan %.64s.%.64s any more", o.Metadata.Name, facts.Type, facts.Size).Because("plan")
	}
	return t.Render(ctx, map[string]any{"instance": &facts, "offering": o, "type": p.typ, "size": p.size})
}

// Rank is the text that lists of instances can be sorted by besides their
// columns; "" where the offering names none, or it cannot be made.
func (o *Offering) Rank(ctx context.Context, facts Facts) string { return "" }
