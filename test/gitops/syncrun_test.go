//go:build e2e

package gitops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// sync makes a GitOpsDeploymentSyncRun and waits until it is known.
func (w *world) sync(t *testing.T, ns, name, spec string) {
	t.Helper()
	w.apply(t, ns, custom(t, "GitOpsDeploymentSyncRun", name, spec))
	w.wait(t, syncruns, ns, name, "known", func(o *thing) bool { return o != nil && argocd.Field(o, "status.phase") != "" })
}

// ended waits until a sync run is in a phase.
func (w *world) ended(t *testing.T, ns, name, phase string) *thing {
	t.Helper()
	return w.wait(t, syncruns, ns, name, phase, argocd.Is(map[string]string{"status.phase": phase}))
}

// outcome is what became of an object of a sync run.
func outcome(o *thing, name string) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "resources")
	for _, one := range list {
		if r, _ := one.(map[string]any); r["name"] == name {
			return fmt.Sprint(r["status"])
		}
	}
	return ""
}

func syncRuns(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "k8s/b.yaml": configMap("b", "1")})
	repo.Tag(t, "v1", first, "")
	w.deploy(t, ns, "shop", of("manual", repo.URL))
	w.wait(t, deployments, ns, "shop", "out of sync", argocd.Is(map[string]string{"status.sync.status": "OutOfSync"}))
	w.value(t, ns, "a", "none")

	w.sync(t, ns, "first", "{gitopsDeploymentName: shop}")
	o := w.ended(t, ns, "first", "Succeeded")
	w.synced(t, ns, "shop", first)
	w.value(t, ns, "a", "1")
	if got := argocd.Field(o, "status.revision"); got != first {
		t.Errorf("the run brought %q, want %s", got, first)
	}
	if got := outcome(o, "a"); got != "Synced" {
		t.Errorf("of a it says %q", got)
	}
	if got := condition(o, "ErrorOccurred"); !strings.HasPrefix(got, "False") {
		t.Errorf("its condition is %q", got)
	}

	// The repository is looked at anew, and without prune nothing goes.
	second := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2"), "k8s/b.yaml": gitserver.Gone()})
	w.sync(t, ns, "second", "{gitopsDeploymentName: shop}")
	if got := argocd.Field(w.ended(t, ns, "second", "Succeeded"), "status.revision"); got != second {
		t.Errorf("the second run brought %q, want %s", got, second)
	}
	w.value(t, ns, "a", "2")
	w.value(t, ns, "b", "1")
	w.sync(t, ns, "prune", "{gitopsDeploymentName: shop, prune: true}")
	o = w.ended(t, ns, "prune", "Succeeded")
	w.value(t, ns, "b", "none")
	// An Argo CD that is killed after it has pruned does not know that when it goes on.
	if got := outcome(o, "b"); got != "Pruned" && !(w.hunted && got == "") {
		t.Errorf("of b it says %q", got)
	}

	// A revision, and in their order: the last one holds.
	w.sync(t, ns, "back", "{gitopsDeploymentName: shop, revisionID: v1}")
	w.sync(t, ns, "fails", "{gitopsDeploymentName: shop, revisionID: there-is-none}")
	w.sync(t, ns, "again", "{gitopsDeploymentName: shop, revisionID: "+second+"}")
	back := w.ended(t, ns, "back", "Succeeded")
	if got := argocd.Field(back, "status.revision"); got != first {
		t.Errorf("the tag brought %q, want %s", got, first)
	}
	fails := w.ended(t, ns, "fails", "Failed")
	if got := condition(fails, "ErrorOccurred"); !strings.HasPrefix(got, "True ErrorOccurred: ") || len(got) < 30 {
		t.Errorf("what failed says %q", got)
	}
	again := w.ended(t, ns, "again", "Succeeded")
	w.value(t, ns, "a", "2")
	if began, before := argocd.Field(again, "status.startedAt"), argocd.Field(back, "status.finishedAt"); began == "" || before == "" || stamp(t, began).Before(stamp(t, before)) {
		t.Errorf("the third began at %s, the first ended at %s", began, before)
	}
}

// syncRunsAtOnce makes several without waiting: they are carried out as they were made,
// though their times have whole seconds and their names another order.
func syncRunsAtOnce(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	names := []string{"e", "b", "d", "a", "c"}
	var commits []string
	for i := range names {
		commits = append(commits, repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", fmt.Sprint(i))}))
	}
	uid := w.deploy(t, ns, "shop", of("manual", repo.URL))
	w.wait(t, deployments, ns, "shop", "out of sync", argocd.Is(map[string]string{"status.sync.status": "OutOfSync"}))
	for i, name := range names {
		w.apply(t, ns, custom(t, "GitOpsDeploymentSyncRun", name, "{gitopsDeploymentName: shop, revisionID: "+commits[i]+"}"))
	}
	var before time.Time
	for i, name := range names {
		o := w.ended(t, ns, name, "Succeeded")
		began := stamp(t, argocd.Field(o, "status.startedAt"))
		if got := argocd.Field(o, "status.revision"); got != commits[i] || began.Before(before) {
			t.Errorf("run %d brought %q at %s, want %s after %s", i, got, began, commits[i], before)
		}
		before = stamp(t, argocd.Field(o, "status.finishedAt"))
	}
	w.value(t, ns, "a", fmt.Sprint(len(names)-1))
	var order []string
	list, _, _ := unstructured.NestedSlice(w.get(t, applications, w.a.Namespace, application(uid)).Object, "status", "history")
	for _, one := range list {
		e, _ := one.(map[string]any)
		order = append(order, fmt.Sprint(e["revision"]))
	}
	if order = slices.Compact(order); !slices.Equal(order, commits) {
		t.Errorf("they were carried out as %q, want %q", order, commits)
	}
}

func stamp(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func syncRunsRefused(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", commit)
	w.sync(t, ns, "run", "{gitopsDeploymentName: shop}")
	o := w.ended(t, ns, "run", "Failed")
	want := "True ErrorOccurred: invalid GitOpsDeploymentSyncRun 'run'. Syncing a GitOpsDeployment with Automated sync policy is not allowed"
	if got := condition(o, "ErrorOccurred"); got != want {
		t.Errorf("the condition is %q, want %q", got, want)
	}
	for change, message := range map[string]string{
		`{"spec":{"gitopsDeploymentName":"other"}}`: "deployment name field is immutable: changing it from its initial value is not supported",
		`{"spec":{"revisionID":"v1"}}`:              "revision change is not supported: changing it from its initial value is not supported",
	} {
		_, err := w.in(syncruns, ns).Patch(t.Context(), "run", types.MergePatchType, []byte(change), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", change, err)
		}
	}
	// It is not in the way of what comes once the deployment is manual.
	w.deploy(t, ns, "shop", of("manual", repo.URL))
	w.sync(t, ns, "next", "{gitopsDeploymentName: shop}")
	w.ended(t, ns, "next", "Succeeded")
}

// stuck is a manifest that a sync waits for and that never becomes ready: there is
// nobody who runs Jobs.
var stuck = gitserver.File(`apiVersion: batch/v1
kind: Job
metadata:
  name: stuck
  annotations: {argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: BeforeHookCreation}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: stuck, image: none}]}
`)

func syncRunsEarlyAndLate(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	waits := repo.Commit(t, "waits", files{"k8s/a.yaml": configMap("a", "2"), "k8s/stuck.yaml": stuck})

	w.sync(t, ns, "early", "{gitopsDeploymentName: shop}")
	w.wait(t, syncruns, ns, "early", "waiting", argocd.Is(map[string]string{"status.phase": "Waiting"}))
	uid := w.deploy(t, ns, "shop", of("manual", repo.URL))
	w.ended(t, ns, "early", "Succeeded")
	w.value(t, ns, "a", "1")

	// One that runs is ended by its deletion, and the next one goes on.
	w.sync(t, ns, "endless", "{gitopsDeploymentName: shop, revisionID: waits}")
	w.ended(t, ns, "endless", "Running")
	w.wait(t, applications, w.a.Namespace, application(uid), "at work", func(o *thing) bool {
		return argocd.Field(o, "status.operationState.phase") == "Running" && argocd.Field(o, "status.operationState.operation.sync.revision") != "" &&
			(argocd.Field(o, "status.operationState.syncResult.revision") == waits)
	})
	w.sync(t, ns, "behind", "{gitopsDeploymentName: shop}")
	w.remove(t, syncruns, ns, "endless")
	w.wait(t, applications, w.a.Namespace, application(uid), "no longer at it", func(o *thing) bool {
		return argocd.Field(o, "status.operationState.syncResult.revision") != waits || argocd.Field(o, "status.operationState.phase") == "Failed"
	})
	w.ended(t, ns, "behind", "Succeeded")
	w.value(t, ns, "a", "1")

	// One that waits is never begun.
	w.sync(t, ns, "endless", "{gitopsDeploymentName: shop, revisionID: waits}")
	w.sync(t, ns, "never", "{gitopsDeploymentName: shop, revisionID: there-is-none}")
	w.ended(t, ns, "endless", "Running")
	w.remove(t, syncruns, ns, "never")
	w.gone(t, syncruns, ns, "never")
	// A deployment that is deleted takes what runs with it.
	w.remove(t, deployments, ns, "shop")
	w.wait(t, applications, w.a.Namespace, application(uid), "gone", func(o *thing) bool {
		if o != nil && w.hunted && o.GetDeletionTimestamp() != nil && time.Since(o.GetDeletionTimestamp().Time) > time.Minute {
			w.unhook(t, ns, "stuck")
		}
		return o == nil
	})
	w.value(t, ns, "a", "none")
	w.ended(t, ns, "endless", "Terminated")
}

// unhook does by hand what Argo CD forgets that was killed while it began a hook: nobody
// takes its finalizer off, and what it belongs to is never gone (docs/argocd.md).
func (w *world) unhook(t *testing.T, ns, name string) {
	t.Helper()
	jobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	o, err := w.in(jobs, ns).Get(t.Context(), name, metav1.GetOptions{})
	if err == nil && o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), "argocd.argoproj.io/hook-finalizer") {
		t.Logf("Argo CD has forgotten the finalizer of its hook %s", name)
		w.patch(t, jobs, ns, name, `{"metadata": {"finalizers": null}}`)
	}
}
