//go:build e2e

package dataplane_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/droverhq/drover/api/v1"
)

// stand is the kind that stalls need.
const stand = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: stands.fair.example.com}
spec:
  group: fair.example.com
  names: {kind: Stand, listKind: StandList, plural: stands, singular: stand}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// rude is a rule of the cluster's administrator.
const rude = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: manners}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  validations:
  - {expression: "!has(object.data) || !('greeting' in object.data) || object.data.greeting != 'rude'", message: shops here are polite}
`

const rudeHere = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: manners}
spec: {policyName: manners, validationActions: [Deny]}
`

func TestBadDaysOfTheCluster(t *testing.T) {
	t.Parallel()
	p, ns := edge(t)
	client := p.k.Client(t)
	admin := applier(t, p.k.Admin())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	before := look(t, p.k)

	for name, day := range map[string]struct {
		status int
		reason metav1.StatusReason
		says   string
	}{
		"429": {http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "the cluster's API server has too much to do"},
		"500": {http.StatusInternalServerError, metav1.StatusReasonInternalError, "the cluster's API server fails (500)"},
		"409": {http.StatusConflict, metav1.StatusReasonConflict, "is being changed by somebody else again and again"},
	} {
		t.Run("writes are answered "+name, func(t *testing.T) {
			p.api.Meddle(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/namespaces/"+ns) {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				if day.status == http.StatusTooManyRequests {
					w.Header().Set("Retry-After", "1")
				}
				w.WriteHeader(day.status)
				_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(day.status), Reason: day.reason, Message: "a bad day"})
				return true
			})
			p.update("corner", map[string]any{"greeting": "during " + name})
			p.says("shop", "corner", day.says)
			if phase, _ := p.get("shops", "corner"); phase == "failed" {
				t.Error("what passes by itself makes an instance fail")
			}
			unharmed(t, p.k, before)
			p.api.Meddle(nil)
			p.greets(ns, "during "+name)
			p.is("shops", "corner", "ready")
			unharmed(t, p.k, before)
		})
	}

	t.Run("a policy refuses", func(t *testing.T) {
		must(admin.apply(t.Context(), object(t, rude), ""))
		must(admin.apply(t.Context(), object(t, rudeHere), ""))
		p.until("the policy to be in force", func() bool {
			_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"greeting": "rude"}}, metav1.CreateOptions{DryRun: []string{"All"}})
			return apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
		})
		p.update("corner", map[string]any{"greeting": "rude"})
		p.says("shop", "corner", "shops here are polite")
		unharmed(t, p.k, before)
		p.converges(ns, "polite")
		unharmed(t, p.k, before)
	})

	t.Run("a kind is missing, and a manifest is wrong", func(t *testing.T) {
		_, err := p.c.Create(context.Background(), "stalls", v1.CreateInstance{Name: "fair", Provider: "metal", Region: "north", Parameters: map[string]any{"port": 70000}})
		must(err)
		p.says("stall", "fair", "Stand")
		unharmed(t, p.k, before)
		must(admin.apply(t.Context(), object(t, stand), ""))
		p.says("stall", "fair", "spec.ports[0].port")
		_, err = p.c.Update(context.Background(), "stalls", "fair", v1.UpdateInstance{Parameters: map[string]any{"port": 8080}})
		must(err)
		p.is("stalls", "fair", "ready")
		// A wrong one later leaves what runs as it is.
		there := look(t, p.k)
		_, err = p.c.Update(context.Background(), "stalls", "fair", v1.UpdateInstance{Parameters: map[string]any{"port": 70001}})
		must(err)
		p.says("stall", "fair", "spec.ports[0].port")
		unharmed(t, p.k, there)
		p.remove("stalls", "fair")
		p.is("stalls", "fair", "gone")
		unharmed(t, p.k, before)
	})

	t.Run("a quota of the cluster is exceeded", func(t *testing.T) {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "no-more"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("0")}}}
		_, err := client.CoreV1().ResourceQuotas(ns).Create(t.Context(), quota, metav1.CreateOptions{})
		must(err)
		p.until("the quota to count", func() bool {
			_, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{DryRun: []string{"All"}})
			return err != nil && strings.Contains(err.Error(), "exceeded quota: no-more")
		})
		must(client.CoreV1().ConfigMaps(ns).Delete(t.Context(), "settings", metav1.DeleteOptions{}))
		p.says("shop", "corner", "no-more")
		must(client.CoreV1().ResourceQuotas(ns).Delete(t.Context(), "no-more", metav1.DeleteOptions{}))
		p.greets(ns, "polite")
		p.is("shops", "corner", "ready")
		delete(before, "ConfigMap "+ns+"/settings") // the test has removed it
		unharmed(t, p.k, before)
	})

	t.Run("a namespace does not end", func(t *testing.T) {
		stuck := p.order("stuck", "north", nil)
		p.is("shops", "stuck", "ready")
		_, err := client.CoreV1().ConfigMaps(stuck).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "anchor", Finalizers: []string{"example.com/hold"}}}, metav1.CreateOptions{})
		must(err)
		p.remove("shops", "stuck")
		p.says("shop", "stuck", "stuck while being removed", "example.com/hold")
		p.converges(ns, "not held up")
		unharmed(t, p.k, before)
		_, err = client.CoreV1().ConfigMaps(stuck).Patch(t.Context(), "anchor", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		must(err)
		p.is("shops", "stuck", "gone")
		unharmed(t, p.k, before)
	})

	t.Run("the API server sleeps", func(t *testing.T) {
		must(p.k.API.Pause())
		p.update("corner", map[string]any{"greeting": "after the sleep"})
		p.until("the cluster to say so", func() bool { out, _, _ := p.s.Run("describe", "cluster", "edge"); return troubled(out) })
		must(p.k.API.Resume())
		p.greets(ns, "after the sleep")
		p.await("ready")
		p.is("shops", "corner", "ready")
		unharmed(t, p.k, before)
	})

	t.Run("the API server is killed", func(t *testing.T) {
		must(p.k.API.Kill())
		p.update("corner", map[string]any{"greeting": "after the crash"})
		p.until("the cluster to say so", func() bool { out, _, _ := p.s.Run("describe", "cluster", "edge"); return troubled(out) })
		must(p.k.API.Start())
		must(p.k.Ready(t.Context()))
		p.greets(ns, "after the crash")
		p.await("ready")
		p.is("shops", "corner", "ready")
		unharmed(t, p.k, before)
	})
}

// troubled tells whether the description of a cluster names its trouble: its
// agent is silent, or says that it cannot reach Kubernetes.
func troubled(out string) bool {
	top, _, _ := strings.Cut(out, "History")
	return strings.Contains(top, "silent") || strings.Contains(top, "API server") || strings.Contains(top, "cannot be reached") || strings.Contains(top, "does not answer")
}
