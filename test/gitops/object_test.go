//go:build e2e

package gitops_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

const group = "managed-gitops.redhat.com"

var (
	deployments  = schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "gitopsdeployments"}
	syncruns     = schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "gitopsdeploymentsyncruns"}
	credentials  = schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "gitopsdeploymentrepositorycredentials"}
	environments = schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "gitopsdeploymentmanagedenvironments"}
	operations   = schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "operations"}
	applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	projects     = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "appprojects"}
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	definitions  = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

type thing = unstructured.Unstructured

func object(t *testing.T, text string) *thing {
	t.Helper()
	o := &thing{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

func split(t *testing.T, stream string) (out []*thing) {
	t.Helper()
	for part := range strings.SplitSeq(stream, "\n---\n") {
		if o := object(t, part); len(o.Object) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// apply does what kubectl does, and goes on where something is not there yet.
func (w *world) apply(t *testing.T, namespace string, objects ...*thing) {
	t.Helper()
	for _, o := range objects {
		if err := w.tryApply(t, namespace, o); err != nil {
			t.Fatalf("cannot apply %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// tryApply returns what the API says; troubles of the API itself pass.
func (w *world) tryApply(t *testing.T, namespace string, o *thing) (err error) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var in dynamic.ResourceInterface
		if in, err = w.resource(o, namespace); err == nil {
			_, err = in.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "kubectl", Force: true})
		}
		if err == nil || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
			return err
		}
	}
	return err
}

// resource finds where an object belongs.
func (w *world) resource(o *thing, namespace string) (dynamic.ResourceInterface, error) {
	if o.GetNamespace() == "" && namespace != "" {
		o = o.DeepCopy()
		o.SetNamespace(namespace)
	}
	if gvr, ok := known[o.GetKind()]; ok {
		return w.in(gvr, o.GetNamespace()), nil
	}
	found, err := discovery.NewDiscoveryClientForConfig(w.k.Admin())
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(found)
	if err != nil {
		return nil, err
	}
	m, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if err != nil {
		return nil, err
	}
	if m.Scope.Name() == "root" {
		return w.objects.Resource(m.Resource), nil
	}
	return w.in(m.Resource, o.GetNamespace()), nil
}

// known are the kinds that tests write all the time.
var known = map[string]schema.GroupVersionResource{
	"GitOpsDeployment": deployments, "GitOpsDeploymentSyncRun": syncruns, "GitOpsDeploymentRepositoryCredential": credentials,
	"GitOpsDeploymentManagedEnvironment": environments, "Secret": secrets, "ConfigMap": configMaps,
}

func (w *world) in(r schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	return w.objects.Resource(r).Namespace(namespace)
}

// custom is a custom resource of a namespace.
func custom(t *testing.T, kind, name, spec string) *thing {
	t.Helper()
	return object(t, fmt.Sprintf("{apiVersion: %s/v1alpha1, kind: %s, metadata: {name: %q}, spec: %s}", group, kind, name, spec))
}

// deploy makes or changes a GitOpsDeployment and returns its UID.
func (w *world) deploy(t *testing.T, ns, name, spec string) (uid string) {
	t.Helper()
	w.apply(t, ns, custom(t, "GitOpsDeployment", name, spec))
	return string(w.get(t, deployments, ns, name).GetUID())
}

// of is the spec of a deployment of a repository's directory k8s.
func of(kind, url string) string {
	return fmt.Sprintf("{source: {repoURL: %q, path: k8s, targetRevision: main}, type: %s}", url, kind)
}

// get reads an object that is there.
func (w *world) get(t *testing.T, r schema.GroupVersionResource, ns, name string) *thing {
	t.Helper()
	return w.wait(t, r, ns, name, "there", func(o *thing) bool { return o != nil })
}

// patch merges into an object. A sub-resource is said behind a slash: "name/status".
func (w *world) patch(t *testing.T, r schema.GroupVersionResource, ns, name, change string) {
	t.Helper()
	name, sub, _ := strings.Cut(name, "/")
	var subs []string
	if sub != "" {
		subs = []string{sub}
	}
	if _, err := w.in(r, ns).Patch(t.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{}, subs...); err != nil {
		t.Fatalf("cannot change %s: %v", name, err)
	}
}

// remove deletes what may be gone already.
func (w *world) remove(t *testing.T, r schema.GroupVersionResource, ns, name string) {
	t.Helper()
	if err := w.in(r, ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatalf("cannot delete %s: %v", name, err)
	}
}

// gone waits until there is none.
func (w *world) gone(t *testing.T, r schema.GroupVersionResource, ns, name string) {
	t.Helper()
	w.wait(t, r, ns, name, "gone", func(o *thing) bool { return o == nil })
}

// wait returns an object once it is as the question asks; nil is given where there
// is none. What says what is waited for.
func (w *world) wait(t *testing.T, r schema.GroupVersionResource, ns, name, what string, is func(*thing) bool) *thing {
	t.Helper()
	limit := cmp.Or(w.limit, patience)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	last := w.follow(ctx, w.in(r, ns), name, is)
	if ctx.Err() == nil {
		if took := time.Since(began).Round(100 * time.Millisecond); took > time.Second {
			t.Logf("%s %s is %s after %s", r.Resource, name, what, took)
		}
		return last
	}
	seen := "there is none"
	if last != nil {
		unstructured.RemoveNestedField(last.Object, "metadata", "managedFields")
		text, _ := yaml.Marshal(last.Object)
		seen = string(text)
	}
	t.Fatalf("%s %s: not %s after %s; it is:\n%s", r.Resource, name, what, limit, seen)
	return nil
}

// follow watches until it is so, or until the context ends.
func (w *world) follow(ctx context.Context, in dynamic.ResourceInterface, name string, is func(*thing) bool) (last *thing) {
	only := fields.OneTermEqualSelector("metadata.name", name).String()
	for ctx.Err() == nil { // a watch ends with its server
		list, err := in.List(ctx, metav1.ListOptions{FieldSelector: only})
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond): // between questions to a server that does not answer
			}
			continue
		}
		last = nil
		if len(list.Items) > 0 {
			last = &list.Items[0]
		}
		if is(last) {
			return last
		}
		seen, err := in.Watch(ctx, metav1.ListOptions{FieldSelector: only, ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			continue
		}
		for e := range seen.ResultChan() {
			o, ok := e.Object.(*thing)
			if !ok || e.Type == watch.Error {
				break
			}
			if last = o; e.Type == watch.Deleted {
				last = nil
			}
			if is(last) {
				seen.Stop()
				return last
			}
		}
		seen.Stop()
	}
	return last
}

// synced waits until a GitOpsDeployment has brought a commit to the cluster.
func (w *world) synced(t *testing.T, ns, name, commit string) *thing {
	t.Helper()
	return w.wait(t, deployments, ns, name, "synced to "+commit, func(o *thing) bool {
		return argocd.Synced(commit)(o)
	})
}

// condition is one of an object's: "True Reason: message"; empty: it has none of
// this type.
func condition(o *thing, kind string) string {
	if o == nil {
		return ""
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range list {
		c, _ := one.(map[string]any)
		if c["type"] == kind {
			message, _ := c["message"].(string)
			return fmt.Sprintf("%v %v: %s", c["status"], c["reason"], message)
		}
	}
	return ""
}

// says waits until a condition of an object has a text.
func (w *world) says(t *testing.T, r schema.GroupVersionResource, ns, name, kind, text string) *thing {
	t.Helper()
	return w.wait(t, r, ns, name, fmt.Sprintf("%s %q", kind, text), func(o *thing) bool { return strings.Contains(condition(o, kind), text) })
}

// value waits until a ConfigMap has one; "none": it is not there.
func (w *world) value(t *testing.T, ns, name, want string) {
	t.Helper()
	w.wait(t, configMaps, ns, name, want, func(o *thing) bool {
		if o == nil {
			return want == "none"
		}
		return argocd.Field(o, "data.value") == want
	})
}

// configMap is a manifest.
func configMap(name, value string) gitserver.Entry {
	return gitserver.File(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  value: %q\n", name, value))
}

type files = map[string]gitserver.Entry

// application is the name of a deployment's Application.
func application(uid string) string { return "gitopsdepl-" + uid }

// listed are the resources of a deployment's status: "ConfigMap/a Synced Healthy".
func listed(o *thing) (out []string) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "resources")
	for _, one := range list {
		r, _ := one.(map[string]any)
		text := fmt.Sprintf("%v/%v %v", r["kind"], r["name"], r["status"])
		if health, ok := r["health"].(map[string]any); ok {
			text += fmt.Sprintf(" %v", health["status"])
		}
		out = append(out, text)
	}
	return out
}

// decode reads what the command line prints as JSON.
func decode[T any](t *testing.T, text string) (out T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}
