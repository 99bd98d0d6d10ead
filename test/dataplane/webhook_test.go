//go:build e2e

package dataplane_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// judgement is a webhook of the cluster's administrator, which is asked by URL.
const judgement = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: judge}
webhooks:
- name: judge.example.com
  clientConfig: {url: %q, caBundle: %s}
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 2
`

// A webhook of the cluster denies what an instance needs, fails, or cannot be
// reached: what runs goes on, the instance says whose word it was, and follows
// when the webhook lets it.
func TestWebhookOfTheCluster(t *testing.T) {
	t.Parallel()
	p, ns := edge(t)
	var asked atomic.Int64
	var mood atomic.Value // how it answers for what says "rude"
	mood.Store("deny")
	judge := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var m corev1.ConfigMap
		_ = json.Unmarshal(review.Request.Object.Raw, &m)
		out := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if m.Data["greeting"] == "rude" {
			asked.Add(1)
			switch mood.Load() {
			case "deny":
				out.Allowed = false
				out.Result = &metav1.Status{Message: "the judge wants manners", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
			case "fail":
				http.Error(w, "the judge is ill", http.StatusInternalServerError)
				return
			}
		}
		review.Response, review.Request = out, nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer judge.Close()
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: judge.Certificate().Raw}))
	if err := applier(t, p.k.Admin()).apply(t.Context(), object(t, fmt.Sprintf(judgement, judge.URL+"/judge", bundle)), ""); err != nil {
		t.Fatal(err)
	}
	before := look(t, p.k)
	maps := p.k.Client(t).CoreV1().ConfigMaps("default")
	p.until("the webhook to be in force", func() bool {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"greeting": "rude"}}, metav1.CreateOptions{DryRun: []string{"All"}})
		return apierrors.IsForbidden(err)
	})

	for _, c := range []struct{ name, says string }{
		{"deny", "the judge wants manners"},
		{"fail", "judge.example.com"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mood.Store(c.name)
			p.converges(ns, "polite before "+c.name)
			n := asked.Load()
			p.update("corner", map[string]any{"greeting": "rude"})
			p.says("shop", "corner", c.says)
			if asked.Load() == n {
				t.Error("the webhook was not asked")
			}
			if got := p.greeting(ns); got != "polite before "+c.name {
				t.Errorf("it says %q", got)
			}
			unharmed(t, p.k, before)
			mood.Store("allow") // nobody tells Drover: it tries again
			p.greets(ns, "rude")
			p.is("shops", "corner", "ready")
			unharmed(t, p.k, before)
		})
	}

	t.Run("nobody answers", func(t *testing.T) {
		judge.CloseClientConnections()
		judge.Close()
		p.update("corner", map[string]any{"greeting": "unheard"})
		p.says("shop", "corner", "judge.example.com")
		if got := p.greeting(ns); got != "rude" {
			t.Errorf("it says %q", got)
		}
		unharmed(t, p.k, before)
		if err := p.k.Client(t).AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "judge", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		delete(before, "ValidatingWebhookConfiguration /judge")
		p.greets(ns, "unheard")
		p.is("shops", "corner", "ready")
		p.await("ready")
		p.same(p.k, before)
	})
}
