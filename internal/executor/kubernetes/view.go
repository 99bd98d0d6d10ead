package kubernetes

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/manifest"
)

// view is what was seen, against what is wanted.
type view struct {
	inventory []string // what is wanted
	fields    []executor.Field
	fixed     []string // objects that must go and come again
	some      bool     // something of it is there
	later     bool     // something is not known
	mark      string
	by        string // who changed it last, besides us
}

const maxFields = 100

// look compares everything that is wanted, and everything that may be there.
func (w *work) look(ctx context.Context) (view, error) {
	compared, err := w.client.Compare(ctx, w.set)
	if err != nil {
		return view{}, err
	}
	var v view
	seen := map[string]string{} // of each object, what its mark is made of
	for _, c := range compared {
		id := c.ID.String()
		v.inventory = append(v.inventory, id)
		w.compare(c, &v)
		if c.There != nil {
			v.some = true
			seen[id] = version(c.There)
		}
	}
	v.inventory = manifest.Union(v.inventory)
	for _, id := range w.memory.Inventory {
		if slices.Contains(v.inventory, id) {
			continue
		}
		parsed, err := manifest.Parse(id)
		if err != nil {
			return view{}, err
		}
		there, err := w.client.Look(ctx, parsed)
		if err != nil {
			return view{}, err
		}
		if there == nil || there.GetLabels()[manifest.OwnerLabel] != manifest.Mark(w.set.Owner) {
			continue
		}
		seen[id] = version(there.Object)
		v.some = true
		if len(w.later[""]) == 0 { // it may be one of those of which the name is not known
			v.fields = append(v.fields, executor.Field{Path: parsed.Words(), Before: "there"})
		}
	}
	for _, path := range w.later[""] {
		v.later = true
		v.fields = append(v.fields, executor.Field{Path: path, After: executor.Unknown{}})
	}
	if len(v.fields) > maxFields {
		v.fields = append(v.fields[:maxFields:maxFields], executor.Field{Path: "more", After: fmt.Sprintf("%d other fields", len(v.fields)-maxFields)})
	}
	v.mark = executor.Mark(seen)
	return v, nil
}

// compare adds how one object differs.
func (w *work) compare(c manifest.Compared, v *view) {
	name := c.ID.Words()
	later := w.later[loose(c.ID)]
	for _, path := range later {
		v.later = true
		v.fields = append(v.fields, executor.Field{Path: name + " " + path, After: executor.Unknown{}})
	}
	switch {
	case c.There == nil:
		v.fields = append(v.fields, executor.Field{Path: name, After: "new"})
	case c.Fixed:
		v.fixed = append(v.fixed, c.ID.String())
		v.fields = append(v.fields, executor.Field{Path: name, Before: "as it is", After: "another that it cannot be changed into", Forces: true})
	default:
		was, would := tidy(c.There), tidy(c.Would)
		before := len(v.fields)
		differ("", was, would, func(path string, before, after any) {
			if slices.ContainsFunc(later, func(p string) bool { return p == path || strings.HasPrefix(p, path) }) {
				return // it is told as not known
			}
			if w.veiled(c.ID, path) {
				before, after = hide(before), hide(after)
			}
			v.fields = append(v.fields, executor.Field{Path: name + " " + path, Before: short(before), After: short(after)})
		})
		if len(v.fields) > before && v.by == "" {
			v.by = another(c.There)
		}
	}
}

// veiled reports whether a field is a secret, or holds one.
func (w *work) veiled(id manifest.ID, path string) bool {
	if id.Group == "" && id.Kind == "Secret" && (strings.HasPrefix(path, "data") || strings.HasPrefix(path, "stringData")) {
		return true
	}
	if strings.Contains(path, "last-applied-configuration") { // kubectl's copy of it all
		return true
	}
	return slices.ContainsFunc(slices.Concat(w.hidden, w.memory.Hidden), func(h string) bool {
		of, at, _ := strings.Cut(h, " ")
		return of == loose(id) && (strings.HasPrefix(path, at) || strings.HasPrefix(at, path))
	})
}

func hide(v any) any {
	if v == nil {
		return nil
	}
	return executor.Hidden
}

// version of an object as far as a plan cares: of what counts its changes, what
// is reported about it does not.
func version(o map[string]any) string {
	u := &unstructured.Unstructured{Object: o}
	if n := u.GetGeneration(); n > 0 {
		return fmt.Sprintf("%s/%d", u.GetUID(), n)
	}
	return string(u.GetUID()) + "@" + u.GetResourceVersion()
}

// tidy is an object without what the cluster keeps count of.
func tidy(o map[string]any) map[string]any {
	u := (&unstructured.Unstructured{Object: o}).DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(u.Object, "status")
	return u.Object
}

// differ tells each leaf that is not the same.
func differ(at string, a, b any, tell func(path string, a, b any)) {
	if reflect.DeepEqual(a, b) {
		return
	}
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			keys := map[string]bool{}
			for k := range x {
				keys[k] = true
			}
			for k := range y {
				keys[k] = true
			}
			sorted := make([]string, 0, len(keys))
			for k := range keys {
				sorted = append(sorted, k)
			}
			slices.Sort(sorted)
			for _, k := range sorted {
				differ(join(at, k), x[k], y[k], tell)
			}
			return
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				differ(fmt.Sprintf("%s[%d]", at, i), x[i], y[i], tell)
			}
			return
		}
	}
	tell(at, a, b)
}

// short keeps a plan readable.
func short(v any) any {
	if s, ok := v.(string); ok {
		if r := []rune(s); len(r) > 200 {
			return string(r[:199]) + "…"
		}
	}
	return v
}

// another is whoever else wrote an object last.
func another(o map[string]any) string {
	u := &unstructured.Unstructured{Object: o}
	who := ""
	var when int64
	for _, m := range u.GetManagedFields() {
		if m.Manager == "drover" || m.Subresource != "" || m.Time == nil || m.Time.Unix() < when {
			continue
		}
		who, when = m.Manager, m.Time.Unix()
	}
	return who
}

// decide is what Apply would do about what was seen.
func (v view) decide() executor.Change {
	c := executor.Change{Action: executor.None, Mark: v.mark, Fields: v.fields}
	c.Outputs, c.Takes = map[string]any{"objects": list(v.inventory)}, names(v.inventory)
	if len(v.fields) == 0 {
		return c // the status is what it was: whoever refers to it has nothing new to wait for
	}
	c.Outputs["status"] = executor.Unknown{}
	f := v.fields[0]
	switch {
	case !v.some:
		c.Action, c.Why = executor.Create, "the objects are not there"
	case len(v.fixed) > 0:
		f = v.fields[slices.IndexFunc(v.fields, func(f executor.Field) bool { return f.Forces })]
		c.Action, c.Why = executor.Replace, f.Path+" has a field that cannot be changed"
	default:
		c.Action, c.Why = executor.Update, fmt.Sprintf("%s is %v, wanted %v", f.Path, told(f.Before), told(f.After))
		if n := len(v.fields) - 1; n > 0 {
			c.Why += fmt.Sprintf(", and %d more", n)
		}
	}
	if v.later && slices.ContainsFunc(v.fields, func(f executor.Field) bool { return strings.HasPrefix(f.Path, "manifests") || f.Path == "namespace" }) {
		c.Outputs["objects"] = executor.Unknown{}
	}
	return c
}

func told(v any) any {
	if v == nil {
		return "nothing"
	}
	return executor.Show(v)
}
