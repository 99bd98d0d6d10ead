package offering

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/droverhq/drover/internal/document"
)

// ReservedItem is a document for the data plane that no tenant ordered: it
// keeps room warm.
type ReservedItem struct {
	Name string // reserved-<singular>-<type>-<n>
	Type string
	Body json.RawMessage // with marks, as Desired
}

// ReservedItems are what a cluster in a region keeps warm: the same at every
// call, so that nothing on the data plane is made anew.
func (o *Offering) ReservedItems(ctx context.Context, around Surroundings, provider, region string) ([]ReservedItem, error) {
	if o.Spec.Reserved == nil {
		return nil, nil
	}
	_, place, err := o.Place(provider, region)
	if provider == "" || region == "" || err != nil {
		return nil, nil // nothing is sold there (any more): nothing to keep warm
	}
	var out []ReservedItem
	for _, t := range o.Spec.Types {
		if !place.Sells(t.Name) {
			continue
		}
		for n := int64(1); n <= t.Reserved; n++ {
			facts := o.reservation(&t, n, around)
			facts.Provider, facts.Region = provider, region
			v, err := o.render(ctx, o.reserved, facts, around)
			if err != nil {
				return nil, fmt.Errorf("cannot make the reserved items of offering %s: %w", o.Metadata.Name, err)
			}
			body, err := document.Encode(marked(v))
			if err != nil {
				return nil, err
			}
			out = append(out, ReservedItem{Name: facts.Name, Type: t.Name, Body: body})
		}
	}
	return out, nil
}

// reservation are the facts of an instance that nobody ordered.
func (o *Offering) reservation(t *Type, n int64, around Surroundings) Facts {
	name := fmt.Sprintf("reserved-%s-%s-%d", o.Spec.Names.Singular, t.Name, n)
	parameters, err := o.Validate(t.Sizes[0].Parameters)
	if err != nil {
		parameters = map[string]any{} // something is required, and only tenants know what
	}
	versions := maps.Clone(around.Cluster.Versions)
	if versions == nil {
		versions = map[string]string{}
	}
	for _, c := range o.Spec.Components {
		if v, _ := o.Version(c.Name, ""); v != "" {
			versions[c.Name] = v
		} else if versions[c.Name] == "" {
			versions[c.Name] = "" // known by name: not yet by number
		}
	}
	f := Facts{
		ID: name, Name: name, Phase: "ready", Type: t.Name, Size: t.Sizes[0].Name,
		MultiAZ: t.MultiAZ != nil && *t.MultiAZ, Version: versions[o.Spec.Components[0].Name], Versions: versions,
		Cluster: around.Cluster.ID, Namespace: name, Placement: name, Parameters: parameters,
	}
	if routes, err := o.Routes(context.Background(), f); err == nil && len(routes) > 0 {
		f.Host = routes[0].Host
	}
	return f
}

// TypeOf finds an instance type.
func (o *Offering) TypeOf(name string) (Type, bool) {
	i := slices.IndexFunc(o.Spec.Types, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return Type{}, false
	}
	return o.Spec.Types[i], true
}

// BillingModel finds a way to pay.
func (o *Offering) BillingModel(name string) (BillingModel, bool) {
	i := slices.IndexFunc(o.Spec.Billing, func(b BillingModel) bool { return b.Name == name })
	if i < 0 {
		return BillingModel{}, false
	}
	return o.Spec.Billing[i], true
}
