package httpapi

import (
	"encoding"
	"encoding/json"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/subscription"
)

// shown are what objects of a kind have as spec and status, nil: none. Kinds that are not
// here have documents of people's own making: what is in them is not ours to say.
var shown = map[string]struct{ spec, status reflect.Type }{
	instance.Kind.Name:            {reflect.TypeFor[instance.Spec](), reflect.TypeFor[instance.Status]()},
	cluster.Kind.Name:             {reflect.TypeFor[cluster.Spec](), reflect.TypeFor[cluster.Status]()},
	environment.Kind.Name:         {reflect.TypeFor[environment.Spec](), reflect.TypeFor[environment.Status]()},
	environment.KindResource.Name: {reflect.TypeFor[environment.ResourceSpec](), reflect.TypeFor[environment.ResourceStatus]()},
	environment.KindPlan.Name:     {reflect.TypeFor[environment.PlanSpec](), reflect.TypeFor[environment.PlanStatus]()},
	environment.KindDrift.Name:    {reflect.TypeFor[environment.DriftSpec](), nil},
	gitops.KindDeployment.Name:    {reflect.TypeFor[gitops.Spec](), reflect.TypeFor[gitops.Status]()},
	gitops.KindSyncRun.Name:       {reflect.TypeFor[gitops.SyncRunSpec](), reflect.TypeFor[gitops.SyncRunStatus]()},
	gitops.KindRepository.Name:    {reflect.TypeFor[gitops.RepositorySpec](), reflect.TypeFor[gitops.RepositoryStatus]()},
	gitops.KindTarget.Name:        {reflect.TypeFor[gitops.TargetSpec](), reflect.TypeFor[gitops.TargetStatus]()},
	gitops.KindWorkspace.Name:     {reflect.TypeFor[gitops.WorkspaceSpec](), nil},
	subscription.Kind.Name:        {reflect.TypeFor[subscription.Spec](), reflect.TypeFor[subscription.Status]()},
	command.Kind.Name:             {reflect.TypeFor[command.Spec](), reflect.TypeFor[command.Status]()},
	operation.Kind.Name:           {reflect.TypeFor[operation.Spec](), reflect.TypeFor[operation.Status]()},
	operation.AuditKind.Name:      {reflect.TypeFor[operation.Audit](), reflect.TypeFor[operation.AuditStatus]()},
	breaker.KindApproval.Name:     {reflect.TypeFor[breaker.Spec](), reflect.TypeFor[breaker.Status]()},
	account.Kind.Name:             {reflect.TypeFor[account.Spec](), reflect.TypeFor[account.Status]()},
}

// shapes makes schemas of Go types. What an object has was written by this version, by one
// before or by one after it: so a member may be missing, and may be one that is not known here.
// What a member is stays as it is said.
type shapes node

const schemasAt = "#/components/schemas/"

// documentsOf are the schemas of a kind's spec and status, by the member of the object.
func (s shapes) documentsOf(kind string) node {
	out := node{}
	for member, t := range map[string]reflect.Type{"spec": shown[kind].spec, "status": shown[kind].status} {
		if t == nil {
			continue
		}
		out[member] = s.of(t)
		hidden := sealed[kind].spec
		if member == "status" {
			hidden = sealed[kind].status
		}
		for _, name := range hidden { // which nobody is shown
			delete(s[called(t)].(node)["properties"].(node), name)
		}
	}
	return out
}

// called is the name of a type's schema.
func called(t reflect.Type) string { return path.Base(t.PkgPath()) + "." + t.Name() }

func (s shapes) of(t reflect.Type) node {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return node{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return node{"anyOf": []any{s.of(t.Elem()), node{"type": "null"}}}
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		return node{} // it says itself what it is
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return node{"type": "string"}
	}
	switch t.Kind() {
	case reflect.String:
		return node{"type": "string"}
	case reflect.Bool:
		return node{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return node{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return node{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice {
			return node{"type": []any{"string", "null"}}
		}
		return node{"type": []any{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Map:
		return node{"type": []any{"object", "null"}, "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		if t.Name() == "" {
			return node{"type": "object", "properties": s.members(t)}
		}
		if name := called(t); s[name] == nil {
			s[name] = node{} // it may have itself in it
			s[name] = node{"type": "object", "properties": s.members(t)}
		}
		return node{"$ref": schemasAt + called(t)}
	}
	return node{}
}

// members are those of a struct as encoding/json writes them.
func (s shapes) members(t reflect.Type) node {
	out := node{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" && options == "":
		case f.Anonymous && name == "":
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			for k, v := range s.members(inner) {
				if out[k] == nil {
					out[k] = v
				}
			}
		case !f.IsExported():
		default:
			if name == "" {
				name = f.Name
			}
			out[name] = s.of(f.Type)
			if strings.Contains(options, "string") {
				out[name] = node{"type": "string"}
			}
		}
	}
	return out
}
