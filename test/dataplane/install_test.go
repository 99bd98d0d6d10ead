//go:build e2e

package dataplane_test

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	authv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
)

const (
	agentUser = "system:serviceaccount:" + cluster.AgentNamespace + ":" + cluster.AgentName

	// offered is what an offering may have of everything that is special: a kind
	// with a plural of its own, a role with a binding to it, a role of the cluster
	// that is only bound.
	offered = `
manifests:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: settings}
  data: {a: b}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web}
  spec:
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: web, image: web}]}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: closed}
  spec: {podSelector: {}}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: web}
  rules: [{apiGroups: [""], resources: [endpoints], verbs: [get]}]
- apiVersion: rbac.authorization.k8s.io/v1
  kind: RoleBinding
  metadata: {name: web}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: web}
  subjects: [{kind: ServiceAccount, name: default}]
- apiVersion: rbac.authorization.k8s.io/v1
  kind: RoleBinding
  metadata: {name: viewer}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
  subjects: [{kind: ServiceAccount, name: default}]
`
)

var (
	apply = []string{"create", "delete", "get", "list", "patch", "watch"}
	read  = []string{"get", "list", "watch"}
)

// allowed are all rights that the agent is to have outside of its namespace, with
// those that every account has: of kinds that a bare Kubernetes has.
var allowed = map[string][]string{
	"configmaps": apply, "deployments.apps": apply, "networkpolicies.networking.k8s.io": apply,
	"roles.rbac.authorization.k8s.io": apply, "rolebindings.rbac.authorization.k8s.io": apply,
	"endpoints":  {"get"},
	"namespaces": apply, "ingresses.networking.k8s.io": apply,
	"nodes": read, "resourcequotas": read, "events": read, "events.events.k8s.io": read,

	"selfsubjectaccessreviews.authorization.k8s.io": {"create"}, "selfsubjectrulesreviews.authorization.k8s.io": {"create"},
	"selfsubjectreviews.authentication.k8s.io": {"create"}, "clustertrustbundles.certificates.k8s.io": read,
}

func TestTheAgentMayDoWhatTheOfferingNeedsAndNoMore(t *testing.T) {
	c := kubernetes.Start(t, kubernetes.WithControllers())
	var document map[string]any
	if err := yaml.Unmarshal([]byte(offered), &document); err != nil {
		t.Fatal(err)
	}
	rules, err := cluster.Rules([]cluster.Applied{{Of: "the offering", Document: document}})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := cluster.Install(cluster.InstallConfig{Server: "https://drover.example.org", Cluster: "edge", Token: "a.b.c", Image: "drover:1", Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	admin := applier(t, c.Admin())
	for range 2 { // the second time changes nothing
		for _, o := range split(t, stream) {
			if err := admin.apply(t.Context(), o, ""); err != nil {
				t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
	}

	t.Run("every right of every kind that there is", func(t *testing.T) {
		client := c.Client(t)
		// The server looks at roles and bindings as they were a moment ago.
		drover.Until(t, "the agent's rights to be in force", func() bool {
			return may(t, client, authv1.ResourceAttributes{Verb: "patch", Resource: "namespaces"}) &&
				may(t, client, authv1.ResourceAttributes{Verb: "update", Resource: "secrets", Namespace: cluster.AgentNamespace})
		})
		for _, namespace := range []string{"default", "kube-system"} {
			compare(t, namespace, allowed, rights(t, client, namespace))
		}
		own := maps.Clone(allowed)
		own["secrets"] = slices.Sorted(slices.Values(append([]string{"update"}, apply...)))
		own["leases.coordination.k8s.io"] = own["secrets"]
		compare(t, cluster.AgentNamespace, own, rights(t, client, cluster.AgentNamespace))
	})

	as, err := clientcmd.RESTConfigFromKubeConfig(c.KubeconfigOfAccount(t, cluster.AgentNamespace, cluster.AgentName))
	if err != nil {
		t.Fatal(err)
	}
	agent := applier(t, as)
	t.Run("the agent applies the offering", func(t *testing.T) {
		ns := object(t, `{apiVersion: v1, kind: Namespace, metadata: {name: instance-1}}`)
		if err := agent.apply(t.Context(), ns, ""); err != nil {
			t.Fatal(err)
		}
		for _, m := range document["manifests"].([]any) {
			o := &unstructured.Unstructured{Object: m.(map[string]any)}
			for range 2 { // made, then looked at again
				if err := agent.apply(t.Context(), o, "instance-1"); err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
		}
	})
	t.Run("the agent is refused", func(t *testing.T) {
		for reason, text := range map[string]string{
			"a secret, which no offering has":         `{apiVersion: v1, kind: Secret, metadata: {name: x}}`,
			"a pod beside the offering":               `{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: x, image: x}]}}`,
			"a role with more than it has itself":     `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}`,
			"the offering's role with more":           `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: web}, rules: [{apiGroups: [""], resources: [endpoints], verbs: [get, patch]}]}`,
			"a binding to another role":               `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: x}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: default}]}`,
			"a binding for the whole cluster":         `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: x}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: ServiceAccount, name: default, namespace: default}]}`,
			"rights of its own that it was not given": `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: drover-agent}, rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]}`,
		} {
			if err := agent.apply(t.Context(), object(t, text), "instance-1"); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", reason, err)
			}
		}
	})
}

// The Deployment's arguments and the program are written down in two places: it
// must get as far as its token, which is not here.
func TestTheAgentUnderstandsItsArguments(t *testing.T) {
	stream, err := cluster.Install(cluster.InstallConfig{Server: "https://127.0.0.1:1", Cluster: "edge", Token: "a.b.c", Image: "drover:1"})
	if err != nil {
		t.Fatal(err)
	}
	all := split(t, stream)
	containers, _, err := unstructured.NestedSlice(all[len(all)-1].Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("containers: %v, %v", containers, err)
	}
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), drover.Binary(), args...)
	cmd.Dir = t.TempDir()
	said, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "cannot read /var/run/drover/token") {
		t.Errorf("%v: %s", err, said)
	}
}

func compare(t *testing.T, namespace string, want, got map[string][]string) {
	t.Helper()
	for _, resource := range slices.Sorted(maps.Keys(got)) {
		if !slices.Equal(got[resource], want[resource]) {
			t.Errorf("%s in %s: may %v, should %v", resource, namespace, got[resource], want[resource])
		}
	}
	for resource := range want {
		if got[resource] == nil {
			t.Errorf("%s in %s: may nothing, should %v", resource, namespace, want[resource])
		}
	}
}

// may asks the server for one right of the agent.
func may(t *testing.T, client clientset.Interface, what authv1.ResourceAttributes) bool {
	t.Helper()
	review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authv1.SubjectAccessReview{
		Spec: authv1.SubjectAccessReviewSpec{User: agentUser, Groups: []string{"system:serviceaccounts", "system:authenticated"}, ResourceAttributes: &what},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// rights asks the server for each verb of each kind that it has.
func rights(t *testing.T, client clientset.Interface, namespace string) map[string][]string {
	t.Helper()
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			name, sub, _ := strings.Cut(r.Name, "/")
			what := schema.GroupResource{Group: gv.Group, Resource: r.Name}.String()
			if out[what] != nil {
				continue // in another version
			}
			for _, verb := range []string{"bind", "create", "delete", "deletecollection", "escalate", "get", "impersonate", "list", "patch", "update", "watch"} {
				a := authv1.ResourceAttributes{Verb: verb, Group: gv.Group, Resource: name, Subresource: sub}
				if r.Namespaced {
					a.Namespace = namespace
				}
				if may(t, client, a) {
					out[what] = append(out[what], verb)
				}
			}
		}
	}
	return out
}

// someone applies objects with their own rights.
type someone struct {
	objects dynamic.Interface
	mapper  meta.RESTMapper
}

func applier(t *testing.T, config *rest.Config) someone {
	t.Helper()
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(found)
	if err != nil {
		t.Fatal(err)
	}
	return someone{objects, restmapper.NewDiscoveryRESTMapper(groups)}
}

// apply uses the namespace where the object needs one and names none.
func (s someone) apply(ctx context.Context, o *unstructured.Unstructured, namespace string) error {
	kind := o.GroupVersionKind()
	m, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	o = o.DeepCopy()
	var to dynamic.ResourceInterface = s.objects.Resource(m.Resource)
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		if o.GetNamespace() == "" {
			o.SetNamespace(namespace)
		}
		to = s.objects.Resource(m.Resource).Namespace(o.GetNamespace())
	}
	_, err = to.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test"})
	return err
}

func split(t *testing.T, stream []byte) (out []*unstructured.Unstructured) {
	t.Helper()
	for part := range strings.SplitSeq(string(stream), "\n---\n") {
		out = append(out, object(t, part))
	}
	return out
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(fmt.Errorf("%w in %s", err, text))
	}
	return o
}
