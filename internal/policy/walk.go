package policy

import (
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

var (
	timeType = reflect.TypeFor[time.Time]()
	nodeType = reflect.TypeFor[ast.Node]()
)

// walk reports every member that a type does not know, that is there twice, or
// whose value is of another type: the library stops at the first one, and takes
// a time that it cannot read for none.
func (r *reading) walk(n ast.Node, t reflect.Type) {
	if n.Type() == ast.NullType || t == nodeType {
		return
	}
	want := func(ok bool, what string) {
		if !ok {
			r.report(n.GetToken(), "want "+what)
		}
	}
	switch {
	case t == timeType:
		text, ok := n.(*ast.StringNode)
		want(ok && isTime(text.Value), "a time such as 2030-01-31T12:00:00Z")
	case t.Kind() == reflect.String:
		want(n.Type() == ast.StringType || n.Type() == ast.LiteralType, "text; a number needs quotes around it")
	case t.Kind() == reflect.Bool:
		want(n.Type() == ast.BoolType, "true or false")
	case t.Kind() == reflect.Int64:
		want(n.Type() == ast.IntegerType, "a whole number")
	case t.Kind() == reflect.Slice:
		list, ok := n.(*ast.SequenceNode)
		want(ok, "a list")
		if ok {
			for _, v := range list.Values {
				if v.Type() == ast.NullType {
					r.report(v.GetToken(), "the entry is empty")
				}
				r.walk(v, t.Elem())
			}
		}
	default:
		object, ok := n.(*ast.MappingNode)
		want(ok, "an object")
		if ok {
			r.members(object, t)
		}
	}
}

func (r *reading) members(n *ast.MappingNode, t reflect.Type) {
	fields := map[string]reflect.Type{}
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			fields[name] = t.Field(i).Type
		}
	}
	seen := map[string]bool{}
	for _, v := range n.Values {
		key := v.Key.GetToken()
		inner, ok := fields[key.Value]
		if t.Kind() == reflect.Map {
			inner, ok = t.Elem(), true
		}
		switch {
		case !ok:
			r.report(key, "unknown field \""+key.Value+"\"")
			continue
		case seen[key.Value]:
			r.report(key, "the key is there twice")
		}
		seen[key.Value] = true
		r.walk(v.Value, inner)
	}
}

func isTime(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}
