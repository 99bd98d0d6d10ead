package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/subscription"
	"github.com/droverhq/drover/internal/template"
)

// namesakes bounds how many objects of one name, deleted ones included, are
// looked at for a moment in the past.
const namesakes = 20

// find returns the present state of an object by id or name, of a soft-deleted
// one too. What the caller may not see today is not found.
func (s *own) find(ctx context.Context, r resource, idOrName string) (ledger.Object, error) {
	o, err := s.byID(ctx, r, idOrName)
	if !fault.Is(err, fault.NotFound) {
		return o, err
	}
	live, err := s.byName(ctx, r, idOrName, false)
	switch {
	case err != nil:
		return ledger.Object{}, err
	case len(live) == 1:
		return live[0], nil
	case len(live) > 1:
		return ledger.Object{}, fault.New(fault.Conflict, "several %s are named %.64q: use the id, %s", r.Name, idOrName, namesOf(live)).Because("ambiguous")
	}
	dead, err := s.byName(ctx, r, idOrName, true)
	if err != nil {
		return ledger.Object{}, err
	}
	if len(dead) > 0 {
		return dead[0], nil
	}
	return ledger.Object{}, absent(r, idOrName)
}

// namesOf lists the first of several that the caller sees, by what tells them apart.
func namesOf(of []ledger.Object) string {
	const most = 5
	var said []string
	for _, o := range of[:min(len(of), most)] {
		said = append(said, fmt.Sprintf("%s (of %.64q in organisation %.64q)", o.ID, o.Owner, o.Org))
	}
	if len(of) > most {
		said = append(said, "or another")
	}
	return strings.Join(said, ", ")
}

// at returns an object as it was. Who may see it is decided by what it is today.
func (s *own) at(ctx context.Context, r resource, idOrName string, moment ledger.Moment) (ledger.Object, error) {
	var candidates []ledger.Object
	o, err := s.byID(ctx, r, idOrName)
	switch {
	case err == nil:
		candidates = []ledger.Object{o}
	case !fault.Is(err, fault.NotFound):
		return ledger.Object{}, err
	default:
		if candidates, err = s.byName(ctx, r, idOrName, true); err != nil {
			return ledger.Object{}, err
		}
	}
	for _, c := range candidates {
		then, err := s.Ledger.At(ctx, c.Ref, moment)
		if fault.Is(err, fault.NotFound) && fault.Reason(err) != "truncated" || err == nil && !then.Object.Deleted.IsZero() {
			continue
		}
		return then.Object, err
	}
	if len(candidates) > 0 {
		return ledger.Object{}, fault.New(fault.NotFound, "%s %.64q did not exist then", r.Singular, idOrName)
	}
	return ledger.Object{}, absent(r, idOrName)
}

func absent(r resource, idOrName string) error {
	return fault.New(fault.NotFound, "there is no %s %.64q", r.Singular, strings.ToValidUTF8(idOrName, "?"))
}

func (s *own) byID(ctx context.Context, r resource, id string) (ledger.Object, error) {
	if _, err := r.scope(access.From(ctx)); err != nil {
		return ledger.Object{}, err
	}
	if !plainName(id) {
		return ledger.Object{}, fault.New(fault.NotFound, "an id is short, plain text")
	}
	o, err := s.Ledger.Get(ctx, ledger.Ref{Kind: r.Kind, ID: id})
	if err != nil {
		return ledger.Object{}, err
	}
	if !r.has(&o) || !visible(access.From(ctx), &o) {
		return ledger.Object{}, absent(r, id)
	}
	return o, nil
}

// byName lists what the caller sees under a name, the newest first.
func (s *own) byName(ctx context.Context, r resource, name string, deleted bool) ([]ledger.Object, error) {
	scope, err := r.scope(access.From(ctx))
	if err != nil {
		return nil, err
	}
	if !plainName(name) {
		return nil, nil
	}
	scope["name"] = name
	found, err := s.Ledger.List(ctx, ledger.Query{
		Kind: r.Kind, Scope: scope, Deleted: deleted, Order: []ledger.Order{{Column: "created", Desc: true}}, Limit: namesakes,
	})
	return slices.DeleteFunc(found, func(o ledger.Object) bool { return ofTemplates(r.Kind) && !visible(access.From(ctx), &o) }), err
}

// listArguments reads orderBy and search over the columns of a resource, by
// the ledger's names and by those of the public API.
func (s *own) listArguments(r resource, orderBy, search string) ([]ledger.Order, ledger.Expr, error) {
	columns := map[string]string{"created_at": "created", "updated_at": "updated", "status": "phase"}
	for name := range ledger.Columns {
		columns[name] = name
	}
	for _, f := range r.kind.Fields {
		columns[f.Name] = f.Name
	}
	if off, ok := s.Offerings.Get(r.Offering); ok {
		maps.Copy(columns, off.Spec.API.Search)
		maps.Copy(columns, off.Spec.API.Order)
	}
	var order []ledger.Order
	var err error
	if strings.TrimSpace(orderBy) != "" {
		if order, err = orderArgs(columns, orderBy); err != nil {
			return nil, nil, err
		}
	}
	where, err := parseSearch(search, columns, r.kind)
	return order, where, err
}

// wire is an object as the caller may see it.
func wire(o *ledger.Object, offerings Offerings, who access.Principal) v1.Object {
	out := v1.Object{
		Kind: o.Kind, ID: o.ID, Org: o.Org, Owner: o.Owner, Name: o.Name, Phase: o.Phase, Parent: o.Parent,
		Labels: o.Labels, Fields: o.Fields, Generation: o.Generation, Version: o.Version,
		Spec: sealedOff(o.Spec, sealed[o.Kind].spec), Status: sealedOff(o.Status, sealed[o.Kind].status), Created: o.Created, Updated: o.Updated,
	}
	if !o.Deleted.IsZero() {
		t := o.Deleted
		out.Deleted = &t
	}
	if r, ok := kindOf(o.Kind); ok {
		out.Resource = r.Name
	}
	if name, ok := o.Fields["offering"].(string); ok {
		if off, ok := offerings.Get(name); ok && off.Spec.Names.Plural != "" {
			out.Resource = off.Spec.Names.Plural
		}
	}
	switch {
	case who.Admin:
	case o.Kind == instance.Kind.Name:
		out.Status = without(out.Status, plumbing[o.Kind])
	case o.Kind == offering.Kind.Name:
		out.Spec, out.Status = publicDocument(o.Spec), nil
	case o.Kind == policy.KindTerms.Name:
		out.Status = without(o.Status, plumbing[o.Kind])
	case o.Kind == template.Kind.Name || o.Kind == template.KindVersion.Name:
		out.Spec = without(out.Spec, plumbing[o.Kind])
	}
	return out
}

// wireRow is wire for what was read from a row. Somebody may have written there what is no
// JSON: it is shown without that, and takes none of those that are listed with it along.
func wireRow(o *ledger.Object, offerings Offerings, who access.Principal) v1.Object {
	out := wire(o, offerings, who)
	for _, doc := range []*json.RawMessage{&out.Spec, &out.Status} {
		if !json.Valid(*doc) {
			*doc = nil
		}
	}
	return out
}

// plumbing is what stands between control plane and data plane; tenants need
// not see it, and it may hold what is not theirs.
var plumbing = map[string][]string{
	instance.Kind.Name: {"desired", "token", "hooked", "refused", "rejected", "other"}, // "rendered" stays: who waits for a change looks at it
	offering.Kind.Name: {"desired", "hooks"},
	// Where the operator's files are.
	policy.KindTerms.Name: {"source", "digest", "said"},
	// Whom a template names is of other organisations too, and where it lies is the
	// operators'.
	template.Kind.Name:        {"permissions", "source", "author", "files", "pins"},
	template.KindVersion.Name: {"permissions", "source", "author", "files", "pins"},
}

// sealed is what nobody is shown, not even operators: where secrets and hashes
// are kept, and what logins are counted by.
var sealed = map[string]struct{ spec, status []string }{
	access.KindUser.Name:          {spec: []string{"password", "epoch"}},
	account.Kind.Name:             {spec: []string{"secret", "next"}},
	cluster.Kind.Name:             {spec: []string{"kubeconfig"}, status: []string{"kubeconfig", "state"}},
	instance.Kind.Name:            {status: []string{"secret"}},
	environment.Kind.Name:         {status: []string{"secrets"}},
	environment.KindResource.Name: {status: []string{"secrets", "sealed", "state"}},
	gitops.KindRepository.Name:    {spec: []string{"password", "ssh_key", "digest"}, status: []string{"good", "retired", "mirrored"}},
	gitops.KindTarget.Name:        {spec: []string{"kubeconfig", "digest"}, status: []string{"access", "left", "retired", "mirrored"}},
	gitops.KindDeployment.Name:    {status: []string{"desired", "mirrored"}},
	subscription.Kind.Name:        {spec: []string{"secret"}},
}

func sealedOff(doc json.RawMessage, members []string) json.RawMessage {
	if len(members) == 0 || len(doc) == 0 {
		return doc
	}
	return without(doc, members)
}

// without returns a JSON object without some members, none of it if it cannot
// be read.
func without(doc json.RawMessage, members []string) json.RawMessage {
	if !mentions(doc, members) {
		return doc
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(doc, &m) != nil {
		return nil
	}
	for _, k := range members {
		delete(m, k)
	}
	out, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return out
}

// mentions reports whether a document may have one of some members, at any depth. To
// look costs a tenth of taking it apart, and most have none. What is written with
// escapes may have any.
func mentions(doc json.RawMessage, members []string) bool {
	return bytes.Contains(doc, []byte(`\u`)) || slices.ContainsFunc(members, func(k string) bool { return bytes.Contains(doc, []byte(`"`+k+`"`)) })
}

// publicDocument returns an offering's document as tenants may see it.
func publicDocument(doc json.RawMessage) json.RawMessage {
	var d map[string]json.RawMessage
	if json.Unmarshal(doc, &d) != nil {
		return nil
	}
	d["spec"] = without(d["spec"], plumbing[offering.Kind.Name])
	out, err := json.Marshal(d)
	if err != nil {
		return nil
	}
	return out
}

func wireChange(c *ledger.Change, offerings Offerings, who access.Principal) v1.Change {
	return v1.Change{
		Seq: c.Seq, At: c.At, Actor: c.Actor, Cause: string(c.Cause), Op: c.Op, Object: wire(&c.Object, offerings, who),
	}
}
