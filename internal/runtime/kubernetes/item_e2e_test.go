//go:build e2e

package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "k8s.io/client-go/kubernetes"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

func gone(t *testing.T, get func() error) bool {
	t.Helper()
	err := get()
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err != nil
}

func TestNamespaceComesAndGoesWithItsItem(t *testing.T) {
	rt, c := open(t, system(t)), client(t)
	id := unique("own")
	apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, configMap("a", "1"), configMap("b", "1"))})
	await(t, rt, id, is(1, runtime.Ready))
	ns := "drover-" + id
	if _, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 1, Body: manifests(t, configMap("a", "2"))})
	await(t, rt, id, is(2, runtime.Ready))
	if !gone(t, func() error {
		_, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "b", metav1.GetOptions{})
		return err
	}) {
		t.Error("what the second generation has not was not pruned")
	}
	apply(t, rt, runtime.Item{ID: id, Generation: 3, Token: 1, Delete: true})
	await(t, rt, id, is(3, runtime.Deleted))
	if !gone(t, func() error { _, err := c.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); return err }) {
		t.Error("it is told as deleted, and its namespace is there")
	}
}

func TestNamespaceOfOthersStays(t *testing.T) {
	rt, c := open(t, system(t)), client(t)
	ns := unique("theirs")
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	id := unique("guest")
	doc := object{"metadata": object{"namespace": ns}, "manifests": []object{configMap("a", "1")}}
	apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: body(t, doc)})
	await(t, rt, id, is(1, runtime.Ready))
	apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 1, Delete: true})
	await(t, rt, id, is(2, runtime.Deleted))
	got, err := c.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	if err != nil || got.DeletionTimestamp != nil || got.Labels["drover.dev/owner"] != "" {
		t.Errorf("a namespace that was there before: %+v, %v", got, err)
	}
}

// A namespace that one item made and another moved into stays with the other.
func TestNamespaceIsSharedByItems(t *testing.T) {
	rt, c := open(t, system(t)), client(t)
	ns, first, second := unique("shared"), unique("first"), unique("second")
	for _, id := range []string{first, second} {
		apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: body(t, object{"metadata": object{"namespace": ns}, "manifests": []object{configMap(id, "1")}})})
		await(t, rt, id, is(1, runtime.Ready))
	}
	apply(t, rt, runtime.Item{ID: first, Generation: 2, Token: 1, Delete: true})
	await(t, rt, first, is(2, runtime.Deleted))
	if _, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), second, metav1.GetOptions{}); err != nil {
		t.Errorf("the other's object: %v", err)
	}
	if got, err := c.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); err != nil || got.DeletionTimestamp != nil {
		t.Errorf("the namespace: %v, %v", got, err)
	}
}

func TestDriftIsPutRight(t *testing.T) {
	rt, c := open(t, system(t)), client(t)
	id := unique("drift")
	ns := "drover-" + id
	apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, configMap("changed", "1"), configMap("removed", "1"))})
	await(t, rt, id, is(1, runtime.Ready))
	maps := c.CoreV1().ConfigMaps(ns)
	if err := maps.Delete(t.Context(), "removed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was removed by hand is back", func() bool {
		_, err := maps.Get(t.Context(), "removed", metav1.GetOptions{})
		return err == nil
	})
	hand := []byte(`{"data":{"k":"by hand"}}`)
	if _, err := maps.Patch(t.Context(), "changed", types.MergePatchType, hand, metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was changed by hand is put right", func() bool {
		m, err := maps.Get(t.Context(), "changed", metav1.GetOptions{})
		return err == nil && m.Data["k"] == "1"
	})
	// By a program that takes the field over: it is told, since neither may win for ever.
	patch := []byte(`{"data":{"k":"by hand"}}`)
	if _, err := maps.Patch(t.Context(), "changed", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "someone"}); err != nil {
		t.Fatal(err)
	}
	await(t, rt, id, says(runtime.Error, "someone", "data.k"))
	// With force the document wins over programs too.
	forced := body(t, object{"force": true, "manifests": []object{configMap("changed", "1"), configMap("removed", "1")}})
	apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 1, Body: forced})
	await(t, rt, id, is(2, runtime.Ready))
	if _, err := maps.Patch(t.Context(), "changed", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "someone"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what a program changed is put right", func() bool {
		m, err := maps.Get(t.Context(), "changed", metav1.GetOptions{})
		return err == nil && m.Data["k"] == "1"
	})
	// While the agent is away nobody tells it; it looks when it comes back and has
	// said what it kept.
	rt.Close()
	if err := maps.Delete(t.Context(), "changed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 1, Body: forced}) // begins again
	eventually(t, "what was removed meanwhile is back", func() bool {
		_, err := maps.Get(t.Context(), "changed", metav1.GetOptions{})
		return err == nil
	})
}

func TestOthersObjectsAreNeitherTakenNorPruned(t *testing.T) {
	rt, c := open(t, system(t)), client(t)
	ns, id := unique("busy"), unique("late")
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "theirs"}}
	if _, err := c.CoreV1().ConfigMaps(ns).Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: body(t, object{"metadata": object{"namespace": ns}, "manifests": []object{configMap("a", "ours")}})})
	await(t, rt, id, says(runtime.Error, "a is there already"))
	apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 1, Delete: true})
	await(t, rt, id, is(2, runtime.Deleted))
	if m, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "a", metav1.GetOptions{}); err != nil || m.Data["k"] != "theirs" {
		t.Errorf("another's object: %v, %v", m, err)
	}
}

var errKilled = errors.New("the agent was killed")

// An agent that dies at any write leaves nothing that the next one does not
// find: what is made is listed before.
func TestKilledAtEveryWrite(t *testing.T) {
	c := client(t)
	for at := int64(1); ; at++ {
		sys, id := system(t), unique("killed")
		var writes atomic.Int64
		dying := func(cfg *kubernetes.Config) {
			cfg.Wrap = func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					// The write at which it dies arrives, and its answer does not.
					write := r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == ""
					if n := writes.Load(); n >= at {
						return nil, errKilled
					}
					res, err := next.RoundTrip(r)
					if write && writes.Add(1) == at {
						return nil, errKilled
					}
					return res, err
				})
			}
		}
		first := open(t, sys, dying, func(cfg *kubernetes.Config) { cfg.Home = sys })
		one := runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, configMap("a", "1"), configMap("b", "1"))}
		two := runtime.Item{ID: id, Generation: 2, Token: 2, Body: manifests(t, configMap("b", "2"), configMap("c", "2"))}
		died := first.Apply(t.Context(), one) != nil
		if !died {
			eventually(t, "it is ready or dead", func() bool { return ready(t, first, id, 1) || writes.Load() >= at })
			died = first.Apply(t.Context(), two) != nil
		}
		if !died {
			eventually(t, "it is ready or dead", func() bool { return ready(t, first, id, 2) || writes.Load() >= at })
		}
		complete := writes.Load() < at
		first.Close()
		second := open(t, sys, func(cfg *kubernetes.Config) { cfg.Home = sys })
		apply(t, second, two)
		await(t, second, id, is(2, runtime.Ready))
		names := objects(t, c, sys, id)
		if strings.Join(names, " ") != "b c" {
			t.Errorf("killed at write %d: %v are there, want b and c", at, names)
		}
		apply(t, second, runtime.Item{ID: id, Generation: 3, Token: 3, Delete: true})
		await(t, second, id, is(3, runtime.Deleted))
		if names := objects(t, c, sys, id); len(names) > 0 {
			t.Errorf("killed at write %d: %v are left", at, names)
		}
		second.Close()
		if complete {
			if at < 7 {
				t.Errorf("only %d writes were cut short", at-1)
			}
			return
		}
	}
}

func ready(t *testing.T, rt runtime.Runtime, id string, generation int64) bool {
	all, err := rt.Observe(t.Context())
	for _, o := range all {
		if err == nil && o.ID == id && is(generation, runtime.Ready)(o) {
			return true
		}
	}
	return false
}

// objects of an owner, by name.
func objects(t *testing.T, c kube.Interface, namespace, owner string) (names []string) {
	t.Helper()
	all, err := c.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "drover.dev/owner=" + owner})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all.Items {
		names = append(names, m.Name)
	}
	return names
}

// A body that no Secret can hold is kept in several.
func TestLargeBody(t *testing.T) {
	sys := system(t)
	rt := open(t, sys, func(cfg *kubernetes.Config) { cfg.Home, cfg.Vigil = sys, time.Second })
	id := unique("large")
	noise := make([]byte, 600<<10)
	for i := range noise {
		noise[i] = 'a' + byte(rand.IntN(26))
	}
	big := []object{configMap("a", string(noise)), configMap("b", string(noise[1:])+"x"), configMap("c", string(bytes.ToUpper(noise)))}
	apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, big...)})
	await(t, rt, id, is(1, runtime.Ready))
	rt.Close()
	if _, err := rt.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, rt, id, is(1, runtime.Ready))
	parts, err := client(t).CoreV1().Secrets(sys).List(t.Context(), metav1.ListOptions{LabelSelector: "drover.dev/keeps=part"})
	if err != nil || len(parts.Items) == 0 {
		t.Fatalf("no parts: %v", err)
	}
	secrets, part := client(t).CoreV1().Secrets(sys), parts.Items[0]
	other := part.DeepCopy()
	other.ResourceVersion, other.Data = "", map[string][]byte{"data": []byte("something else")}
	if _, err := secrets.Update(t.Context(), other, metav1.UpdateOptions{}); err == nil {
		t.Error("a part can be changed in place")
	}
	if err := secrets.Delete(t.Context(), part.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other.UID, other.Immutable = "", nil
	if _, err := secrets.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was put in place of a part is gone", func() bool {
		_, err := secrets.Get(t.Context(), part.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	rt.Close()
	if _, err := rt.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, rt, id, is(1, runtime.Ready))
	apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 1, Delete: true})
	await(t, rt, id, is(2, runtime.Deleted))
	if err := rt.Forget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	left, err := client(t).CoreV1().Secrets(sys).List(context.Background(), metav1.ListOptions{LabelSelector: "drover.dev/keeps"})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d Secrets are left after Forget, %v", len(left.Items), err)
	}
}

// What lay in a Secret is not applied before somebody vouches for it: whoever can
// write there would otherwise have the agent's rights.
func TestKeptItemsWaitUntilTheyAreTold(t *testing.T) {
	sys, id, other := system(t), unique("told"), unique("other")
	home := func(cfg *kubernetes.Config) { cfg.Home = sys }
	item := runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, configMap("a", "1"))}
	first := open(t, sys, home)
	apply(t, first, item)
	await(t, first, id, is(1, runtime.Ready))
	first.Close()
	c := client(t)
	if err := c.CoreV1().ConfigMaps(sys).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second := open(t, sys, home, func(cfg *kubernetes.Config) { cfg.Workers = 1 })
	if all, err := second.Observe(t.Context()); err != nil || len(all) != 1 || all[0].State != runtime.Ready {
		t.Errorf("it is told as %v (%v), not as it was seen last", all, err)
	}
	apply(t, second, runtime.Item{ID: other, Generation: 1, Token: 1, Body: manifests(t, configMap("b", "1"))})
	await(t, second, other, is(1, runtime.Ready)) // the one worker has come by
	if names := objects(t, c, sys, id); len(names) > 0 {
		t.Errorf("%v are made before anybody asked", names)
	}
	apply(t, second, item)
	eventually(t, "it is there again", func() bool { return len(objects(t, c, sys, id)) == 1 })
}
