//go:build e2e

package gitops_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// diff waits until the command line shows all of the lines.
func (w *world) diff(t *testing.T, name string, lines ...string) (text string) {
	t.Helper()
	until(t, "a diff with "+strings.Join(lines, " and "), func() bool {
		text = w.run(t, "deploy", "diff", name)
		for _, line := range lines {
			if !strings.Contains(text, line) {
				return false
			}
		}
		return true
	})
	return text
}

// byHand changes an object as people do: what other programs manage is theirs.
func (w *world) byHand(t *testing.T, r schema.GroupVersionResource, ns, name, change string) {
	t.Helper()
	until(t, name+" to be changed", func() bool {
		_, err := w.in(r, ns).Patch(t.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{FieldManager: "kubectl-edit"})
		return err == nil
	})
}

// differences has a manual deployment by either runtime, and objects that are not as
// Git has them.
func differences(t *testing.T, w *world) {
	secret := func(value string) gitserver.Entry {
		return gitserver.File("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: " + value + "}\n")
	}
	for _, cluster := range []string{"edge", "plain"} {
		t.Run("on "+cluster, func(t *testing.T) {
			ns := w.namespace(t)
			name := "diff-" + cluster + ns[len(ns)-6:]
			repo := w.git.Repo(t, ns)
			repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "k8s/b.yaml": configMap("b", "1"), "k8s/s.yaml": secret("TOPSECRET1")})
			w.run(t, "deploy", "create", name, "--repo", repo.URL, "--path", "k8s", "--revision", "main", "--to", cluster+"/"+ns, "--manual")
			text := w.diff(t, name, "ConfigMap "+ns+"/a is to be created", `+  value: "1"`, "Secret "+ns+"/s is to be created", "+  password: (hidden)")
			t.Log(text)
			until(t, "it to be out of sync", func() bool { return w.state(t, name).Phase == "outofsync" })
			w.run(t, "deploy", "sync", name, "--wait")
			w.value(t, ns, "a", "1")
			until(t, "it to be in sync", func() bool { s := w.state(t, name); return s.Sync == "Synced" && len(s.Diff) == 0 })

			// By hand: it is told, and stays.
			w.byHand(t, configMaps, ns, "a", `{"data":{"value":"by hand"}}`)
			w.byHand(t, secrets, ns, "s", `{"stringData":{"password":"TOPSECRET2"}}`)
			text = w.diff(t, name, "ConfigMap "+ns+"/a is to be changed", "-  value: by hand\n+  value: \"1\"", "Secret "+ns+"/s is to be changed\n", "-  password: (hidden)\n+  password: (hidden, and another one)")
			t.Log(text)
			if all := text + w.run(t, "deploy", "status", name, "-o", "json"); strings.Contains(all, "TOPSECRET") || strings.Contains(all, "VE9QU0VDUkVU") {
				t.Error("a Secret's value is shown")
			}
			w.value(t, ns, "a", "by hand")

			// A commit without b.
			repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2"), "k8s/b.yaml": gitserver.Gone()})
			w.run(t, "deploy", "refresh", name)
			w.diff(t, name, "-  value: by hand\n+  value: \"2\"", "ConfigMap "+ns+"/b is to be removed by a sync with --prune")
			w.run(t, "deploy", "sync", name, "--wait")
			w.value(t, ns, "a", "2")
			w.value(t, ns, "b", "1")
			w.diff(t, name, "ConfigMap "+ns+"/b is to be removed by a sync with --prune")
			w.run(t, "deploy", "sync", name, "--prune", "--wait")
			w.value(t, ns, "b", "none")
			until(t, "nothing to differ", func() bool { s := w.state(t, name); return s.Sync == "Synced" && len(s.Diff) == 0 })
			w.run(t, "deploy", "delete", name, "--yes", "--wait")
			w.value(t, ns, "a", "none")
		})
	}
}

// putRightIsTold has things changed behind the back of either runtime.
func putRightIsTold(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	told := func(name, what string) {
		t.Helper()
		until(t, "status to say "+what, func() bool { return strings.Contains(w.run(t, "deploy", "status", name), ": "+what) })
		if h := w.state(t, name).Healed; h == nil || h.At.IsZero() {
			t.Errorf("by REST: %+v", h)
		}
	}
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", commit)
	w.patch(t, applications, w.a.Namespace, application(uid), `{"spec":{"source":{"path":"elsewhere"}}}`)
	told(uid, "the Application was changed")
	until(t, "an event at the custom resource", func() bool {
		list, err := w.k.Client(t).CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		for _, e := range list.Items {
			if e.Reason == "PutRight" && string(e.InvolvedObject.UID) == uid && e.Type == corev1.EventTypeNormal && strings.Contains(e.Message, "the Application was changed") {
				return true
			}
		}
		return false
	})

	other := w.namespace(t)
	name := "heal" + other[len(other)-6:]
	w.run(t, "deploy", "create", name, "--repo", repo.URL, "--path", "k8s", "--revision", "main", "--to", "plain/"+other, "--wait")
	w.remove(t, configMaps, other, "a")
	told(name, "the ConfigMap "+other+"/a was deleted")
	w.value(t, other, "a", "1")
}

// completed waits until so many Operations of a resource are shown to have ended well.
func (w *world) completed(t *testing.T, resource, kind string, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d operations of a %s", n, kind), func() bool {
		list, err := w.in(operations, w.a.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		found := 0
		for _, o := range list.Items {
			field := func(path string) string { return argocd.Field(&o, path) }
			if field("spec.resource") == resource && field("spec.resourceType") == kind && field("status.state") == "Completed" && field("spec.instance") == "edge/"+w.a.Namespace &&
				field("spec.owner") != "" && field("spec.operationID") != "" && field("status.finishedAt") != "" {
				found++
			}
		}
		return found == n
	})
}

// operationsOfAll are shown of syncs and of removals, in Argo CD's namespace and by
// the control plane.
func operationsOfAll(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	uid := w.deploy(t, ns, "shop", of("manual", repo.URL))
	w.sync(t, ns, "first", "{gitopsDeploymentName: shop}")
	run := string(w.ended(t, ns, "first", "Succeeded").GetUID())
	w.synced(t, ns, "shop", commit)
	w.completed(t, uid, "GitOpsDeployment", 1)
	w.completed(t, run, "GitOpsDeploymentSyncRun", 1)
	w.remove(t, deployments, ns, "shop")
	w.value(t, ns, "a", "none")
	w.completed(t, uid, "GitOpsDeployment", 2)
	var ours []v1.Object
	until(t, "the operations of the control plane", func() bool {
		ours = nil
		for _, o := range decode[struct{ Items []v1.Object }](t, w.run(t, "get", "operations", "--size", "1000", "-o", "json")).Items {
			var spec struct {
				Type, Instance, Of string
				Subject            struct{ ID string }
			}
			if json.Unmarshal(o.Spec, &spec) == nil && (spec.Subject.ID == uid || spec.Subject.ID == run) && spec.Instance == "edge" && spec.Of != "" && o.Phase == "succeeded" {
				ours = append(ours, o)
			}
		}
		return len(ours) == 3
	})
	t.Log(w.run(t, "get", "operations", "--size", "3"))
}
