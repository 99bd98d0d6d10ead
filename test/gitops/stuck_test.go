//go:build e2e

package gitops_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// at is the spec of an automated deployment of a directory.
func at(url, path string) string {
	return fmt.Sprintf("{source: {repoURL: %q, path: %s, targetRevision: main}, type: automated}", url, path)
}

// held is a manifest that nobody lets go.
func held(name string) gitserver.Entry {
	return gitserver.File(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  finalizers: [example.com/held]\ndata: {value: \"1\"}\n", name))
}

// finalizerStuck: an object whose finalizer nobody removes holds up its own
// deployment and no other, and is named.
func finalizerStuck(t *testing.T, w *world) {
	t.Run("beside Argo CD", func(t *testing.T) {
		ns := w.namespace(t)
		repo := w.git.Repo(t, ns)
		first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "k8s/z.yaml": held("kept"), "other/b.yaml": configMap("b", "1")})
		uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
		w.patch(t, deployments, ns, "shop", `{"metadata":{"finalizers":["`+finalizer+`"]}}`)
		w.deploy(t, ns, "other", at(repo.URL, "other"))
		w.synced(t, ns, "shop", first)
		w.synced(t, ns, "other", first)
		w.remove(t, deployments, ns, "shop")
		w.value(t, ns, "a", "none")
		// For a moment it may name what has only just gone.
		o := w.wait(t, deployments, ns, "shop", "waiting for what is held, and for nothing that is gone", func(o *thing) bool {
			said := condition(o, "DeletionError")
			return strings.Contains(said, "ConfigMap kept") && !strings.Contains(troubles(o), "ConfigMap a")
		})
		t.Logf("it says %s", troubles(o))

		// The others of the tenant go on, and so do new ones.
		second := repo.Commit(t, "main", files{"other/b.yaml": configMap("b", "2"), "third/c.yaml": configMap("c", "2")})
		w.push(t, repo, "main", w.pushSecret(t))
		w.synced(t, ns, "other", second)
		third := w.deploy(t, ns, "third", at(repo.URL, "third"))
		w.synced(t, ns, "third", second)
		w.remove(t, deployments, ns, "third")
		w.gone(t, applications, w.a.Namespace, application(third))
		w.value(t, ns, "c", "none")
		if o := w.get(t, deployments, ns, "shop"); o.GetDeletionTimestamp() == nil || string(o.GetUID()) != uid {
			t.Errorf("the stuck one is %v", o.Object["metadata"])
		}
		w.get(t, applications, w.a.Namespace, application(uid))
		w.get(t, configMaps, ns, "kept")

		w.patch(t, configMaps, ns, "kept", `{"metadata":{"finalizers":null}}`)
		w.gone(t, deployments, ns, "shop")
		w.gone(t, applications, w.a.Namespace, application(uid))
		w.value(t, ns, "kept", "none")
		w.value(t, ns, "b", "2")
	})
	t.Run("without Argo CD", func(t *testing.T) {
		ns := w.namespace(t)
		name := "stuck" + ns[len(ns)-6:]
		repo := w.git.Repo(t, ns)
		repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "k8s/z.yaml": held("kept"), "other/b.yaml": configMap("b", "1")})
		w.run(t, "deploy", "create", name, "--repo", repo.URL, "--path", "k8s", "--to", "plain/"+ns, "--wait")
		w.run(t, "deploy", "delete", name, "--yes")
		until(t, "it to say what it waits for", func() bool {
			text := w.run(t, "deploy", "status", name)
			return strings.Contains(text, "is deleting") && strings.Contains(text, "DeletionError: ") && strings.Contains(text, "example.com/held")
		})
		t.Log(w.run(t, "deploy", "status", name))
		w.run(t, "deploy", "create", name+"-too", "--repo", repo.URL, "--path", "other", "--to", "plain/"+ns, "--wait")
		w.run(t, "deploy", "delete", name+"-too", "--yes", "--wait")
		w.patch(t, configMaps, ns, "kept", `{"metadata":{"finalizers":null}}`)
		w.value(t, ns, "kept", "none")
		until(t, "its end", func() bool { _, _, code := w.try(t, "deploy", "status", name); return code == notFound })
	})
}

// manifestsRefused: what cannot be applied is told, takes nothing away, and is
// tried again when it may be right.
func manifestsRefused(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	group := ns + ".example.com"
	herd := gitserver.File(fmt.Sprintf("apiVersion: %s/v1\nkind: Herd\nmetadata: {name: h}\nspec: {heads: 3}\n", group))
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", first)
	secret := w.pushSecret(t)
	for _, c := range []struct {
		reason, kind, says string
		file               gitserver.Entry
	}{
		{"it is no YAML", "ComparisonError", "", gitserver.File("apiVersion: v1\nkind: ConfigMap\nmetadata: [\n")},
		{"the API does not take it", "SyncError", "", gitserver.File("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {value: [1]}\n")},
		{"its kind is not there", "SyncError", group, herd},
	} {
		repo.Commit(t, "main", files{"k8s/b.yaml": c.file})
		w.push(t, repo, "main", secret)
		o := w.wait(t, deployments, ns, "shop", c.reason, func(o *thing) bool {
			got := condition(o, c.kind)
			return strings.HasPrefix(got, "True") && strings.Contains(got, c.says)
		})
		t.Logf("%s: %s", c.reason, troubles(o))
		w.value(t, ns, "a", "1")
		if c.kind == "ComparisonError" {
			continue
		}
		good := repo.Commit(t, "main", files{"k8s/b.yaml": configMap("b", c.kind)})
		w.push(t, repo, "main", secret)
		w.synced(t, ns, "shop", good)
		w.says(t, deployments, ns, "shop", c.kind, "False "+c.kind+"Resolved")
	}

	// A kind that comes later is found, without another commit.
	repo.Commit(t, "main", files{"other/h.yaml": herd, "other/c.yaml": configMap("c", "1")})
	w.deploy(t, ns, "early", at(repo.URL, "other"))
	plain := "early" + ns[len(ns)-6:]
	w.run(t, "deploy", "create", plain, "--repo", repo.URL, "--path", "other", "--to", "plain/"+w.namespace(t))
	w.refuses(t, ns, "early", group)
	until(t, "the one without Argo CD to say so", func() bool {
		text := w.run(t, "deploy", "status", plain)
		return strings.Contains(text, "Herd")
	})
	t.Log(w.run(t, "deploy", "status", plain))
	w.apply(t, "", object(t, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: herds.%s}, spec: {group: %s, scope: Namespaced,
		names: {kind: Herd, plural: herds, singular: herd}, versions: [{name: v1, served: true, storage: true,
		schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`, group, group)))
	t.Cleanup(func() {
		_ = w.objects.Resource(definitions).Delete(context.Background(), "herds."+group, metav1.DeleteOptions{})
	})
	w.wait(t, deployments, ns, "early", "there", argocd.Is(map[string]string{"status.sync.status": "Synced"}))
	w.value(t, ns, "c", "1")
	until(t, "the one without Argo CD to be there", func() bool { return w.state(t, plain).Sync == "Synced" })
	w.run(t, "deploy", "delete", plain, "--yes", "--wait")
	w.remove(t, deployments, ns, "early")
	w.value(t, ns, "c", "none")
}
