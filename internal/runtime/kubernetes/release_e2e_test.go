//go:build e2e

package kubernetes_test

import (
	"strings"
	"testing"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
	testkube "github.com/droverhq/drover/test/kubernetes"
)

// An agent that lacks the rights to remove what it has deployed says which, and can let
// go of it: it stays.
func TestLetsGoWithoutRights(t *testing.T) {
	c, home, sys := testkube.Shared(t), testkube.Shared(t).Namespace(t), system(t)
	rt, id, who := open(t, sys), unique("d"), unique("agent")
	wish := func(generation int64, kept bool) runtime.Item {
		return runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: generation, Token: generation, Body: body(t, object{
			"metadata": object{"namespace": home}, "manifests": []object{configMap("a", "1")},
			"deployment": object{"uid": id, "commit": "c", "namespace": home, "kept": kept},
		})}
	}
	apply(t, rt, wish(1, false))
	await(t, rt, id, func(o runtime.Observed) bool { return o.Generation == 1 && o.State == runtime.Ready })
	rt.Close()

	rules := []rbac.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}}, {APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}}}
	if _, err := client(t).RbacV1().Roles(sys).Create(t.Context(), &rbac.Role{ObjectMeta: metav1.ObjectMeta{Name: who}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client(t).RbacV1().RoleBindings(sys).Create(t.Context(), &rbac.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: who},
		Subjects: []rbac.Subject{{Kind: "User", APIGroup: rbac.GroupName, Name: who}}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: who}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rt = open(t, sys, func(cfg *kubernetes.Config) { cfg.Kubeconfig = c.KubeconfigOf(t, who) })
	apply(t, rt, runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: 2, Token: 2, Delete: true})
	o := await(t, rt, id, func(o runtime.Observed) bool {
		return o.Generation == 2 && strings.HasPrefix(o.Message, runtime.Unremovable)
	})
	if !strings.Contains(o.Message, "ConfigMap") || !strings.Contains(o.Message, " configmaps)") {
		t.Errorf("the right that is missing is not told: %s", o.Message)
	}
	apply(t, rt, wish(3, true))
	await(t, rt, id, func(o runtime.Observed) bool { return o.Generation == 3 && o.State == runtime.Ready && seenOf(o).Kept })
	apply(t, rt, runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: 4, Token: 4, Delete: true})
	await(t, rt, id, func(o runtime.Observed) bool { return o.Generation == 4 && o.State == runtime.Deleted })
	if got := value(t, home, "a"); got != "1" {
		t.Errorf("what was deployed is %q", got)
	}
}

// What was let go of is deployed again by the next one that has it, and is that one's then.
func TestWhatWasLetGoOfIsDeployedAgain(t *testing.T) {
	home, rt := testkube.Shared(t).Namespace(t), open(t, system(t))
	wish := func(id string, generation int64, v string, kept bool) runtime.Item {
		return runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: generation, Token: generation, Body: body(t, object{
			"metadata": object{"namespace": home}, "manifests": []object{configMap("a", v)},
			"deployment": object{"uid": id, "commit": "c", "namespace": home, "kept": kept},
		})}
	}
	first, next := unique("d"), unique("d")
	apply(t, rt, wish(first, 1, "1", false))
	await(t, rt, first, func(o runtime.Observed) bool { return o.Generation == 1 && o.State == runtime.Ready })
	apply(t, rt, wish(first, 2, "1", true))
	await(t, rt, first, func(o runtime.Observed) bool { return o.Generation == 2 && seenOf(o).Kept })
	apply(t, rt, wish(next, 1, "2", false))
	await(t, rt, next, func(o runtime.Observed) bool { return o.Generation == 1 && o.State == runtime.Ready })
	apply(t, rt, runtime.Item{ID: first, Kind: runtime.KindDeployment, Generation: 3, Token: 3, Delete: true})
	await(t, rt, first, func(o runtime.Observed) bool { return o.Generation == 3 && o.State == runtime.Deleted })
	if got := value(t, home, "a"); got != "2" {
		t.Errorf("what was deployed again is %q", got)
	}
	apply(t, rt, runtime.Item{ID: next, Kind: runtime.KindDeployment, Generation: 2, Token: 2, Delete: true})
	await(t, rt, next, func(o runtime.Observed) bool { return o.Generation == 2 && o.State == runtime.Deleted })
	if got := value(t, home, "a"); got == "2" {
		t.Error("what was deployed again is not removed with its deployment")
	}
}
