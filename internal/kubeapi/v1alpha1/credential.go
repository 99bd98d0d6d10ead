package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GitOpsDeploymentRepositoryCredential opens a private Git repository for the
// GitOpsDeployments of its namespace, and for no others.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=gitops
// +kubebuilder:printcolumn:name="Repository",type=string,JSONPath=`.spec.repository`,priority=1
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="ValidRepositoryCredential")].status`,priority=1
type GitOpsDeploymentRepositoryCredential struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GitOpsDeploymentRepositoryCredentialSpec   `json:"spec"`
	Status GitOpsDeploymentRepositoryCredentialStatus `json:"status,omitzero"`
}

// GitOpsDeploymentRepositoryCredentialSpec says which repository is opened with what.
type GitOpsDeploymentRepositoryCredentialSpec struct {
	// URL of the repository, with https:// or ssh:// in front.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['ssh', 'https']",message="repository must begin with ssh:// or https://"
	Repository string `json:"repository"`
	// Name of a Secret of this namespace, of type
	// managed-gitops.redhat.com/repository-credential, with the keys username and
	// password, or sshPrivateKey. The key knownHosts may say which host keys are
	// expected.
	//
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret"`
}

// GitOpsDeploymentRepositoryCredentialStatus tells what the repository's server said.
type GitOpsDeploymentRepositoryCredentialStatus struct {
	// ErrorOccurred, ValidRepositoryURL and ValidRepositoryCredential, looked at
	// whenever the resource or its Secret changes, and every ten minutes.
	//
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Digest of the rest of the status. Drover writes it and tells by it that
	// somebody else has changed the status.
	//
	// +optional
	Digest string `json:"digest,omitempty"`
}

// GitOpsDeploymentRepositoryCredentialList is a list of
// GitOpsDeploymentRepositoryCredentials.
//
// +kubebuilder:object:root=true
type GitOpsDeploymentRepositoryCredentialList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GitOpsDeploymentRepositoryCredential `json:"items"`
}
