package kubeapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
)

// AdmissionPath is where the API sends sync runs that are about to be made.
const AdmissionPath = "/validate-managed-gitops-redhat-com-v1alpha1-gitopsdeploymentsyncrun"

const (
	// maxReview bounds a message of the API: an object, and itself around it.
	maxReview = 4 << 20
	// reviewsAtOnce bounds those that the API is asked about. Whoever reaches the server
	// can send one: beyond that nobody is warned.
	reviewsAtOnce = 8
)

// Admission warns whoever makes a sync run that will come to nothing as things are.
// It refuses none: all that can be refused is refused by the definitions, with or
// without this server, and a deployment may be another one by the time of the run.
func (h *Home) Admission() http.Handler {
	asking := make(chan struct{}, reviewsAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
		var review admissionv1.AdmissionReview
		if err == nil {
			err = json.Unmarshal(data, &review)
		}
		if err != nil || review.Request == nil {
			http.Error(w, "this is no AdmissionReview", http.StatusBadRequest)
			return
		}
		answer := admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
			Response: &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true},
		}
		select {
		case asking <- struct{}{}:
			answer.Response.Warnings = h.warnings(r, review.Request)
			<-asking
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
}

func (h *Home) warnings(r *http.Request, request *admissionv1.AdmissionRequest) []string {
	var run v1alpha1.GitOpsDeploymentSyncRun
	if json.Unmarshal(request.Object.Raw, &run) != nil {
		return nil
	}
	var parent v1alpha1.GitOpsDeployment
	err := h.kube.Get(r.Context(), client.ObjectKey{Namespace: request.Namespace, Name: run.Spec.GitopsDeploymentName}, &parent)
	switch {
	case missing(err):
		return []string{fmt.Sprintf("there is no GitOpsDeployment %q in this namespace: the run waits until there is", run.Spec.GitopsDeploymentName)}
	case err == nil && parent.Spec.Type == v1alpha1.Automated:
		return []string{fmt.Sprintf("invalid GitOpsDeploymentSyncRun '%s'. Syncing a GitOpsDeployment with Automated sync policy is not allowed", request.Name)}
	}
	return nil
}
