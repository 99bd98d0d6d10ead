package manifest

import (
	"context"
	"sync"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// Checking is what to look at.
type Checking struct {
	Inventory []string
	// Versions of the API to read kinds in, by "<group>/<kind>"; default: the one
	// that the cluster prefers.
	Versions map[string]string
	// Ready is CEL over objects, the list of the objects as they are; empty: all
	// of them are healthy as Kubernetes understands it. Where it is set, objects
	// that are merely on their way do not matter, those that have failed do.
	Ready string
}

// Health of a set of objects.
type Health struct {
	Ready   bool
	Failed  bool   // and it will not mend by itself
	Message string // for users, when it is not ready
	Objects []Object
}

// Object is one object as it is.
type Object struct {
	ID      ID
	State   string // InProgress, Failed, Current, Terminating, NotFound
	Message string
	Content map[string]any // nil: it is not there
}

// Health looks at objects as they are.
func (c *Client) Health(ctx context.Context, check Checking) (Health, error) {
	var objects []Object
	for _, s := range Union(check.Inventory) {
		id, err := Parse(s)
		if err != nil {
			return Health{}, err
		}
		o, err := c.look(ctx, id, check.Versions[id.Group+"/"+id.Kind])
		if err != nil {
			return Health{}, explain(err, id)
		}
		objects = append(objects, assess(id, o))
	}
	return judge(ctx, objects, check.Ready)
}

func (c *Client) look(ctx context.Context, id ID, version string) (*unstructured.Unstructured, error) {
	if version != "" {
		return c.get(ctx, schema.GroupVersionKind{Group: id.Group, Version: version, Kind: id.Kind}, id)
	}
	m, err := c.mapper.RESTMapping(id.groupKind())
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.get(ctx, m.GroupVersionKind, id)
}

// assess tells the state of one object by kstatus' rules.
func assess(id ID, o *unstructured.Unstructured) Object {
	if o == nil {
		return Object{ID: id, State: status.NotFoundStatus.String(), Message: id.Words() + " is not there"}
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	out := Object{ID: id, State: status.UnknownStatus.String(), Content: o.Object, Message: id.Words() + " has a status that cannot be read"}
	if res, err := status.Compute(o); err == nil {
		out.State, out.Message = res.Status.String(), id.Words()+": "+short(res.Message)
	}
	return out
}

// judge is the verdict over all: pure but for the clock that bounds CEL.
func judge(ctx context.Context, objects []Object, ready string) (Health, error) {
	h := Health{Ready: true, Objects: objects}
	waits := ""
	for _, o := range objects {
		switch status.Status(o.State) {
		case status.CurrentStatus:
		case status.FailedStatus:
			if !h.Failed {
				h.Ready, h.Failed, h.Message = false, true, o.Message
			}
		default:
			if waits == "" {
				waits = o.Message
			}
			// An expression may be content with what is on its way, never with what is
			// gone.
			if ready == "" || o.Content == nil || o.State == status.TerminatingStatus.String() {
				h.Ready = false
			}
		}
	}
	if !h.Failed && !h.Ready {
		h.Message = waits
	}
	if ready == "" || h.Failed {
		return h, nil
	}
	ok, why, err := evaluate(ctx, ready, objects)
	if err != nil {
		return h, err
	}
	if !ok && h.Ready {
		h.Ready, h.Message = false, firstOf(waits, why, "what it calls ready is not so yet")
	}
	return h, nil
}

// environment that readiness is written in. It never changes.
var environment = sync.OnceValues(func() (*expr.Env, error) {
	return expr.NewEnv(nil, map[string]expr.Type{"objects": expr.List(expr.Map(expr.Dyn))})
})

// CompileReady checks an expression before anything is applied.
func CompileReady(ready string) (*expr.Template, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	t, err := expr.Compile("${"+ready+"}", env)
	if err != nil {
		return nil, fault.New(fault.Invalid, "ready: %w", err).Because("invalid-ready")
	}
	return t, nil
}

func evaluate(ctx context.Context, ready string, objects []Object) (ok bool, why string, err error) {
	t, err := CompileReady(ready)
	if err != nil {
		return false, "", err
	}
	list := []any{}
	for _, o := range objects {
		if o.Content != nil {
			list = append(list, o.Content)
		}
	}
	v, err := t.Render(ctx, map[string]any{"objects": list})
	if fault.Is(err, fault.Invalid) {
		// A field that an operator has not written yet is the normal beginning.
		return false, err.Error(), nil
	}
	if err != nil {
		return false, "", err
	}
	ok, is := v.(bool)
	if !is {
		return false, "", fault.New(fault.Invalid, "ready must be true or false, and is something else").Because("invalid-ready")
	}
	return ok, "", nil
}
