package offering

import (
	"time"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/schema"
)

// get reads a field of the Go value behind an object of expressions.
func get[T any](typ expr.Type, read func(v *T) any) expr.Field {
	return expr.Field{Type: typ, Get: func(v any) any { return read(v.(*T)) }}
}

// newEnv declares what expressions see. Parameters that the schema closes are
// known by name, so that a misspelt one is found when the file is loaded.
func newEnv(parameters schema.Shape) (*expr.Env, error) {
	instance := map[string]expr.Field{
		"id":        get(expr.String, func(f *Facts) any { return f.ID }),
		"name":      get(expr.String, func(f *Facts) any { return f.Name }),
		"owner":     get(expr.String, func(f *Facts) any { return f.Owner }),
		"org":       get(expr.String, func(f *Facts) any { return f.Org }),
		"phase":     get(expr.String, func(f *Facts) any { return f.Phase }),
		"reason":    get(expr.String, func(f *Facts) any { return f.Reason }),
		"provider":  get(expr.String, func(f *Facts) any { return f.Provider }),
		"region":    get(expr.String, func(f *Facts) any { return f.Region }),
		"multi_az":  get(expr.Bool, func(f *Facts) any { return f.MultiAZ }),
		"type":      get(expr.String, func(f *Facts) any { return f.Type }),
		"size":      get(expr.String, func(f *Facts) any { return f.Size }),
		"version":   get(expr.String, func(f *Facts) any { return f.Version }),
		"actual":    get(expr.Map(expr.String), func(f *Facts) any { return f.Actual }),
		"cluster":   get(expr.String, func(f *Facts) any { return f.Cluster }),
		"namespace": get(expr.String, func(f *Facts) any { return f.Namespace }),
		"placement": get(expr.String, func(f *Facts) any { return f.Placement }),
		"host":      get(expr.String, func(f *Facts) any { return f.Host }),
		"deleted":   get(expr.Bool, func(f *Facts) any { return f.Deleted }),
		"suspended": get(expr.Bool, func(f *Facts) any { return f.Suspended }),
		"created":   get(expr.Time, func(f *Facts) any { return f.Created }),
		"expires":   get(expr.Time, func(f *Facts) any { return f.Expires }),
	}
	instance["parameters"] = parameterField("parameters", parameters, func(v any) any { return v.(*Facts).Parameters })
	return expr.NewEnv(map[string]*expr.Object{
		"instance": {Name: "instance", Fields: instance},
		"offering": offeringObject(),
		"type": {Name: "instance_type", Fields: map[string]expr.Field{
			"name":        get(expr.String, func(t *Type) any { return t.Name }),
			"displayName": get(expr.String, func(t *Type) any { return t.DisplayName }),
			"multiAZ": get(expr.Bool, func(t *Type) any {
				if t.MultiAZ == nil {
					return nil // the tenant says: instance.multi_az
				}
				return *t.MultiAZ
			}),
		}},
		"size": {Name: "instance_size", Fields: map[string]expr.Field{
			"name":     get(expr.String, func(s *Size) any { return s.Name }),
			"capacity": get(expr.Int, func(s *Size) any { return s.Capacity }),
			"quota":    get(expr.Int, func(s *Size) any { return s.Quota }),
			"lifespan": get(expr.Duration, func(s *Size) any { return time.Duration(s.Lifespan) }),
			"limits":   get(expr.Map(expr.Dyn), func(s *Size) any { return s.Limits }),
		}},
	})
}

func offeringObject() *expr.Object {
	object := func(name string, fields map[string]expr.Field) expr.Field {
		return expr.Field{Object: &expr.Object{Name: name, Fields: fields}, Get: func(v any) any { return v }}
	}
	text := func(read func(o *Offering) string) expr.Field {
		return get(expr.String, func(o *Offering) any { return read(o) })
	}
	return &expr.Object{Name: "offering", Fields: map[string]expr.Field{
		"name":        text(func(o *Offering) string { return o.Metadata.Name }),
		"description": text(func(o *Offering) string { return o.Spec.Description }),
		"names": object("offering_names", map[string]expr.Field{
			"kind":     text(func(o *Offering) string { return o.Spec.Names.Kind }),
			"singular": text(func(o *Offering) string { return o.Spec.Names.Singular }),
			"plural":   text(func(o *Offering) string { return o.Spec.Names.Plural }),
		}),
		"api": object("offering_api", map[string]expr.Field{
			"group":       text(func(o *Offering) string { return o.Spec.API.Group }),
			"version":     text(func(o *Offering) string { return o.Spec.API.Version }),
			"errorPrefix": text(func(o *Offering) string { return o.Spec.API.ErrorPrefix }),
		}),
	}}
}

// parameterField declares one parameter, or all of them, by its shape.
func parameterField(name string, s schema.Shape, read func(any) any) expr.Field {
	switch s.Type {
	case "string":
		return expr.Field{Type: expr.String, Get: read}
	case "boolean":
		return expr.Field{Type: expr.Bool, Get: read}
	case "integer": // which JSON may have brought as a float64
		return expr.Field{Type: expr.Int, Get: func(v any) any { return expr.Normal(read(v)) }}
	case "number":
		return expr.Field{Type: expr.Double, Get: func(v any) any {
			if n, whole := expr.Normal(read(v)).(int64); whole {
				return float64(n)
			}
			return read(v)
		}}
	case "object":
		if !s.Closed {
			return expr.Field{Type: expr.Map(expr.Dyn), Get: func(v any) any { return expr.Normal(read(v)) }}
		}
		fields := map[string]expr.Field{}
		for member, shape := range s.Members {
			read := func(v any) any {
				m, _ := v.(map[string]any)
				return m[member]
			}
			field := parameterField(name+"."+member, shape, read)
			field.Has = func(v any) bool { return read(v) != nil } // false is an answer too
			fields[member] = field
		}
		return expr.Field{Object: &expr.Object{Name: name, Fields: fields}, Get: read}
	}
	return expr.Field{Type: expr.Dyn, Get: func(v any) any { return expr.Normal(read(v)) }}
}
