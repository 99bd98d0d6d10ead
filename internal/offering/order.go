package offering

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/schema"
)

// Validate checks the parameters of an order and returns a copy with defaults
// filled in. The error is fault.Invalid (reason "parameters") and names every mistake,
// but no value.
func (o *Offering) Validate(parameters map[string]any) (map[string]any, error) {
	if o.parameters == nil {
		if len(parameters) > 0 {
			return nil, fault.New(fault.Invalid, "%s takes no parameters", o.Spec.Names.Kind).Because("parameters")
		}
		return map[string]any{}, nil
	}
	out, err := o.parameters.Validate(parameters)
	var problems schema.Problems
	if errors.As(err, &problems) {
		return nil, fault.New(fault.Invalid, "%w", problems).Because("parameters")
	}
	return out, err
}

// ValidateOrder is Validate for what a tenant says in an order: parameters that
// the schema calls readOnly are not the tenant's to set.
func (o *Offering) ValidateOrder(parameters map[string]any) (map[string]any, error) {
	properties, _ := o.Spec.Parameters["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if p, _ := properties[name].(map[string]any); p["readOnly"] == true {
			return nil, fault.New(fault.Invalid, "%.64s: is not the tenant's to set", name).Because("parameters")
		}
	}
	return o.Validate(parameters)
}

// Fill adds the size's own parameters to those of an order.
func (s Size) Fill(parameters map[string]any) map[string]any {
	if len(s.Parameters) == 0 {
		return parameters
	}
	out := maps.Clone(s.Parameters)
	maps.Copy(out, parameters)
	return out
}

// Plan finds "type.size"; "" is the first type's first size. Faults: Invalid,
// reason "type" for an unknown type and "plan" for everything else.
func (o *Offering) Plan(name string) (Type, Size, error) {
	if name == "" {
		t := o.Spec.Types[0]
		return t, t.Sizes[0], nil
	}
	typeName, sizeName, both := strings.Cut(name, ".")
	if !both || typeName == "" || sizeName == "" {
		return Type{}, Size{}, fault.New(fault.Invalid, "a plan is written <type>.<size>: one of %s", o.planNames()).Because("plan")
	}
	if p, ok := o.plans[[2]string{typeName, sizeName}]; ok {
		return *p.typ, *p.size, nil
	}
	if !slices.ContainsFunc(o.Spec.Types, func(t Type) bool { return t.Name == typeName }) {
		return Type{}, Size{}, fault.New(fault.Invalid, "there is no instance type %.64q; plans are %s", typeName, o.planNames()).Because("type")
	}
	return Type{}, Size{}, fault.New(fault.Invalid, "there is no plan %.128q; plans are %s", name, o.planNames()).Because("plan")
}

func (o *Offering) planNames() string {
	var names []string
	for _, t := range o.Spec.Types {
		for _, s := range t.Sizes {
			names = append(names, t.Name+"."+s.Name)
		}
	}
	return strings.Join(names, ", ")
}

// Place finds a region; "" is the first provider and its first region that is
// not disabled. Faults: Invalid, reasons "provider" and "region".
func (o *Offering) Place(provider, region string) (Provider, Region, error) {
	i := 0
	if provider != "" {
		i = slices.IndexFunc(o.Spec.Providers, func(p Provider) bool { return p.Name == provider })
	}
	if i < 0 {
		return Provider{}, Region{}, fault.New(fault.Invalid, "provider %.64q is not supported, supported providers are: %s",
			provider, names(o.Spec.Providers, func(p Provider) string { return p.Name })).Because("provider")
	}
	p := o.Spec.Providers[i]
	open := slices.DeleteFunc(slices.Clone(p.Regions), func(r Region) bool { return r.Disabled })
	for _, r := range open {
		if region == "" || r.Name == region {
			return p, r, nil
		}
	}
	return Provider{}, Region{}, fault.New(fault.Invalid, "region %.64q is not supported for %s, supported regions are: %s",
		region, p.Name, names(open, func(r Region) string { return r.Name })).Because("region")
}

// Sells reports whether an instance type can be had in the region.
func (r Region) Sells(typeName string) bool {
	return len(r.Types) == 0 || slices.Contains(r.Types, typeName)
}

// Version checks a version of a component; "" is the newest of the file, and
// stays "" where only the cluster's agent knows. Faults: Invalid, reason "version".
func (o *Offering) Version(component, v string) (string, error) {
	i := slices.IndexFunc(o.Spec.Components, func(c Component) bool { return c.Name == component })
	if i < 0 {
		return "", fault.New(fault.Invalid, "%s has no component %.64q", o.Spec.Names.Kind, component).Because("version")
	}
	versions := o.Spec.Components[i].Versions
	switch {
	case len(versions) == 0:
		return v, nil
	case v == "":
		return versions[len(versions)-1], nil
	case !slices.Contains(versions, v):
		return "", fault.New(fault.Invalid, "version %.64q of %s is not sold; versions are %s", v, component, strings.Join(versions, ", ")).Because("version")
	}
	return v, nil
}

// Changeable reports whether tenants may change the version of a component.
func (o *Offering) Changeable(component string) bool {
	for _, f := range o.Spec.Changes {
		if f.Component == component {
			return true
		}
	}
	return false
}

// Hooks that are called when an instance enters a phase, in the order of the
// file, with their timeouts filled in.
func (o *Offering) Hooks(phase string) []Hook {
	var out []Hook
	for _, h := range o.Spec.Hooks {
		if h.Phase != phase {
			continue
		}
		if h.Timeout <= 0 {
			h.Timeout = hookTimeout
		}
		out = append(out, h)
	}
	return out
}

// Models are the billing models that a type can be had under, in the order of the
// file, with the type's own name at a remote source. An offering without models
// has one without a name.
func (o *Offering) Models(t Type) []BillingModel {
	if len(o.Spec.Billing) == 0 {
		return []BillingModel{{Product: t.Product}}
	}
	var out []BillingModel
	for _, m := range o.Spec.Billing {
		if len(t.Billing) > 0 && !slices.Contains(t.Billing, m.Name) {
			continue
		}
		if t.Product != "" {
			m.Product = t.Product
		}
		out = append(out, m)
	}
	return out
}

// RequestKind is the kind of an instance on the wire.
func (o *Offering) RequestKind() string {
	if o.Spec.API.RequestKind != "" {
		return o.Spec.API.RequestKind
	}
	return o.Spec.Names.Kind + "Request"
}

func names[T any](all []T, name func(T) string) string {
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = name(v)
	}
	return strings.Join(words, ", ")
}
