package cluster_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
)

func applied(t testing.TB, text string) cluster.Applied {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return cluster.Applied{Of: "offering x", Document: m}
}

// grants says whether a rule lets the verb be used, as Kubernetes decides it.
func grants(rules []cluster.Rule, group, resource, name, verb string) bool {
	has := func(list []string, s string) bool { return slices.Contains(list, s) || slices.Contains(list, "*") }
	return slices.ContainsFunc(rules, func(r cluster.Rule) bool {
		return has(r.Groups, group) && has(r.Resources, resource) && has(r.Verbs, verb) && (len(r.Names) == 0 || slices.Contains(r.Names, name))
	})
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		reason, document string
		may, mayNot      []string // "group/resource/name/verb"
	}{
		{
			"nothing is offered: the agent itself", `{}`,
			[]string{"/namespaces//create", "/nodes//list", "/resourcequotas//get", "/events//watch", "networking.k8s.io/ingresses//patch", "route.openshift.io/routes//delete", "gateway.networking.k8s.io/httproutes//create"},
			[]string{"/secrets//get", "/configmaps//get", "/nodes//patch", "/pods//get", "apps/deployments//get", "rbac.authorization.k8s.io/clusterroles//create", "rbac.authorization.k8s.io/clusterroles//escalate"},
		},
		{
			"a process is for another runtime", `{process: {command: [x]}}`,
			nil, []string{"/secrets//get", "/configmaps//get"},
		},
		{
			"a list of manifests", `{manifests: [{apiVersion: apps/v1, kind: Deployment}, {apiVersion: v1, kind: ConfigMap}, {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy}]}`,
			[]string{"apps/deployments//create", "apps/deployments//patch", "apps/deployments//delete", "/configmaps//watch", "networking.k8s.io/networkpolicies//patch"},
			[]string{"/secrets//get", "/deployments//get", "apps/configmaps//get", "apps/deployments//update", "apps/deployments//deletecollection", "apps/statefulsets//get"},
		},
		{
			"one object by itself", `{apiVersion: managedkafka.bf2.org/v1alpha1, kind: ManagedKafka, spec: {size: "${size.name}"}}`,
			[]string{"managedkafka.bf2.org/managedkafkas//patch"}, []string{"/secrets//get"},
		},
		{
			"what is in a list of Kubernetes", `{manifests: [{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap}]}]}`,
			[]string{"/configmaps//patch"}, []string{"/lists//get", "/secrets//get"},
		},
		{
			"a list by itself", `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap}]}`,
			[]string{"/configmaps//patch"}, []string{"/lists//get"},
		},
		{
			"secrets where a document has some", `{manifests: [{apiVersion: v1, kind: Secret}]}`,
			[]string{"/secrets//patch"}, []string{"/configmaps//get"},
		},
		{
			"a definition tells the plural of its kind",
			`{manifests: [{apiVersion: example.org/v1, kind: Ox}, {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {group: example.org, names: {kind: Ox, plural: oxen}}}]}`,
			[]string{"example.org/oxen//create", "apiextensions.k8s.io/customresourcedefinitions//create"}, []string{"example.org/oxes//create"},
		},
		{
			"rights in a role are the agent's as well, and no more may be put into it",
			`{manifests: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: op}, rules: [{apiGroups: [""], resources: [pods], verbs: [list]}, {nonResourceURLs: [/metrics], verbs: [get]}]},
			  {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, roleRef: {kind: ClusterRole, name: op}}]}`,
			[]string{"/pods//list", "rbac.authorization.k8s.io/clusterroles//create", "rbac.authorization.k8s.io/clusterrolebindings//create"},
			[]string{"/pods//get", "rbac.authorization.k8s.io/clusterroles/op/escalate", "rbac.authorization.k8s.io/clusterroles/op/bind"},
		},
		{
			"a role that is there already may be bound, and no other",
			`{manifests: [{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, roleRef: {kind: ClusterRole, name: view}}]}`,
			[]string{"rbac.authorization.k8s.io/clusterroles/view/bind", "rbac.authorization.k8s.io/rolebindings//patch"},
			[]string{"rbac.authorization.k8s.io/clusterroles/admin/bind", "rbac.authorization.k8s.io/clusterroles//bind"},
		},
		{
			"a role of each instance that comes along may have a name of the instance",
			`{manifests: [{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: "${instance.id}"}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]},
			  {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, roleRef: {kind: Role, name: "${instance.id}"}}]}`,
			[]string{"/pods//get"}, []string{"rbac.authorization.k8s.io/roles//bind"},
		},
	} {
		t.Run(c.reason, func(t *testing.T) {
			rules, err := cluster.Rules([]cluster.Applied{applied(t, c.document)})
			if err != nil {
				t.Fatal(err)
			}
			check := func(list []string, want bool) {
				for _, what := range list {
					p := strings.Split(what, "/")
					if grants(rules, p[0], p[1], p[2], p[3]) != want {
						t.Errorf("%s: want %v in %+v", what, want, rules)
					}
				}
			}
			check(c.may, true)
			check(c.mayNot, false)
		})
	}
}

func TestRulesRefuseWhatCannotBeTold(t *testing.T) {
	for reason, document := range map[string]string{
		"the kind is an expression":        `{manifests: [{apiVersion: v1, kind: "${x}"}]}`,
		"the version is":                   `{apiVersion: "${x}", kind: Secret}`,
		"a kind is missing":                `{manifests: [{apiVersion: v1}]}`,
		"the list is":                      `{manifests: "${x}"}`,
		"an object of the list is":         `{manifests: ["${x}"]}`,
		"the rights of a role are":         `{manifests: [{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, rules: "${x}"}]}`,
		"a right of a role is":             `{manifests: [{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, rules: [{apiGroups: [""], resources: ["${x}"], verbs: [get]}]}]}`,
		"the rights come from other roles": `{manifests: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, aggregationRule: {}}]}`,
		"the bound role is":                `{manifests: [{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, roleRef: {kind: ClusterRole, name: "${x}"}}]}`,
		"nothing is bound":                 `{manifests: [{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding}]}`,
	} {
		if _, err := cluster.Rules([]cluster.Applied{applied(t, document)}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "offering x") {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestResourcesOfKinds(t *testing.T) {
	for kind, want := range map[string]string{
		"Pod": "pods", "NetworkPolicy": "networkpolicies", "Ingress": "ingresses", "Gateway": "gateways", "StorageClass": "storageclasses",
		"Endpoints": "endpoints", "EndpointSlice": "endpointslices", "Prometheus": "prometheuses", "Kafka": "kafkas", "Proxy": "proxies",
		"SecurityContextConstraints": "securitycontextconstraints", "DNS": "dnses", "Mesh": "meshes", "Box": "boxes",
		"CSIStorageCapacity": "csistoragecapacities", "HorizontalPodAutoscaler": "horizontalpodautoscalers", "Y": "ies",
	} {
		rules, err := cluster.Rules([]cluster.Applied{{Of: "x", Document: map[string]any{"apiVersion": "x.org/v1", "kind": kind}}})
		if err != nil || !grants(rules, "x.org", want, "", "patch") {
			t.Errorf("%s: no %s in %+v, %v", kind, want, rules, err)
		}
	}
}

// Whatever the order and however often it is said: the rules are the same, every
// kind that is applied may be, and no kind that is not.
func TestRulesAreOfTheKindsAlone(t *testing.T) {
	kinds := []string{"ConfigMap", "Secret", "Service", "PersistentVolumeClaim", "Pod", "ServiceAccount"}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 12).Draw(t, "kinds")
		var one, many []cluster.Applied
		manifests := []any{}
		for _, k := range list {
			manifests = append(manifests, map[string]any{"apiVersion": "v1", "kind": k})
			many = append(many, cluster.Applied{Of: "x", Document: map[string]any{"apiVersion": "v1", "kind": k}})
		}
		one = []cluster.Applied{{Of: "x", Document: map[string]any{"manifests": manifests}}}
		slices.Reverse(many)
		a, err := cluster.Rules(one)
		if err != nil {
			t.Fatal(err)
		}
		b, err := cluster.Rules(many)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Fatal(d)
		}
		for _, k := range kinds {
			if got := grants(a, "", strings.ToLower(k)+"s", "", "delete"); got != slices.Contains(list, k) {
				t.Fatalf("%s: %v", k, got)
			}
		}
	})
}

// FuzzRules: whatever a document is, it is refused or gives rules, and an
// expression never becomes a right.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"manifests":[{"apiVersion":"v1","kind":"Secret"}]}`, `{"apiVersion":"a/b/c","kind":"y"}`, `{"manifests":null}`, `{"manifests":[null]}`,
		`{"manifests":[{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","rules":[{"verbs":["${x}"]}]}]}`,
		`{"manifests":[{"apiVersion":"x/v1","kind":"CustomResourceDefinition","spec":{"group":"${x}","names":{"kind":"A","plural":"${y}"}}}]}`,
		`{"manifests":[{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","roleRef":{"kind":"s","name":"a/b"}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m map[string]any
		if json.Unmarshal(data, &m) != nil {
			return
		}
		rules, err := cluster.Rules([]cluster.Applied{{Of: "x", Document: m}})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, r := range rules {
			for _, text := range slices.Concat(r.Groups, r.Resources, r.Names, r.URLs, r.Verbs) {
				if strings.Contains(text, "${") {
					t.Fatalf("%q became a right: %+v", text, r)
				}
			}
		}
	})
}
