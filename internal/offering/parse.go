package offering

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/schema"
)

// Offering is a compiled file. It is immutable and safe for concurrent use.
type Offering struct {
	Document
	Source string // where the file came from
	Digest string // of the document, whatever its layout: "sha256:..."

	data       json.RawMessage
	parameters *schema.Schema // nil: there are none
	routes     *expr.Template
	desired    *expr.Template
	present    *expr.Template
	reserved   *expr.Template
	rank       *expr.Template
	selector   *expr.Template
	config     *expr.Template
	allowed    map[string]*expr.Template // by their source
	plans      map[[2]string]plan

	presentAdmin, parametersOfAgent *expr.Template
	steps                           *Steps
}

type plan struct {
	typ  *Type
	size *Size
}

// Mistakes is everything that is wrong with a file.
type Mistakes = document.Mistakes

// maxFile is the most bytes that a file may have.
const maxFile = 128 << 10

// file is an offering's file while it is checked.
type file struct{ *document.File }

// under makes paths.
var under = document.Under

// Data is the document as JSON, which Parse reads again.
func (o *Offering) Data() json.RawMessage { return o.data }

// Parse reads and compiles a file of YAML or JSON. The error is fault.Invalid
// (reason "offering") and wraps Mistakes: all of them, each with its place.
func Parse(source string, data []byte) (*Offering, error) {
	o := &Offering{Source: source, plans: map[[2]string]plan{}}
	err := document.Read(source, data, document.Form{Kind: "offering", Bytes: maxFile}, &o.Document, func(read *document.File) {
		f := file{read}
		f.check(&o.Document)
		f.compile(o)
		o.Spec.fill()
		if f.Sound() {
			f.try(o)
		}
	})
	if err != nil {
		return nil, err
	}
	encoded, err := document.Encode(o.Document)
	if err != nil {
		return nil, fmt.Errorf("cannot encode offering %s: %w", o.Metadata.Name, err)
	}
	sum := sha256.Sum256(encoded)
	o.data, o.Digest = encoded, "sha256:"+hex.EncodeToString(sum[:])
	return o, nil
}

// fill writes out what a file may leave unsaid, so that nobody else needs to
// know the defaults.
func (s *Spec) fill() {
	for i := range s.Types {
		t := &s.Types[i]
		t.Quota = cmp.Or(t.Quota, QuotaNone)
		if t.Quota == QuotaTrial {
			t.PerOwner = cmp.Or(t.PerOwner, 1)
		}
		for j := range t.Sizes {
			t.Sizes[j].Maturity = cmp.Or(t.Sizes[j].Maturity, "stable")
		}
	}
	for i := range s.Components {
		s.Components[i].Downgrade = cmp.Or(s.Components[i].Downgrade, DowngradeMinor)
	}
	s.Admin.Kind = cmp.Or(s.Admin.Kind, s.Names.Kind)
	s.Agent.Kind = cmp.Or(s.Agent.Kind, "Managed"+s.Names.Kind)
	s.Agent.Waiting = cmp.Or(s.Agent.Waiting, "waiting_for_fleetshard_operator")
	s.Timing.Place = cmp.Or(s.Timing.Place, Duration(time.Hour))
	s.Timing.Prepare = cmp.Or(s.Timing.Prepare, Duration(5*time.Minute))
	s.Timing.Observe = cmp.Or(s.Timing.Observe, Duration(10*time.Minute))
}

// compile makes the schema and the templates.
func (f file) compile(o *Offering) {
	shape := schema.Shape{Type: "object", Closed: true} // no schema: no parameters
	if o.Spec.Parameters != nil {
		shape = f.compileParameters(o)
	}
	f.checkChanges(&o.Spec, o.Spec.Changes, shape, []any{"spec", "changes"})
	f.checkChanges(&o.Spec, o.Spec.Admin.Changes, shape, []any{"spec", "admin", "changes"})
	env, err := newEnvs(shape, o.Spec.Identity)
	if err != nil {
		f.At([]any{"spec", "parameters"}, "cannot be used in expressions: %v", err)
		return
	}
	hosts := make([]any, len(o.Spec.Routes))
	for i, r := range o.Spec.Routes {
		hosts[i] = r.Host
	}
	o.routes = f.template(env.instance, hosts, func(path []any) []any {
		return under([]any{"spec", "routes"}, append(slices.Clone(path), "host")...)
	})
	at := func(steps ...any) func([]any) []any {
		return func(path []any) []any { return under(append([]any{"spec"}, steps...), path...) }
	}
	o.desired = f.template(env.desired, o.Spec.Desired, at("desired"))
	o.reserved = f.template(env.desired, o.Spec.Reserved, at("reserved"))
	o.present = f.template(env.instance, o.Spec.Present, at("present"))
	o.presentAdmin = f.template(env.instance, o.Spec.Admin.Present, at("admin", "present"))
	o.rank = f.template(env.instance, o.Spec.API.Rank, at("api", "rank"))
	o.selector = f.template(env.instance, o.Spec.Metrics.Selector, at("metrics", "selector"))
	o.config = f.template(env.cluster, o.Spec.Agent.Config, at("agent", "config"))
	parameters := map[string]any{}
	for name, value := range o.Spec.Agent.Parameters {
		parameters[name] = value
	}
	o.parametersOfAgent = f.template(env.cluster, parameters, at("agent", "parameters"))
	f.compileSteps(o)
	o.allowed = map[string]*expr.Template{}
	for path, changes := range map[string]map[string]Field{"changes": o.Spec.Changes, "admin": o.Spec.Admin.Changes} {
		for name, c := range changes {
			where := at("changes", name, "allowed")
			if path == "admin" {
				where = at("admin", "changes", name, "allowed")
			}
			if c.Allowed != "" {
				o.allowed[c.Allowed] = f.template(env.change, c.Allowed, where)
			}
		}
	}
	for i := range o.Spec.Types {
		t := &o.Spec.Types[i]
		for j := range t.Sizes {
			o.plans[[2]string{t.Name, t.Sizes[j].Name}] = plan{t, &t.Sizes[j]}
		}
	}
}

func (f file) compileParameters(o *Offering) schema.Shape {
	at := []any{"spec", "parameters"}
	open := schema.Shape{Type: "object"}
	f.keywords(f.Root().Find(at), at)
	compiled, err := schema.Compile(o.Spec.Parameters)
	var problems schema.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			path := slices.Clone(at)
			for _, step := range p.Path {
				path = append(path, step)
			}
			f.At(path, "%s", p.Message)
		}
		return open
	}
	o.parameters = compiled
	shape := compiled.Shape()
	if shape.Type != "object" {
		f.Missing(under(at, "type"), "must be object")
		return open
	}
	for _, name := range asked {
		if _, clash := shape.Members[name]; clash {
			f.At(under(at, "properties", name), "every order has this field; choose another name")
		}
	}
	return shape
}

func (f file) template(env *expr.Env, doc any, path func([]any) []any) *expr.Template {
	t, err := expr.Compile(doc, env)
	var problems expr.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			f.Inside(path(p.Path), p.Offset, p.Message)
		}
	}
	return t
}
