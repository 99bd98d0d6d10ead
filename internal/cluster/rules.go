package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

// Applied is something that an agent puts on its cluster: the document of an
// offering's instances, or the manifests of a step.
type Applied struct {
	Of       string // how messages call it: "offering kafka, desired"
	Document map[string]any
}

// Rule is a right that an agent has on its whole cluster, in the words of
// Kubernetes: what of which group may be done, or to which URLs.
type Rule struct {
	Groups    []string `json:"apiGroups,omitempty"`
	Resources []string `json:"resources,omitempty"`
	Names     []string `json:"resourceNames,omitempty"` // empty: all
	URLs      []string `json:"nonResourceURLs,omitempty"`
	Verbs     []string `json:"verbs"`
}

var (
	verbsApply = []string{"get", "list", "watch", "create", "patch", "delete"}
	verbsRead  = []string{"get", "list", "watch"}
)

// ownRules are what an agent needs whatever is offered: namespaces for instances,
// what it reports of the cluster, and the kinds by which hosts are reached.
var ownRules = []Rule{
	{Groups: []string{""}, Resources: []string{"namespaces"}, Verbs: verbsApply},
	{Groups: []string{""}, Resources: []string{"events", "nodes", "resourcequotas"}, Verbs: verbsRead},
	{Groups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: verbsRead},
	{Groups: []string{"networking.k8s.io"}, Resources: []string{"ingresses"}, Verbs: verbsApply},
	{Groups: []string{"gateway.networking.k8s.io"}, Resources: []string{"httproutes"}, Verbs: verbsApply},
	{Groups: []string{"gateway.networking.k8s.io"}, Resources: []string{"gateways"}, Verbs: verbsRead},
	{Groups: []string{"route.openshift.io"}, Resources: []string{"routes"}, Verbs: verbsApply},
	{Groups: []string{"route.openshift.io"}, Resources: []string{"routes/custom-host"}, Verbs: []string{"create", "patch"}},
}

// Rules are the least rights with which an agent can apply all of these, besides
// what it needs itself. Secrets are among them only where a document has some.
//
// Kubernetes lets nobody hand out rights that they lack, so that the rights in
// roles that are applied are the agent's as well, and a role that is only bound
// may be bound.
//
// Fault: Invalid where it cannot be told beforehand what is applied: an
// expression stands for the kind, the list, or the rights of a role.
func Rules(of []Applied) ([]Rule, error) {
	w := &wants{plurals: map[groupKind]string{}, roles: map[string]bool{}, binds: map[string]bool{}}
	w.rules = slices.Clone(ownRules)
	var objects []located
	for _, a := range of {
		found, err := objectsOf(a)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	for _, o := range objects {
		w.define(o)
	}
	for _, o := range objects {
		if err := w.add(o); err != nil {
			return nil, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.binds)) {
		if resource, name, _ := strings.Cut(key, "/"); !w.roles[key] {
			w.rules = append(w.rules, Rule{Groups: []string{groupRBAC}, Resources: []string{resource}, Names: []string{name}, Verbs: []string{"bind"}})
		}
	}
	return mergeRules(w.rules), nil
}

const groupRBAC = "rbac.authorization.k8s.io"

type groupKind struct{ group, kind string }

// located is a Kubernetes object and where it stands.
type located struct {
	groupKind
	of     string
	object map[string]any
}

func objectsOf(a Applied) ([]located, error) {
	raw, ok := a.Document["manifests"]
	if !ok {
		if a.Document["apiVersion"] == nil || a.Document["kind"] == nil {
			return nil, nil // for another runtime
		}
		o, err := locate(a.Of, a.Document)
		if o.group == "" && o.kind == "List" {
			return listed(a.Of, "items", a.Document["items"])
		}
		return []located{o}, err
	}
	return listed(a.Of, "manifests", raw)
}

// listed are the objects of a list; those of a List in it come out of it, as they
// do when they are applied.
func listed(of, field string, raw any) ([]located, error) {
	list, ok := raw.([]any)
	if !ok {
		return nil, fault.New(fault.Invalid, "%s: %s is not a list: write the objects out, with expressions inside them only, so that the agent's rights can be told beforehand", of, field)
	}
	var out []located
	for i, item := range list {
		of := fmt.Sprintf("%s, %s[%d]", of, field, i)
		object, ok := item.(map[string]any)
		if !ok {
			return nil, fault.New(fault.Invalid, "%s is not an object: write it out, with expressions inside it only, so that the agent's rights can be told beforehand", of)
		}
		o, err := locate(of, object)
		if err != nil {
			return nil, err
		}
		if o.group != "" || o.kind != "List" {
			out = append(out, o)
			continue
		}
		inner, err := listed(of, "items", object["items"])
		if err != nil {
			return nil, err
		}
		out = append(out, inner...)
	}
	return out, nil
}

func locate(of string, object map[string]any) (located, error) {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	for field, text := range map[string]string{"apiVersion": version, "kind": kind} {
		if text == "" || strings.Contains(text, "${") {
			return located{}, fault.New(fault.Invalid, "%s: %s must be plain text, so that the agent's rights can be told beforehand", of, field)
		}
	}
	group, _, named := strings.Cut(version, "/")
	if !named {
		group = "" // the core's version stands alone
	}
	return located{groupKind: groupKind{group, kind}, of: of, object: object}, nil
}

// wants gathers rules.
type wants struct {
	rules   []Rule
	plurals map[groupKind]string // that the documents themselves define
	roles   map[string]bool      // "<resource>/<name>" of roles that are applied
	binds   map[string]bool      // and of those that are bound
}

// define notes what a document says of others: how a custom kind is called, and
// which roles come along.
func (w *wants) define(o located) {
	switch {
	case o.kind == "CustomResourceDefinition":
		var d struct {
			Spec struct {
				Group string
				Names struct{ Kind, Plural string }
			}
		}
		if into(o.object, &d) == nil && d.Spec.Names.Plural != "" && !strings.Contains(d.Spec.Names.Plural, "${") {
			w.plurals[groupKind{d.Spec.Group, d.Spec.Names.Kind}] = d.Spec.Names.Plural
		}
	case o.group == groupRBAC && (o.kind == "Role" || o.kind == "ClusterRole"):
		var d struct{ Metadata struct{ Name string } }
		if into(o.object, &d) == nil {
			w.roles[plural(o.kind)+"/"+d.Metadata.Name] = true
		}
	}
}

func (w *wants) add(o located) error {
	resource, ok := w.plurals[o.groupKind]
	if !ok {
		resource = plural(o.kind)
	}
	w.rules = append(w.rules, Rule{Groups: []string{o.group}, Resources: []string{resource}, Verbs: verbsApply})
	if o.group != groupRBAC {
		return nil
	}
	unclear := fault.New(fault.Invalid, "%s: the rights of a role and the name of a bound one must be plain text: an agent can hand out only rights that it has", o.of)
	switch o.kind {
	case "Role", "ClusterRole":
		var d struct {
			Rules           []Rule
			AggregationRule map[string]any
		}
		if into(o.object, &d) != nil || d.AggregationRule != nil {
			return unclear
		}
		for _, r := range d.Rules {
			for _, text := range slices.Concat(r.Groups, r.Resources, r.Names, r.URLs, r.Verbs) {
				if strings.Contains(text, "${") {
					return unclear
				}
			}
			w.rules = append(w.rules, r)
		}
	case "RoleBinding", "ClusterRoleBinding":
		var d struct{ RoleRef struct{ Kind, Name string } }
		err := into(o.object, &d)
		role := plural(d.RoleRef.Kind) + "/" + d.RoleRef.Name
		// The rights of a role that comes along are held, whatever its name will be.
		if err != nil || d.RoleRef.Name == "" || !w.roles[role] && strings.Contains(role, "${") {
			return unclear
		}
		w.binds[role] = true
	}
	return nil
}

func into(object map[string]any, v any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// irregular are kinds whose resource is not called as the rule of plural says.
var irregular = map[string]string{
	"Endpoints":                  "endpoints",
	"SecurityContextConstraints": "securitycontextconstraints",
	"PodMetrics":                 "pods",
	"NodeMetrics":                "nodes",
}

// plural is how Kubernetes calls the resource of a kind, as far as English goes:
// policies, ingresses, gateways, proxies, prometheuses. What a definition among
// the documents says goes before.
func plural(kind string) string {
	if p, ok := irregular[kind]; ok {
		return p
	}
	k := strings.ToLower(kind)
	before := func(letters string) bool { return len(k) > 1 && strings.ContainsRune(letters, rune(k[len(k)-2])) }
	switch {
	case strings.HasSuffix(k, "y") && !before("aeiou"):
		return strings.TrimSuffix(k, "y") + "ies"
	case strings.HasSuffix(k, "s"), strings.HasSuffix(k, "x"), strings.HasSuffix(k, "z"),
		strings.HasSuffix(k, "ch"), strings.HasSuffix(k, "sh"):
		return k + "es"
	}
	return k + "s"
}

// mergeRules sorts rules, leaves out what stands there twice, and puts resources of one
// group with the same verbs together. Rules with names or URLs stay as they are.
func mergeRules(rules []Rule) []Rule {
	byVerbs := map[[2]string][]string{} // group and verbs to resources
	had := map[[2]string][]string{}     // group and resource to verbs
	var apart []Rule
	for _, r := range rules {
		if len(r.Names) > 0 || len(r.URLs) > 0 {
			apart = append(apart, r.sorted())
			continue
		}
		for _, g := range r.Groups {
			for _, resource := range r.Resources {
				had[[2]string{g, resource}] = append(had[[2]string{g, resource}], r.Verbs...)
			}
		}
	}
	for at, verbs := range had {
		key := [2]string{at[0], strings.Join(inOrder(verbs), ",")}
		byVerbs[key] = append(byVerbs[key], at[1])
	}
	var out []Rule
	for key, resources := range byVerbs {
		out = append(out, Rule{Groups: []string{key[0]}, Resources: inOrder(resources), Verbs: strings.Split(key[1], ",")})
	}
	for _, r := range apart {
		if !slices.ContainsFunc(out, func(s Rule) bool { return r.key() == s.key() }) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Rule) int { return cmp.Compare(a.key(), b.key()) })
	return out
}

func (r Rule) sorted() Rule {
	return Rule{Groups: inOrder(r.Groups), Resources: inOrder(r.Resources), Names: inOrder(r.Names), URLs: inOrder(r.URLs), Verbs: inOrder(r.Verbs)}
}

func (r Rule) key() string {
	return fmt.Sprintf("%q %q %q %q %q", r.Groups, r.Resources, r.Names, r.URLs, r.Verbs)
}

func inOrder(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
