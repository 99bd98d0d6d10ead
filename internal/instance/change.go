package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// Update changes what is wanted; nil stays as it is.
type Update struct {
	Owner      *string
	Version    *string           // of the first component
	Versions   map[string]string // by component; operators only
	Suspended  *bool             // operators only
	Parameters map[string]any
}

// Update changes intent.
func (s *Service) Update(ctx context.Context, offeringName, idOrName string, req Update) (ledger.Object, error) {
	return s.edit(ctx, offeringName, idOrName, func(e *editing) error {
		if req.Owner != nil {
			if err := e.hand(*req.Owner); err != nil {
				return err
			}
		}
		versions := map[string]string{}
		if req.Version != nil {
			versions[e.off.Spec.Components[0].Name] = *req.Version
		}
		maps.Copy(versions, req.Versions)
		for _, component := range slices.Sorted(maps.Keys(versions)) {
			if !e.who.Admin && !e.off.Changeable(component) {
				return fault.New(fault.Denied, "only an operator may change the version of %s", component)
			}
			if err := e.upgrade(ctx, component, versions[component]); err != nil {
				return err
			}
		}
		if err := e.settable(ctx, req.Parameters); err != nil {
			return err
		}
		if err := e.set(req.Parameters); err != nil || req.Suspended == nil {
			return err
		}
		if *req.Suspended != e.in.Spec.Suspended && !e.who.Admin {
			return fault.New(fault.Denied, "only an operator may suspend or resume")
		}
		return e.suspend(*req.Suspended)
	})
}

// Patch changes the fields that the offering lets tenants change, and the owner.
func (s *Service) Patch(ctx context.Context, offeringName, id string, fields map[string]json.RawMessage) (ledger.Object, error) {
	return s.edit(ctx, offeringName, id, func(e *editing) error { return e.apply(ctx, e.off.Spec.Changes, fields) })
}

// UpdateAdmin changes the fields that the offering lets its operators change.
// Whether the caller is one is for the API to have checked.
func (s *Service) UpdateAdmin(ctx context.Context, offeringName, id string, fields map[string]json.RawMessage) (ledger.Object, error) {
	who := access.From(ctx)
	who.Admin = true
	return s.edit(access.With(ctx, who), offeringName, id, func(e *editing) error {
		if e.in.Phase == Accepted {
			return fault.New(fault.Conflict, "it is %s: it can be changed once it is being prepared", e.in.Phase).Because("phase")
		}
		return e.apply(ctx, e.off.Spec.Admin.Changes, fields)
	})
}

// editing is a change of one instance's intent.
type editing struct {
	*Service
	in  *Instance
	off *offering.Offering
	who access.Principal
}

func (s *Service) edit(ctx context.Context, offeringName, idOrName string, change func(*editing) error) (ledger.Object, error) {
	return s.change(ctx, offeringName, idOrName, func(in *Instance, off *offering.Offering, who access.Principal) (string, error) {
		if !who.MayChange(in.Org, in.Owner) {
			return "", fault.New(fault.Denied, "only the owner or an organisation admin may change it")
		}
		if in.Spec.Deleted {
			return "", fault.New(fault.Conflict, "it is being deleted").Because("deleting")
		}
		return "update", change(&editing{Service: s, in: in, off: off, who: who})
	})
}

// apply changes declared fields, in the order of their names.
func (e *editing) apply(ctx context.Context, declared map[string]offering.Field, fields map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		raw := bytes.TrimSpace(fields[name])
		if len(raw) == 0 || string(raw) == "null" {
			continue // clients that know more fields than they set
		}
		field, known := declared[name]
		var err error
		switch {
		case name == "owner" && !known:
			var owner string
			if err = read(name, raw, &owner); err == nil {
				err = e.hand(owner)
			}
		case !known:
			err = fault.New(fault.Invalid, "field %.64q cannot be changed", name).Because("field")
		default:
			err = e.field(ctx, name, field, raw)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *editing) field(ctx context.Context, name string, field offering.Field, raw json.RawMessage) error {
	switch {
	case field.Suspended:
		var on bool
		if err := read(name, raw, &on); err != nil {
			return err
		}
		return e.suspend(on)
	case field.Component != "":
		var version string
		if err := read(name, raw, &version); err != nil || version == "" {
			return err // clients send what they do not set as ""
		}
		if err := e.off.Allowed(ctx, field, e.in.wanted()[field.Component], version); err != nil {
			return err
		}
		return e.upgrade(ctx, field.Component, version)
	}
	var value any
	if err := read(name, raw, &value); err != nil {
		return err
	}
	if err := e.off.Allowed(ctx, field, e.in.Spec.Parameters[field.Parameter], value); err != nil {
		return err
	}
	return e.set(map[string]any{field.Parameter: value})
}

func read(name string, raw json.RawMessage, into any) error {
	if json.Unmarshal(raw, into) != nil {
		return fault.New(fault.Invalid, "field %q has the wrong type", name).Because("field")
	}
	return nil
}

// hand gives the instance to another user of its organisation.
func (e *editing) hand(owner string) error {
	in := e.in
	if owner == "" || len(owner) > maxOwner || strings.ContainsFunc(owner, unicode.IsControl) {
		return fault.New(fault.Invalid, "owner must be a user's name of 1 to %d characters", maxOwner).Because("field")
	}
	if in.Org == "" { // its name is claimed under the owner
		return fault.New(fault.Invalid, "only within an organisation can an instance be handed on").Because("field")
	}
	if owner != in.Owner && e.Policy != nil && e.Policy.Denied(owner) { // it would go at once
		return fault.New(fault.Invalid, "user %.64q may not use this service", owner).Because("field")
	}
	if owner != in.Owner {
		in.Owner, in.Spec.Owner = owner, owner
	}
	return nil
}

// upgrade wants another version of a component.
func (e *editing) upgrade(ctx context.Context, component, version string) error {
	in := e.in
	to, err := e.off.Version(component, version)
	from := in.wanted()[component]
	if err != nil || to == "" || to == from {
		return err
	}
	if o := in.Status.Observed; o != nil && slices.Contains(o.Upgrading, component) {
		return fault.New(fault.Conflict, "%s is being upgraded: wait until that is done", component).Because("upgrading")
	}
	if err := e.off.Upgrade(component, from, to); err != nil {
		return err
	}
	if err := e.offered(ctx, component, to); err != nil {
		return err
	}
	in.Spec.Versions = maps.Clone(in.Spec.Versions)
	if in.Spec.Versions == nil {
		in.Spec.Versions = map[string]string{}
	}
	in.Spec.Versions[component] = to
	return nil
}

// offered checks that the instance's cluster can run a version. A version of
// the file is the seller's word already.
func (e *editing) offered(ctx context.Context, component, version string) error {
	i := slices.IndexFunc(e.off.Spec.Components, func(c offering.Component) bool { return c.Name == component })
	versions, ok := e.Clusters.(Versions)
	if !ok || len(e.off.Spec.Components[i].Versions) > 0 || e.in.Status.Cluster == "" {
		return nil
	}
	have, err := versions.Offers(ctx, e.in.Status.Cluster, e.in.Spec.Offering)
	if err != nil {
		return err
	}
	if !slices.Contains(have[component], version) {
		return fault.New(fault.Invalid, "its cluster does not offer version %.64q of %s; it offers: %s",
			version, component, strings.Join(have[component], ", ")).Because("version")
	}
	return nil
}

// settable refuses what only operators may set, and what a rule of the offering
// forbids, whichever API it came by.
func (e *editing) settable(ctx context.Context, parameters map[string]any) error {
	properties, _ := e.off.Spec.Parameters["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if p, _ := properties[name].(map[string]any); p["readOnly"] == true && !e.who.Admin {
			return fault.New(fault.Invalid, "%.64s: is not the tenant's to set", name).Because("parameters")
		}
		for _, fields := range []map[string]offering.Field{e.off.Spec.Changes, e.off.Spec.Admin.Changes} {
			for _, field := range fields {
				if field.Parameter != name {
					continue
				}
				if err := e.off.Allowed(ctx, field, e.in.Spec.Parameters[name], parameters[name]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// set changes parameters.
func (e *editing) set(parameters map[string]any) error {
	if len(parameters) == 0 {
		return nil
	}
	merged := maps.Clone(e.in.Spec.Parameters)
	if merged == nil {
		merged = map[string]any{}
	}
	maps.Copy(merged, parameters)
	p, err := e.off.Validate(merged)
	if err != nil {
		return err
	}
	if holdsNUL(p) {
		return fault.New(fault.Invalid, "a parameter holds a zero byte").Because("parameters")
	}
	e.in.Spec.Parameters = p
	return nil
}

// suspend wants it to rest, or to run again.
func (e *editing) suspend(on bool) error {
	in := e.in
	if on == in.Spec.Suspended {
		// Where the clock was first, it is the operator's wish from now on: the
		// clock does not lift it when the end is far again.
		in.Status.Resting = in.Status.Resting && !(on && e.who.Admin)
		return nil
	}
	if on && in.Phase != Ready || !on && in.Phase != Suspended {
		return fault.New(fault.Conflict, "it is %s: only a ready instance can be suspended, only a suspended one resumed", in.Phase).Because("phase")
	}
	if !on && withinGrace(*in, graceOf(e.off, in.Status.Paid.Model), e.Now()) {
		return fault.New(fault.Conflict, "it cannot be resumed: it ends %s, within the grace period of its billing model",
			in.Status.Expires.UTC().Format("2006-01-02 15:04 MST")).Because("phase")
	}
	in.Spec.Suspended, in.Status.Resting = on, false
	return nil
}
