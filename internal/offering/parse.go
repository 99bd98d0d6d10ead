package offering

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

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
	plans      map[[2]string]plan
}

type plan struct {
	typ  *Type
	size *Size
}

// Data is the document as JSON, which Parse reads again.
func (o *Offering) Data() json.RawMessage { return o.data }

// Parse reads and compiles a file of YAML or JSON. The error is fault.Invalid
// (reason "offering") and wraps Mistakes: all of them, each with its place.
func Parse(source string, data []byte) (*Offering, error) {
	f := read(source, data)
	if len(f.mistakes) > 0 {
		return nil, f.mistakes.fault()
	}
	o := &Offering{Source: source, plans: map[[2]string]plan{}}
	f.decode(f.root, reflect.ValueOf(&o.Document).Elem(), nil)
	f.check(&o.Document)
	f.compile(o)
	if len(f.mistakes) == 0 {
		f.try(o)
	}
	if err := f.mistakes.fault(); err != nil {
		return nil, err
	}
	encoded, err := encode(o.Document)
	if err != nil {
		return nil, fmt.Errorf("cannot encode offering %s: %w", o.Metadata.Name, err)
	}
	sum := sha256.Sum256(encoded)
	o.data, o.Digest = encoded, "sha256:"+hex.EncodeToString(sum[:])
	return o, nil
}

// compile makes the schema and the templates.
func (f *file) compile(o *Offering) {
	shape := schema.Shape{Type: "object", Closed: true} // no schema: no parameters
	if o.Spec.Parameters != nil {
		shape = f.compileParameters(o)
	}
	env, err := newEnv(shape)
	if err != nil {
		f.at([]any{"spec", "parameters"}, "cannot be used in expressions: %v", err)
		return
	}
	hosts := make([]any, len(o.Spec.Routes))
	for i, r := range o.Spec.Routes {
		hosts[i] = r.Host
	}
	o.routes = f.template(env, hosts, func(path []any) []any {
		return under([]any{"spec", "routes"}, append(slices.Clone(path), "host")...)
	})
	o.desired = f.template(env, o.Spec.Desired, func(path []any) []any { return under([]any{"spec", "desired"}, path...) })
	o.present = f.template(env, o.Spec.Present, func(path []any) []any { return under([]any{"spec", "present"}, path...) })
	for i := range o.Spec.Types {
		t := &o.Spec.Types[i]
		for j := range t.Sizes {
			o.plans[[2]string{t.Name, t.Sizes[j].Name}] = plan{t, &t.Sizes[j]}
		}
	}
}

func (f *file) compileParameters(o *Offering) schema.Shape {
	at := []any{"spec", "parameters"}
	open := schema.Shape{Type: "object"}
	f.keywords(f.root.find(at), at)
	compiled, err := schema.Compile(o.Spec.Parameters)
	var problems schema.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			path := slices.Clone(at)
			for _, step := range p.Path {
				path = append(path, step)
			}
			f.at(path, "%s", p.Message)
		}
		return open
	}
	o.parameters = compiled
	shape := compiled.Shape()
	if shape.Type != "object" {
		f.missing(under(at, "type"), "must be object")
		return open
	}
	for _, name := range asked {
		if _, clash := shape.Members[name]; clash {
			f.at(under(at, "properties", name), "every order has this field; choose another name")
		}
	}
	return shape
}

func (f *file) template(env *expr.Env, doc any, path func([]any) []any) *expr.Template {
	t, err := expr.Compile(doc, env)
	var problems expr.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			f.inside(path(p.Path), p.Offset, p.Message)
		}
	}
	return t
}

// try renders a made-up instance of every plan, if one can be made up, so that
// a key that is never there is found now and not when the first tenant comes.
func (f *file) try(o *Offering) {
	parameters, err := o.Validate(nil)
	if err != nil {
		return // something is required, and only tenants know what
	}
	provider, region := o.Spec.Providers[0].Name, o.Spec.Providers[0].Regions[0].Name
	seen := map[string]bool{}
	for key := range o.plans {
		facts := Facts{
			ID: "sample", Name: "sample", Owner: "sample", Org: "sample", Phase: "accepted",
			Provider: provider, Region: region, Type: key[0], Size: key[1], Version: "sample", Versions: map[string]string{},
			Cluster: "sample", Namespace: "sample", Placement: "sample", Host: "sample.example.org",
			Parameters: parameters, Created: time.Unix(0, 0).UTC(),
		}
		for part, t := range map[string]*expr.Template{"routes": o.routes, "desired": o.desired, "present": o.present} {
			if _, err := o.render(context.Background(), t, facts); err != nil && !seen[part+err.Error()] {
				seen[part+err.Error()] = true
				f.at([]any{"spec", part}, "cannot be made for plan %s.%s: %v", key[0], key[1], err)
			}
		}
	}
}
