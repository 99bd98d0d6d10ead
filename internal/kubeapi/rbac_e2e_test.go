//go:build e2e

package kubeapi_test

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Who has the roles that are shipped may do what they say, on a real API.
func TestRoles(t *testing.T) {
	w := enter(t)
	ns, other := w.Namespace(t), w.Namespace(t)
	bind := func(kind, user, role, in string) {
		text := fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: {name: test-%s%s, namespace: %q}\n"+
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}\nsubjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]\n", kind, user, ns, in, role, user)
		if in == "" {
			text = fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: {name: test-%s%s}\n"+
				"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}\nsubjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]\n", kind, user, ns, role, user)
		}
		w.apply(t, text)
	}
	bind("RoleBinding", "tenant", "drover-gitops-edit", ns)
	bind("RoleBinding", "editor", "edit", ns) // Kubernetes' own, which has ours with it
	bind("RoleBinding", "viewer", "drover-gitops-view", ns)
	bind("ClusterRoleBinding", "operator", "drover-gitops-admin", "")
	const group = "managed-gitops.redhat.com"
	may := func(user, verb, group, resource, sub, in string) bool {
		config, err := clientcmd.RESTConfigFromKubeConfig(w.KubeconfigOf(t, user))
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: in}}}
		if review, err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	// Roles are gathered by a controller, and the API learns of each binding in the background.
	for _, user := range []string{"editor", "tenant", "viewer"} {
		until(t, user+" to be bound", func() bool { return may(user, "get", group, "gitopsdeployments", "", ns) })
	}
	until(t, "the operator to be bound", func() bool { return may("operator", "get", group, "gitopsdeployments", "", other) })
	until(t, "whoever may edit a namespace to deploy from it", func() bool { return may("editor", "create", group, "gitopsdeployments", "", ns) })
	kinds := []string{"gitopsdeployments", "gitopsdeploymentsyncruns", "gitopsdeploymentrepositorycredentials", "gitopsdeploymentmanagedenvironments"}
	for _, kind := range kinds {
		for _, c := range []struct {
			reason, user, verb, sub, in string
			want                        bool
		}{
			{"a tenant makes them in the own namespace", "tenant", "create", "", ns, true},
			{"and changes them", "tenant", "patch", "", ns, true},
			{"and deletes them", "tenant", "delete", "", ns, true},
			{"and reads what became of them", "tenant", "get", "status", ns, true},
			{"but does not write that", "tenant", "patch", "status", ns, false},
			{"and nothing in another namespace", "tenant", "get", "", other, false},
			{"nor in all", "tenant", "list", "", "", false},
			{"a viewer reads", "viewer", "watch", "", ns, true},
			{"and writes nothing", "viewer", "create", "", ns, false},
			{"nor deletes", "viewer", "delete", "", ns, false},
			{"an operator has all in all namespaces", "operator", "delete", "", other, true},
		} {
			if got := may(c.user, c.verb, group, kind, c.sub, c.in); got != c.want {
				t.Errorf("%s: %s %s: %v", c.reason, c.verb, kind, got)
			}
		}
	}
	for _, c := range []struct {
		reason, user, verb, group, resource, in string
		want                                    bool
	}{
		{"a tenant sees no Operations", "tenant", "get", group, "operations", ns, false},
		{"an operator does", "operator", "get", group, "operations", "argocd", true},
		{"a tenant labels no namespaces: they say whose it is", "tenant", "patch", "", "namespaces", ns, false},
		{"our role gives no Secrets", "tenant", "get", "", "secrets", ns, false},
		{"nor Applications of Argo CD", "tenant", "create", "argoproj.io", "applications", ns, false},
		{"an operator of deployments is none of the cluster", "operator", "get", "", "secrets", ns, false},
	} {
		if got := may(c.user, c.verb, c.group, c.resource, "", c.in); got != c.want {
			t.Errorf("%s: %v", c.reason, got)
		}
	}
}
