package manifest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/ssa/normalize"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/fault"
)

// Set is what belongs together: applied together, pruned together.
type Set struct {
	// Owner tells whose the objects are. An object of another owner, or of none,
	// is never touched, unless its owner has let go of it: see Release.
	Owner string
	// Objects as Kubernetes takes them; lists of objects are taken apart.
	Objects []map[string]any
	// Namespace of objects that need one and name none; default "default".
	Namespace string
	// Namespaced refuses objects without a namespace: they are for the whole cluster.
	Namespaced bool
	// Labels for every object besides the owner's.
	Labels map[string]string
	// Force takes fields over from whoever else manages them.
	Force bool
	// Override lists managers whose fields are taken over without Force, by the
	// beginnings of their names: tools that people change things by hand with.
	Override []string
	// Adopt lets the set take over objects that have no owner.
	Adopt bool
	// Fence is asked after the objects were read and before the first of them is
	// written; an error ends it. Since writes only succeed on objects as they
	// were read, whoever passed the fence before it was moved cannot overwrite
	// what was written behind it. nil: there is none.
	Fence func(context.Context) error
	// Before is told what is about to be created and changed, before the first of it
	// is and before the fence is asked: once for each stage that has something to
	// write. An error ends it. nil: nobody is told.
	Before func(ctx context.Context, will Result) error
}

// overrides reports whether fields may be taken over from all of the managers.
func (s Set) overrides(managers []string) bool {
	return !slices.ContainsFunc(managers, func(m string) bool {
		return !slices.ContainsFunc(s.Override, func(p string) bool { return strings.HasPrefix(m, p) })
	})
}

// scope tells whether objects of a kind are in namespaces.
type scope func(schema.GroupVersionKind) (namespaced bool, err error)

// prepare turns a set into objects that can be sent, in order. The set is left
// as it is.
func prepare(set Set, known scope) ([]*unstructured.Unstructured, error) {
	if set.Owner == "" {
		return nil, fault.New(fault.Invalid, "a set of objects needs an owner")
	}
	if set.Namespace == "" {
		set.Namespace = "default"
	}
	var flat []*unstructured.Unstructured
	for i, o := range set.Objects {
		all, err := flatten(o, i)
		if err != nil {
			return nil, err
		}
		flat = append(flat, all...)
	}
	defined := definitions(flat)
	seen := map[ID]bool{}
	for _, o := range flat {
		namespaced, here := defined[o.GroupVersionKind().GroupKind()]
		if !here {
			var err error
			if namespaced, err = known(o.GroupVersionKind()); err != nil {
				return nil, err
			}
		}
		if set.Namespaced && !namespaced {
			return nil, fault.New(fault.Invalid, "%s is for the whole cluster, which this workspace may not change", idOf(o).Words())
		}
		if err := settle(o, set, namespaced); err != nil {
			return nil, err
		}
		id := idOf(o)
		if seen[id] {
			return nil, fault.New(fault.Invalid, "%s is there twice: leave one out", id.Words())
		}
		seen[id] = true
	}
	slices.SortFunc(flat, func(a, b *unstructured.Unstructured) int { return order(idOf(a), idOf(b)) })
	return flat, nil
}

// flatten copies an object, or the objects of a list.
func flatten(o map[string]any, at int) ([]*unstructured.Unstructured, error) {
	o = runtime.DeepCopyJSON(plain(o).(map[string]any))
	u := &unstructured.Unstructured{Object: o}
	if u.GetAPIVersion() == "" || u.GetKind() == "" {
		return nil, fault.New(fault.Invalid, "manifest %d has no apiVersion or no kind", at+1)
	}
	if _, err := schema.ParseGroupVersion(u.GetAPIVersion()); err != nil {
		return nil, fault.New(fault.Invalid, "manifest %d has an apiVersion that is not <group>/<version>", at+1)
	}
	if u.GetKind() != "List" || u.GetAPIVersion() != "v1" {
		return []*unstructured.Unstructured{u}, nil
	}
	items, ok := o["items"].([]any)
	if !ok {
		return nil, fault.New(fault.Invalid, "manifest %d is a list without items", at+1)
	}
	var all []*unstructured.Unstructured
	for _, item := range items {
		m, ok := item.(map[string]any)
		if !ok || m["kind"] == "List" {
			return nil, fault.New(fault.Invalid, "manifest %d is a list of something else than objects", at+1)
		}
		one, err := flatten(m, at)
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

// plain turns numbers and maps of Go programs into those that JSON has.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = plain(e)
		}
		return m
	case map[string]string:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = e
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = plain(e)
		}
		return l
	case []map[string]any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = plain(e)
		}
		return l
	case []string:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = e
		}
		return l
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case float64:
		// A whole number that went through JSON is an integer to Kubernetes.
		if n := int64(v); float64(n) == v && v > -1<<53 && v < 1<<53 {
			return n
		}
		return v
	}
	return v
}

// definitions of kinds in the set itself, which the cluster need not know yet.
func definitions(all []*unstructured.Unstructured) map[schema.GroupKind]bool {
	defined := map[schema.GroupKind]bool{}
	for _, o := range all {
		if !(ID{Group: o.GroupVersionKind().Group, Kind: o.GetKind()}).definition() {
			continue
		}
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		in, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
		defined[schema.GroupKind{Group: group, Kind: kind}] = in == "Namespaced"
	}
	return defined
}

// settle gives an object its namespace and its owner, and takes off what only
// a cluster can say.
func settle(o *unstructured.Unstructured, set Set, namespaced bool) error {
	kind, name := o.GetKind(), o.GetName()
	if m, there := o.Object["metadata"]; there {
		if _, ok := m.(map[string]any); !ok {
			return fault.New(fault.Invalid, "a %s has metadata that is no object", kind)
		}
	}
	if name == "" {
		return fault.New(fault.Invalid, "a %s has no metadata.name: objects are found again by their names, so generateName will not do", kind)
	}
	switch {
	case !namespaced:
		unstructured.RemoveNestedField(o.Object, "metadata", "namespace")
	case o.GetNamespace() == "":
		o.SetNamespace(set.Namespace)
	}
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "selfLink", "generation", "ownerReferences", "deletionTimestamp"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(o.Object, "metadata", field); err != nil {
			return fault.New(fault.Invalid, "%s %s has metadata.%s that are not all texts", kind, name, field)
		}
	}
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for k, v := range set.Labels {
		labels[k] = v
	}
	labels[OwnerLabel] = Mark(set.Owner)
	o.SetLabels(labels)
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[OwnerAnnotation] = set.Owner
	o.SetAnnotations(annotations)
	if kind == "Secret" && o.GetAPIVersion() == "v1" {
		return spell(o)
	}
	return nil
}

// spell turns the texts of a Secret into the bytes that a cluster keeps, which
// nothing could be compared with otherwise.
func spell(o *unstructured.Unstructured) error {
	for _, field := range []string{"stringData", "data"} {
		if _, _, err := unstructured.NestedStringMap(o.Object, field); err != nil {
			return fault.New(fault.Invalid, "Secret %s has %s that are not all texts", o.GetName(), field)
		}
	}
	if err := normalize.Unstructured(o); err != nil {
		// The cause may quote what is secret.
		return fault.New(fault.Invalid, "Secret %s is not what a Secret looks like", o.GetName())
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
	return nil
}

var labelText = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// Mark is the owner as the value of OwnerLabel.
func Mark(owner string) string {
	if labelText.MatchString(owner) {
		return owner
	}
	sum := sha256.Sum256([]byte(owner))
	return "sha256-" + hex.EncodeToString(sum[:16])
}
