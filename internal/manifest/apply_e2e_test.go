//go:build e2e

package manifest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
)

type object = map[string]any

func configMap(name, value string) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name}, "data": object{"k": value}}
}

func namespace(name string) object {
	return object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name}}
}

// place is a namespace of the test's own.
func place() string {
	return fmt.Sprintf("m-%x", time.Now().UnixNano())
}

// fresh makes the namespace and returns its name.
func fresh(t *testing.T, c *manifest.Client) string {
	t.Helper()
	ns := place()
	u := &unstructured.Unstructured{Object: namespace(ns)}
	if err := c.Kube().Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Kube().Delete(context.Background(), u) })
	return ns
}

func get(t *testing.T, c *manifest.Client, id string) *unstructured.Unstructured {
	t.Helper()
	parsed, err := manifest.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Look(t.Context(), parsed)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// writes counts requests that could change something.
func writes(n *atomic.Int64) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" {
				n.Add(1)
			}
			return next.RoundTrip(r)
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestApplyTwiceWritesOnce(t *testing.T) {
	var n atomic.Int64
	c := open(t, writes(&n))
	ns := place()
	set := manifest.Set{Owner: "one", Namespace: ns, Objects: []map[string]any{
		configMap("a", "1"), namespace(ns),
		{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "s"}, "stringData": object{"password": "hidden"}},
		{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "web"}, "spec": object{"selector": object{"app": "web"}, "ports": []any{object{"port": 80}}}},
		{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "web"}, "spec": object{
			"selector": object{"matchLabels": object{"app": "web"}},
			"template": object{"metadata": object{"labels": object{"app": "web"}}, "spec": object{"containers": []any{object{"name": "web", "image": "web:1", "ports": []any{object{"containerPort": 80}}}}}}}},
	}}
	first, err := c.Apply(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/ConfigMap/" + ns + "/a", "/Namespace//" + ns, "/Secret/" + ns + "/s", "/Service/" + ns + "/web", "apps/Deployment/" + ns + "/web"}
	if diff := cmp.Diff(want, first.Inventory); diff != "" {
		t.Errorf("inventory: %s", diff)
	}
	if len(first.Created) != 5 || n.Load() != 5 {
		t.Errorf("the first time created %v with %d writes", first.Created, n.Load())
	}
	n.Store(0)
	again, err := c.Apply(t.Context(), set)
	if err != nil || len(again.Created)+len(again.Changed) != 0 || n.Load() != 0 {
		t.Errorf("the second time: %+v, %v, %d writes", again, err, n.Load())
	}
	set.Objects[0] = configMap("a", "2")
	changed, err := c.Apply(t.Context(), set)
	if diff := cmp.Diff([]string{want[0]}, changed.Changed); err != nil || diff != "" || n.Load() != 1 {
		t.Errorf("after a change: %v, %s, %d writes", err, diff, n.Load())
	}
	gone, err := c.Prune(t.Context(), manifest.Pruning{Owner: "one", Before: first.Inventory})
	if err != nil || len(gone.Kept) != 1 || gone.Kept[0] != want[1] {
		t.Errorf("prune without the namespace: %+v, %v", gone, err)
	}
	if get(t, c, want[1]) == nil {
		t.Error("the namespace went without being told to")
	}
	for done := false; !done; {
		if gone, err = c.Prune(t.Context(), manifest.Pruning{Owner: "one", Before: first.Inventory, Namespaces: true}); err != nil {
			t.Fatal(err)
		}
		done = gone.Done()
	}
	if get(t, c, want[1]) != nil {
		t.Error("the namespace is still there")
	}
}

func TestOthersObjectsAreLeftAlone(t *testing.T) {
	c := open(t, nil)
	ns := fresh(t, c)
	stranger := &unstructured.Unstructured{Object: configMap("theirs", "x")}
	stranger.SetNamespace(ns)
	if err := c.Kube().Create(t.Context(), stranger); err != nil {
		t.Fatal(err)
	}
	_, err := c.Apply(t.Context(), manifest.Set{Owner: "one", Namespace: ns, Force: true, Objects: []map[string]any{configMap("theirs", "y"), configMap("ours", "y")}})
	if !fault.Is(err, fault.Conflict) || fault.Reason(err) != "not-ours" || !strings.Contains(err.Error(), "theirs") {
		t.Errorf("an object without owner: %v", err)
	}
	if get(t, c, "/ConfigMap/"+ns+"/ours") != nil {
		t.Error("a refused stage was written in part")
	}
	if _, err := c.Apply(t.Context(), manifest.Set{Owner: "one", Namespace: ns, Objects: []map[string]any{configMap("ours", "y")}}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Apply(t.Context(), manifest.Set{Owner: "two", Namespace: ns, Force: true, Adopt: true, Objects: []map[string]any{configMap("ours", "z")}})
	if fault.Reason(err) != "not-ours" || !strings.Contains(err.Error(), "belongs to one") {
		t.Errorf("an object of another owner: %v", err)
	}
	gone, err := c.Prune(t.Context(), manifest.Pruning{Owner: "two", Before: []string{"/ConfigMap/" + ns + "/ours", "/ConfigMap/" + ns + "/theirs", "/ConfigMap/" + ns + "/never"}})
	if err != nil || len(gone.Others) != 2 || len(gone.Gone) != 1 {
		t.Errorf("prune of another's: %+v, %v", gone, err)
	}
	for _, name := range []string{"ours", "theirs"} {
		if get(t, c, "/ConfigMap/"+ns+"/"+name) == nil {
			t.Errorf("%s was removed", name)
		}
	}
}

func TestFieldConflictIsNamed(t *testing.T) {
	c := open(t, nil)
	ns := fresh(t, c)
	set := manifest.Set{Owner: "one", Namespace: ns, Objects: []map[string]any{configMap("a", "1")}}
	if _, err := c.Apply(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	other := &unstructured.Unstructured{Object: configMap("a", "2")}
	other.SetNamespace(ns)
	if err := c.Kube().Patch(t.Context(), other, client.Apply, client.ForceOwnership, client.FieldOwner("somebody-elses-operator")); err != nil { //nolint:staticcheck // untyped
		t.Fatal(err)
	}
	_, err := c.Apply(t.Context(), set)
	if !fault.Is(err, fault.Conflict) || fault.Reason(err) != "field-conflict" || !strings.Contains(err.Error(), "somebody-elses-operator") || !strings.Contains(err.Error(), "data.k") {
		t.Errorf("got %v", err)
	}
	set.Force = true
	if _, err := c.Apply(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if v, _, _ := unstructured.NestedString(get(t, c, "/ConfigMap/"+ns+"/a").Object, "data", "k"); v != "1" {
		t.Errorf("forced: %q", v)
	}
}

func definition(group string) object {
	return object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "herds." + group},
		"spec": object{"group": group, "scope": "Namespaced", "names": object{"kind": "Herd", "plural": "herds", "singular": "herd"},
			"versions": []any{object{"name": "v1", "served": true, "storage": true, "subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}
}

func TestDefinitionAndItsObjectsInOneSet(t *testing.T) {
	c := open(t, nil)
	ns := fresh(t, c)
	group := ns + ".example.com"
	herd := object{"apiVersion": group + "/v1", "kind": "Herd", "metadata": object{"name": "h"}, "spec": object{"heads": 40}}
	_, err := c.Apply(t.Context(), manifest.Set{Owner: "one", Namespace: ns, Objects: []map[string]any{herd}})
	if !fault.Is(err, fault.Invalid) || fault.Reason(err) != "no-such-kind" {
		t.Errorf("before its definition: %v", err)
	}
	res, err := c.Apply(t.Context(), manifest.Set{Owner: "one", Namespace: ns, Objects: []map[string]any{herd, definition(group)}})
	if err != nil || len(res.Created) != 2 {
		t.Fatalf("with its definition: %+v, %v", res, err)
	}
	check := manifest.Checking{Inventory: res.Inventory, Ready: `objects.exists(o, o.kind == "Herd" && o.status.heads == o.spec.heads)`}
	h, err := c.Health(t.Context(), check)
	if err != nil || h.Ready {
		t.Errorf("without a status: %+v, %v", h, err)
	}
	o := get(t, c, group+"/Herd/"+ns+"/h")
	o.Object["status"] = object{"heads": int64(40)}
	if err := c.Kube().Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if h, err = c.Health(t.Context(), check); err != nil || !h.Ready {
		t.Errorf("with the status: %+v, %v", h, err)
	}
	gone, err := c.Prune(t.Context(), manifest.Pruning{Owner: "one", Before: res.Inventory})
	if err != nil || len(gone.Kept) != 1 {
		t.Errorf("prune: %+v, %v", gone, err)
	}
	for done := false; !done; done = gone.Done() {
		if gone, err = c.Prune(t.Context(), manifest.Pruning{Owner: "one", Before: res.Inventory, Definitions: true}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefusalsAreExplained(t *testing.T) {
	c := open(t, nil)
	ns := fresh(t, c)
	create := func(o object) {
		t.Helper()
		u := &unstructured.Unstructured{Object: o}
		if err := c.Kube().Create(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Kube().Delete(context.Background(), u) })
	}
	create(object{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": object{"name": "q", "namespace": ns}, "spec": object{"hard": object{"count/services": "0"}}})
	create(object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": object{"name": ns},
		"spec": object{"failurePolicy": "Fail",
			"matchConstraints": object{"namespaceSelector": object{"matchLabels": object{"kubernetes.io/metadata.name": ns}},
				"resourceRules": []any{object{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{"configmaps"}}}},
			"validations": []any{object{"expression": "!has(object.data.evil)", "message": "no evil in here"}}}})
	create(object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": object{"name": ns},
		"spec": object{"policyName": ns, "validationActions": []any{"Deny"}}})
	evil := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "e"}, "data": object{"evil": "yes"}}
	service := object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "s"}, "spec": object{"ports": []any{object{"port": int64(80)}}}}
	for _, wait := range []struct { // they are in force a moment after they were made
		object object
		says   string
	}{{evil, "no evil in here"}, {service, "exceeded quota"}} {
		for deadline := time.Now().Add(4 * time.Minute); ; {
			u := (&unstructured.Unstructured{Object: wait.object}).DeepCopy()
			u.SetNamespace(ns)
			err := c.Kube().Create(t.Context(), u, &client.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil && strings.Contains(err.Error(), wait.says) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("not in force: %s: %v", wait.says, err)
			}
		}
	}
	for _, tc := range []struct {
		reason  string
		object  object
		kind    fault.Kind
		because string
		words   []string
		hidden  string
	}{
		{"a policy's own words reach the user", evil, fault.Invalid, "admission-denied", []string{"no evil in here"}, ""},
		{"a namespace's quota", service, fault.Exhausted, "cluster-quota", []string{"the namespace " + ns + ": "}, ""},
		{"a field that there is not", object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "d"}, "spec": object{"replcas": 1}}, fault.Invalid, "invalid-manifest", []string{"replcas"}, ""},
		{"a value of the wrong type", object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "d"}, "data": object{"k": object{"not": "text"}}}, fault.Invalid, "invalid-manifest", nil, ""},
		{"what is missing is named", object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "d"}, "spec": object{"replicas": 1}}, fault.Invalid, "invalid-manifest", []string{"spec.selector"}, ""},
		{"values are not quoted", object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "x"}, "spec": object{"type": "hush-hush", "ports": []any{object{"port": 80}}}}, fault.Invalid, "invalid-manifest", []string{"spec.type"}, "hush-hush"},
		{"names that none can have", configMap("NotALabel!", "1"), fault.Invalid, "invalid-manifest", []string{"metadata.name"}, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := c.Apply(t.Context(), manifest.Set{Owner: "one", Namespace: ns, Objects: []map[string]any{tc.object}})
			if !fault.Is(err, tc.kind) || fault.Reason(err) != tc.because {
				t.Fatalf("got %v (%v, %q)", err, fault.Of(err), fault.Reason(err))
			}
			for _, w := range tc.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if tc.hidden != "" && strings.Contains(err.Error(), tc.hidden) {
				t.Errorf("%q quotes a value", err)
			}
		})
	}
}

func TestServerOnABadDay(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		code    int
		body    string
		because string
	}{
		{"too many requests", 429, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`, "too-many-requests"},
		{"an internal error", 500, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"boom","code":500}`, "server-error"},
		{"a full store", 500, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"etcdserver: mvcc: database space exceeded","code":500}`, "storage-full"},
		{"a webhook that is away", 500, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"Internal error occurred: failed calling webhook \"pigs.example.com\": timed out","code":500}`, "webhook-away"},
		{"a quota that was made just now", 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"configmaps \"a\" is forbidden: status unknown for quota: q, resources: count/configmaps","code":403}`, "quota-uncounted"},
		{"a proxy that speaks HTML", 502, `<html>bad gateway</html>`, "server-error"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var bad atomic.Bool
			c := open(t, func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if bad.Load() && r.Method == http.MethodPatch {
						return &http.Response{StatusCode: tc.code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(tc.body)), Request: r}, nil
					}
					return next.RoundTrip(r)
				})
			})
			ns := fresh(t, c)
			set := manifest.Set{Owner: "one", Namespace: ns, Objects: []map[string]any{configMap("a", "1")}}
			bad.Store(true)
			if _, err := c.Apply(t.Context(), set); !fault.Is(err, fault.Unavailable) || fault.Reason(err) != tc.because {
				t.Errorf("got %v (%v, %q)", err, fault.Of(err), fault.Reason(err))
			}
			bad.Store(false)
			if _, err := c.Apply(t.Context(), set); err != nil {
				t.Errorf("when it is over: %v", err)
			}
		})
	}
}

func TestStuckNamespace(t *testing.T) {
	c := open(t, nil)
	ns := place()
	held := configMap("held", "1")
	held["metadata"].(object)["finalizers"] = []any{"example.com/hold"}
	set := manifest.Set{Owner: "one", Namespace: ns, Objects: []map[string]any{namespace(ns), held}}
	res, err := c.Apply(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := c.Prune(t.Context(), manifest.Pruning{Owner: "one", Before: res.Inventory, Namespaces: true})
	if err != nil || gone.Done() || !strings.Contains(gone.Message, "example.com/hold") {
		t.Errorf("prune: %+v, %v", gone, err)
	}
	u := &unstructured.Unstructured{Object: namespace(ns)}
	if err := c.Kube().Delete(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	_, err = c.Apply(t.Context(), manifest.Set{Owner: "one", Namespace: ns, Objects: []map[string]any{configMap("b", "1")}})
	if !fault.Is(err, fault.Unavailable) || fault.Reason(err) != "namespace-terminating" || !strings.Contains(err.Error(), ns) {
		t.Errorf("apply into it: %v (%q)", err, fault.Reason(err))
	}
	o := get(t, c, "/ConfigMap/"+ns+"/held")
	o.SetFinalizers(nil)
	if err := c.Kube().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for done := false; !done; done = gone.Done() {
		if gone, err = c.Prune(t.Context(), manifest.Pruning{Owner: "one", Before: res.Inventory, Namespaces: true}); err != nil {
			t.Fatal(err)
		}
	}
}
