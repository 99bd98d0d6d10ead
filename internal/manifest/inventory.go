package manifest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/ssa"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/fault"
)

// ID names one object on one cluster: "<group>/<kind>/<namespace>/<name>" as
// text, with nothing for the core group and for what is in no namespace.
type ID struct{ Group, Kind, Namespace, Name string }

func (id ID) String() string {
	return id.Group + "/" + id.Kind + "/" + id.Namespace + "/" + id.Name
}

// Words name the object for people: "Deployment shop/web".
func (id ID) Words() string {
	if id.Namespace == "" {
		return id.Kind + " " + id.Name
	}
	return id.Kind + " " + id.Namespace + "/" + id.Name
}

func (id ID) groupKind() schema.GroupKind { return schema.GroupKind{Group: id.Group, Kind: id.Kind} }

// Parse reads the text of an ID.
func Parse(s string) (ID, error) {
	part := strings.Split(s, "/")
	if len(part) != 4 || part[1] == "" || part[3] == "" {
		return ID{}, fault.New(fault.Invalid, "an inventory holds %q, which names no object", s)
	}
	return ID{Group: part[0], Kind: part[1], Namespace: part[2], Name: part[3]}, nil
}

func idOf(o *unstructured.Unstructured) ID {
	gvk := o.GroupVersionKind()
	return ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Lasting reports whether an object takes others along when it goes, as
// namespaces and definitions of kinds do.
func (id ID) Lasting() bool { return id.namespace() || id.definition() }

func (id ID) namespace() bool { return id.Group == "" && id.Kind == "Namespace" }
func (id ID) definition() bool {
	return id.Group == "apiextensions.k8s.io" && id.Kind == "CustomResourceDefinition"
}

// stage of applying: what others need comes first.
func (id ID) stage() int {
	switch {
	case id.Lasting():
		return 0
	case id.Namespace == "" && (id.Kind == "ClusterRole" || strings.HasSuffix(id.Kind, "Class")):
		return 1
	}
	return 2
}

// order sorts as objects are applied; removing goes the other way.
func order(a, b ID) int {
	if c := cmp.Compare(a.stage(), b.stage()); c != 0 {
		return c
	}
	switch {
	case a.groupKind() == b.groupKind():
	case ssa.IsLessThan(a.groupKind(), b.groupKind()):
		return -1
	default:
		return 1
	}
	return cmp.Compare(a.String(), b.String())
}

// Union merges inventories, sorted and without doubles.
func Union(inventories ...[]string) []string {
	all := slices.Concat(inventories...)
	slices.Sort(all)
	return slices.Compact(all)
}
