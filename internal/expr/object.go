package expr

import (
	"fmt"
	"reflect"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Type of a variable or field.
type Type = *cel.Type

// The types of the world. A Dyn is only checked when it is evaluated.
var (
	String   = cel.StringType
	Int      = cel.IntType
	Double   = cel.DoubleType
	Bool     = cel.BoolType
	Time     = cel.TimestampType
	Duration = cel.DurationType
	Dyn      = cel.DynType
)

// List is the type of a list, Map that of a map with text keys.
func List(of Type) Type { return cel.ListType(of) }
func Map(of Type) Type  { return cel.MapType(cel.StringType, of) }

// Object is a type with known fields, so that a misspelt field is found when
// the document is loaded.
type Object struct {
	Name   string // unique in the Env
	Fields map[string]Field

	typ *cel.Type
}

// Field of an Object.
type Field struct {
	Type   Type
	Object *Object // the field's type, if it is an object; instead of Type
	// Get reads the field of the Go value that stands for the object. nil means
	// that the field is not there, and to read it is an error.
	Get func(object any) any
	// Has is what has() tells; default: not empty text, no zero time, not false.
	Has func(object any) bool
}

func (f Field) celType() *cel.Type {
	if f.Object != nil {
		return f.Object.celType()
	}
	return f.Type
}

func (o *Object) celType() *cel.Type {
	if o.typ == nil {
		o.typ = cel.ObjectType(o.Name)
	}
	return o.typ
}

// read returns a field ready for CEL.
func (f Field) read(name string, object any) (any, error) {
	v := f.Get(object)
	if v == nil {
		return nil, fmt.Errorf("no such key: %s", name)
	}
	if f.Object != nil {
		return value{f.Object, v}, nil
	}
	return v, nil
}

func (f Field) isSet(object any) bool {
	if f.Has != nil {
		return f.Has(object)
	}
	switch v := f.Get(object).(type) {
	case nil:
		return false
	case string:
		return v != ""
	case bool:
		return v
	case time.Time:
		return !v.IsZero()
	}
	return true
}

// provider tells CEL about objects.
type provider struct {
	types.Provider
	objects map[string]*Object
}

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if o, ok := p.objects[name]; ok {
		return types.NewTypeTypeWithParam(o.celType()), true
	}
	return p.Provider.FindStructType(name)
}

func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	o, ok := p.objects[name]
	if !ok {
		return p.Provider.FindStructFieldNames(name)
	}
	names := make([]string, 0, len(o.Fields))
	for f := range o.Fields {
		names = append(names, f)
	}
	return names, true
}

func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	o, ok := p.objects[name]
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	f, ok := o.Fields[field]
	if !ok {
		return nil, false
	}
	return &types.FieldType{
		Type: f.celType(),
		IsSet: func(target any) bool {
			if _, unknown := target.(*types.Unknown); unknown {
				panic(errUnknown) // neither answer would be true; run makes an unknown value of it
			}
			return f.isSet(target)
		},
		GetFrom: func(target any) (any, error) {
			if _, unknown := target.(*types.Unknown); unknown {
				return target, nil
			}
			return f.read(field, target)
		},
	}, true
}

func (p *provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if _, ok := p.objects[name]; ok {
		return types.NewErr("an object of type %s cannot be made here", name)
	}
	return p.Provider.NewValue(name, fields)
}

// value is an object inside CEL, for where it is more than a step on a path.
type value struct {
	object *Object
	v      any
}

func (v value) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("an object of type %s stays one", v.object.Name)
}

func (v value) ConvertToType(t ref.Type) ref.Val {
	if t.TypeName() == types.TypeType.TypeName() {
		return v.object.celType()
	}
	return types.NewErr("an object of type %s stays one", v.object.Name)
}

// Equal is never true: objects are for reading fields of.
func (v value) Equal(ref.Val) ref.Val { return types.False }
func (v value) Type() ref.Type        { return v.object.celType() }
func (v value) Value() any            { return v.v }

func (v value) Get(index ref.Val) ref.Val {
	name, _ := index.Value().(string)
	f, ok := v.object.Fields[name]
	if !ok {
		return types.NewErr("no such key: %s", name)
	}
	got, err := f.read(name, v.v)
	if err != nil {
		return types.WrapErr(err)
	}
	if o, ok := got.(value); ok {
		return o
	}
	return types.DefaultTypeAdapter.NativeToValue(got)
}

func (v value) IsSet(index ref.Val) ref.Val {
	name, _ := index.Value().(string)
	f, ok := v.object.Fields[name]
	return types.Bool(ok && f.isSet(v.v))
}

// Type of the object, for lists of it and the like.
func (o *Object) Type() Type { return o.celType() }
