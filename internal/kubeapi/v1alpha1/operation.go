package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Operation shows one piece of work that Drover does at an Argo CD, in the
// namespace of that Argo CD. It is for looking at: changing or deleting it changes
// nothing, and it goes by itself ten minutes after the work was done.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.resourceType`
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.resource`,priority=1
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Operation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   OperationSpec   `json:"spec,omitzero"`
	Status OperationStatus `json:"status,omitzero"`
}

// OperationSpec says what the work is about.
type OperationSpec struct {
	// Id of the operation, by which drover get operations finds it.
	//
	// +optional
	OperationID string `json:"operationID,omitempty"`
	// Which Argo CD works on it: its cluster and namespace.
	//
	// +optional
	Instance string `json:"instance,omitempty"`
	// Id of the workspace that it is done for.
	//
	// +optional
	Owner string `json:"owner,omitempty"`
	// Id of what it is about: the UID of a custom resource.
	//
	// +optional
	Resource string `json:"resource,omitempty"`
	// Kind of what it is about: GitOpsDeployment...
	//
	// +optional
	ResourceType string `json:"resourceType,omitempty"`
	// Why it is done.
	//
	// +optional
	Cause string `json:"cause,omitempty"`
}

// OperationStatus tells how it goes.
type OperationStatus struct {
	// Waiting, In_Progress, Completed or Failed.
	//
	// +optional
	State string `json:"state,omitempty"`
	// The outcome, for people.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// When the work began.
	//
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// When it was done.
	//
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// When the state last changed.
	//
	// +optional
	LastStateUpdate *metav1.Time `json:"lastStateUpdate,omitempty"`
}

// OperationList is a list of Operations.
//
// +kubebuilder:object:root=true
type OperationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Operation `json:"items"`
}
