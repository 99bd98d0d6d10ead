package template

import (
	"errors"
	"maps"
	"slices"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/schema"
)

// member reads a field of a map.
func member(name string, typ expr.Type) expr.Field {
	get := func(v any) any {
		m, _ := v.(map[string]any)
		return m[name]
	}
	return expr.Field{Type: typ, Get: get, Has: func(v any) bool { return get(v) != nil }}
}

// world declares what the file's expressions can name, with the types that the
// executors declare, so that a misspelt output is found when the file is read.
func (f *file) world(parameters schema.Shape) {
	texts := map[string]expr.Field{"tags": member("tags", expr.List(expr.String))}
	for _, name := range []string{"name", "id", "org", "owner", "description"} {
		texts[name] = member(name, expr.String)
	}
	objects := map[string]*expr.Object{"env": {Name: "env", Fields: texts}}
	values := map[string]expr.Type{"index": expr.Int, "args": expr.Map(expr.Dyn), "files": expr.Map(expr.String)}
	if field := shaped("params", "params", parameters); field.Object != nil {
		objects["params"] = field.Object
	} else {
		values["params"] = field.Type
	}
	made := map[string]*expr.Object{} // of executors
	for name, e := range f.t.names {
		switch {
		case e.resource != nil:
			declare(objects, values, name, e.resource, made)
		case e.group.nested != nil:
			objects[name] = nestedObject(e.group)
		default:
			fields := map[string]expr.Field{}
			for inner, r := range e.group.resources {
				field := member(inner, nil)
				if r.object = objectOf(r, made); r.Count != nil {
					field.Type = expr.List(r.object.Type())
				} else {
					field.Object = r.object
				}
				fields[inner] = field
			}
			objects[name] = &expr.Object{Name: "group_" + name, Fields: fields}
		}
	}
	// Lists of objects do not make them known to the environment: fields do.
	all := map[string]expr.Field{}
	for name, o := range made {
		all[name] = expr.Field{Object: o, Get: func(any) any { return nil }}
	}
	objects["executors__"] = &expr.Object{Name: "executors__", Fields: all}
	env, err := expr.NewEnv(objects, values)
	if err != nil {
		f.At([]any{"spec", "resources"}, "cannot be used in expressions: %v", err)
		return
	}
	f.t.env, f.scope = env, objects
	for name, e := range f.t.names {
		if e.resource != nil && objects[name] == nil {
			f.scope[name] = e.resource.object // there are several
		}
	}
}

func declare(objects map[string]*expr.Object, values map[string]expr.Type, name string, r *resource, made map[string]*expr.Object) {
	r.object = objectOf(r, made)
	if r.Count != nil {
		values[name] = expr.List(r.object.Type())
	} else {
		objects[name] = r.object
	}
}

// objectOf is the type of a resource: the same for all of an executor.
func objectOf(r *resource, made map[string]*expr.Object) *expr.Object {
	if o := made[r.Executor]; o != nil {
		return o
	}
	fields := map[string]expr.Field{}
	for name, o := range r.described.Outputs {
		typ := o.Type
		if typ == nil {
			typ = expr.Dyn
		}
		fields[name] = member(name, typ)
	}
	o := &expr.Object{Name: "resource_" + r.Executor, Fields: map[string]expr.Field{
		"address": member("address", expr.String),
		"outputs": outputsField("outputs_"+r.Executor, fields, r.described.Open || r.described.Outputs == nil && r.described.Inputs == nil),
	}}
	made[r.Executor] = o
	return o
}

// outputsField holds nothing if the resource is not there, so that has() can tell
// both of the outputs and of one of them.
func outputsField(name string, fields map[string]expr.Field, open bool) expr.Field {
	field := member("outputs", nil)
	if open {
		field.Type = expr.Map(expr.Dyn)
	} else {
		field.Object = &expr.Object{Name: name, Fields: fields}
	}
	read := field.Get
	field.Get = func(v any) any {
		if out := read(v); out != nil {
			return out
		}
		return map[string]any{}
	}
	return field
}

func nestedObject(g *group) *expr.Object {
	fields := map[string]expr.Field{}
	for _, o := range g.nested.outputs {
		fields[o.Name] = member(o.Name, plainType(o.value.Type()))
	}
	return &expr.Object{Name: "group_" + g.Name, Fields: map[string]expr.Field{"outputs": outputsField("outputs_of_"+g.Name, fields, false)}}
}

// plainType keeps what means the same in every template.
func plainType(t expr.Type) expr.Type {
	for _, same := range []expr.Type{expr.String, expr.Int, expr.Double, expr.Bool} {
		if t.IsExactType(same) {
			return same
		}
	}
	return expr.Dyn
}

// shaped declares a parameter, or all of them, by its shape.
func shaped(name, path string, s schema.Shape) expr.Field {
	types := map[string]expr.Type{"string": expr.String, "boolean": expr.Bool, "integer": expr.Int, "array": expr.List(expr.Dyn)}
	field := member(name, expr.Dyn)
	if typ := types[s.Type]; typ != nil {
		field.Type = typ
	}
	if s.Type == "object" {
		if field.Type = expr.Map(expr.Dyn); s.Closed {
			fields := map[string]expr.Field{}
			for inner, shape := range s.Members {
				fields[inner] = shaped(inner, path+"."+inner, shape)
			}
			field.Type, field.Object = nil, &expr.Object{Name: path, Fields: fields}
		}
	}
	return field
}

// schema compiles a JSON Schema of parameters. Those of objects are closed
// unless they say otherwise: a misspelt parameter would go unnoticed.
func (f *file) schema(doc map[string]any, path []any) (*schema.Schema, schema.Shape) {
	closed := schema.Shape{Type: "object", Closed: true}
	if doc == nil {
		return nil, closed
	}
	doc = maps.Clone(doc)
	if _, said := doc["type"]; !said {
		doc["type"] = "object"
	}
	if _, said := doc["additionalProperties"]; !said {
		doc["additionalProperties"] = false
	}
	compiled, err := schema.Compile(doc)
	var problems schema.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			at := slices.Clone(path)
			for _, step := range p.Path {
				at = append(at, step)
			}
			f.At(at, "%s", p.Message)
		}
		return nil, schema.Shape{Type: "object"}
	}
	if err != nil {
		f.At(path, "%v", err)
		return nil, schema.Shape{Type: "object"}
	}
	shape := compiled.Shape()
	if shape.Type != "object" {
		f.At(path, "must be the schema of an object")
		return nil, schema.Shape{Type: "object"}
	}
	return compiled, shape
}
