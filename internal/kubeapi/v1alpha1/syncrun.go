package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GitOpsDeploymentSyncRun has a manual GitOpsDeployment synced once.
//
// Runs of one deployment are done one after the other, in the order of their
// creation. Deleting one that waits or runs ends it. It may be made before its
// deployment: then it waits.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=gitops
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.gitopsDeploymentName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.revision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GitOpsDeploymentSyncRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GitOpsDeploymentSyncRunSpec   `json:"spec"`
	Status GitOpsDeploymentSyncRunStatus `json:"status,omitzero"`
}

// GitOpsDeploymentSyncRunSpec says what is to be synced. It cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="self.gitopsDeploymentName == oldSelf.gitopsDeploymentName",message="deployment name field is immutable: changing it from its initial value is not supported"
// +kubebuilder:validation:XValidation:rule="has(self.revisionID) && size(self.revisionID) > 0 ? has(oldSelf.revisionID) && self.revisionID == oldSelf.revisionID : !has(oldSelf.revisionID) || size(oldSelf.revisionID) == 0",message="revision change is not supported: changing it from its initial value is not supported"
// +kubebuilder:validation:XValidation:rule="self.?prune.orValue(false) == oldSelf.?prune.orValue(false)",message="prune change is not supported: changing it from its initial value is not supported"
type GitOpsDeploymentSyncRunSpec struct {
	// Name of a GitOpsDeployment of this namespace, of type manual.
	//
	// +kubebuilder:validation:MaxLength=253
	GitopsDeploymentName string `json:"gitopsDeploymentName"`
	// Commit, branch or tag. Left out: the deployment's targetRevision.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	RevisionID string `json:"revisionID,omitempty"`
	// Objects that are no longer in Git are removed. Left out: they are not.
	//
	// +optional
	Prune bool `json:"prune,omitempty"`
}

// GitOpsDeploymentSyncRunStatus tells how it goes.
type GitOpsDeploymentSyncRunStatus struct {
	// ErrorOccurred: True with a message while something is wrong, False otherwise.
	//
	// +optional
	Conditions []GitOpsDeploymentSyncRunCondition `json:"conditions,omitempty"`
	// Waiting, Running, Succeeded, Failed, Terminating or Terminated.
	//
	// +optional
	Phase string `json:"phase,omitempty"`
	// What there is to say about the phase.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Commit that was deployed.
	//
	// +optional
	Revision string `json:"revision,omitempty"`
	// When the sync began.
	//
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// When it ended.
	//
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// What became of each object.
	//
	// +optional
	Resources []SyncRunResource `json:"resources,omitempty"`
	// Digest of the rest of the status. Drover writes it and tells by it that
	// somebody else has changed the status.
	//
	// +optional
	Digest string `json:"digest,omitempty"`
}

// GitOpsDeploymentSyncRunCondition tells whether something is wrong.
type GitOpsDeploymentSyncRunCondition struct {
	// ErrorOccurred.
	Type string `json:"type"`
	// True: there is an error. False: there is none.
	Status string `json:"status"`
	// ErrorOccurred, or nothing.
	Reason string `json:"reason"`
	// What is wrong, and what can be done about it.
	Message string `json:"message"`
	// When status or message last changed.
	//
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// SyncRunResource is what the sync did with one object.
type SyncRunResource struct {
	// API group; empty for the core's.
	//
	// +optional
	Group string `json:"group,omitempty"`
	// Version of the API group.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object; empty for those without.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name"`
	// Synced, SyncFailed, Pruned or PruneSkipped.
	//
	// +optional
	Status string `json:"status,omitempty"`
	// What the API server said.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// GitOpsDeploymentSyncRunList is a list of GitOpsDeploymentSyncRuns.
//
// +kubebuilder:object:root=true
type GitOpsDeploymentSyncRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GitOpsDeploymentSyncRun `json:"items"`
}
