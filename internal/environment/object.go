package environment

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Environment is an object with its documents decoded.
type Environment struct {
	ledger.Object
	Spec   Spec
	Status Status
}

// Resource is an object with its documents decoded.
type Resource struct {
	ledger.Object
	Spec   ResourceSpec
	Status ResourceStatus
}

// Plan is an object with its documents decoded.
type Plan struct {
	ledger.Object
	Spec   PlanSpec
	Status PlanStatus
}

// Decode reads an environment out of its object.
func Decode(o ledger.Object) (Environment, error) {
	e := Environment{Object: o}
	return e, decode(o, &e.Spec, &e.Status)
}

// DecodeResource reads a resource out of its object.
func DecodeResource(o ledger.Object) (Resource, error) {
	r := Resource{Object: o}
	return r, decode(o, &r.Spec, &r.Status)
}

// DecodePlan reads a plan out of its object.
func DecodePlan(o ledger.Object) (Plan, error) {
	p := Plan{Object: o}
	return p, decode(o, &p.Spec, &p.Status)
}

func decode(o ledger.Object, spec, status any) error {
	if err := json.Unmarshal(o.Spec, spec); err != nil {
		return fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err)
	}
	if len(o.Status) == 0 {
		return nil
	}
	if err := json.Unmarshal(o.Status, status); err != nil {
		return fault.New(fault.Internal, "cannot read the status of %s: %w", o.Ref, err)
	}
	return nil
}

func encode(o *ledger.Object, spec, status any) (err error) {
	if o.Spec, err = json.Marshal(spec); err == nil {
		o.Status, err = json.Marshal(status)
	}
	return err
}

// put writes an environment in place of the version that was read.
func (e Environment) put(op string) (ledger.Put, error) {
	o := e.Object
	if err := encode(&o, e.Spec, e.Status); err != nil {
		return ledger.Put{}, err
	}
	o.Fields = ledger.Fields{"template": e.Spec.Template, "version": e.Spec.Version, "tags": joined(e.Spec.Tags), "drifted": e.Status.Counts.Drifted}
	if !e.Spec.Ends.IsZero() {
		o.Fields["ends"] = e.Spec.Ends
	}
	o.Links = []string{"templateversion/" + e.Spec.Version}
	o.Words = words(e.Spec.Description, e.Spec.Tags, e.Spec.Template)
	return ledger.Put{Object: o, Expect: o.Version, Op: op}, nil
}

// put writes a resource in place of the version that was read.
func (r Resource) put(op string) (ledger.Put, error) {
	o := r.Object
	if err := encode(&o, r.Spec, r.Status); err != nil {
		return ledger.Put{}, err
	}
	fields := ledger.Fields{"executor": r.Spec.Executor, "group": r.Spec.Group, "tags": joined(r.Spec.Tags),
		"template": r.Spec.Template, "drifted": len(r.Status.Drift) > 0}
	if name, ok := o.Fields["environment"]; ok {
		fields["environment"] = name
	}
	o.Fields, o.Links = fields, r.links()
	o.Words = words(r.Spec.Description, r.Spec.Tags, r.Spec.Executor)
	return ledger.Put{Object: o, Expect: o.Version, Op: op}, nil
}

// links are what a resource depends on: others, what is outside, and the object of
// another kind that it stands for.
func (r *Resource) links() []string {
	out := make([]string, 0, len(r.Spec.Needs)+len(r.Spec.External))
	for _, id := range r.Spec.Needs {
		out = append(out, KindResource.Name+"/"+id)
	}
	for _, name := range r.Spec.External {
		out = append(out, "external/"+name)
	}
	return append(out, objects(r.Status.Links)...)
}

// relObject is the relation of a link that tells which object of another kind a
// resource stands for: its URL is "<kind>/<id>".
const relObject = "object"

func objects(links []executor.Link) (out []string) {
	for _, l := range links {
		if l.Rel == relObject && strings.Contains(l.URL, "/") {
			out = append(out, l.URL)
		}
	}
	return out
}

// put writes a plan in place of the version that was read.
func (p Plan) put(op string) (ledger.Put, error) {
	o := p.Object
	if err := encode(&o, p.Spec, p.Status); err != nil {
		return ledger.Put{}, err
	}
	o.Fields = ledger.Fields{"environment": p.Spec.Environment, "hash": p.Status.Hash}
	if p.Phase == Asking {
		o.Fields["approval"] = p.Status.Approval
	}
	return ledger.Put{Object: o, Expect: o.Version, Op: op}, nil
}

// joined keeps tags so that one can be looked for: ",data,prod,".
func joined(tags []string) string {
	if len(tags) == 0 {
		return ""
	}
	return "," + strings.Join(tags, ",") + ","
}

func words(description string, tags []string, more ...string) string {
	all := slices.Concat([]string{description}, tags, more)
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), " ")
}

// named is where the names of an organisation's environments are claimed; who has
// no organisation has names of their own.
func named(org, owner, name string) ledger.Name {
	if org == "" {
		return ledger.Name{Space: "environment//" + owner, Name: name}
	}
	return ledger.Name{Space: "environment/" + org, Name: name}
}

var letters = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// ResourceID is the id of a resource: the same whenever it is laid out, so that
// nothing needs to be remembered before it is, and another one where it is made by
// somebody else or somewhere else, since what was made there has to go.
func ResourceID(environment, address, executor, connection string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{environment, address, executor, connection}, "\x00")))
	text := letters.EncodeToString(sum[:])
	if len(environment) < 9 {
		return text[:24]
	}
	return environment[:9] + text[:15] // those of one environment lie together
}

func short(hash string) string { return hash[:min(12, len(hash))] }
