package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GitOpsDeploymentManagedEnvironment is another cluster that GitOpsDeployments of
// its namespace may be deployed to.
//
// Deleting it leaves what was deployed there as it is.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=gitops
// +kubebuilder:printcolumn:name="API",type=string,JSONPath=`.spec.apiURL`,priority=1
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="ConnectionInitializationSucceeded")].status`,priority=1
type GitOpsDeploymentManagedEnvironment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GitOpsDeploymentManagedEnvironmentSpec   `json:"spec"`
	Status GitOpsDeploymentManagedEnvironmentStatus `json:"status,omitzero"`
}

// GitOpsDeploymentManagedEnvironmentSpec says how the cluster is reached, and what
// may be deployed there.
type GitOpsDeploymentManagedEnvironmentSpec struct {
	// URL of the cluster's API server, as the kubeconfig has it: https:// and
	// without a query.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https'",message="cluster api url must start with https://"
	APIURL string `json:"apiURL"`
	// Name of a Secret of this namespace, of type
	// managed-gitops.redhat.com/managed-environment, whose key kubeconfig holds one
	// with a context for that URL and a user with a token.
	//
	// +kubebuilder:validation:MaxLength=253
	ClusterCredentialsSecret string `json:"credentialsSecret"`
	// The certificate of the API server is not verified. Whoever is in between can
	// then read and change everything: better have the authority in the kubeconfig.
	AllowInsecureSkipTLSVerify bool `json:"allowInsecureSkipTLSVerify"`
	// A service account is made on the cluster with the kubeconfig, and its token is
	// used. Left out: the token of the kubeconfig is used as it is.
	//
	// +optional
	CreateNewServiceAccount bool `json:"createNewServiceAccount,omitempty"`
	// Namespaces that may be deployed to. Left out: all. One that cannot be the name of
	// a namespace is told by the condition, with the reason InvalidNamespaceList.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	Namespaces []string `json:"namespaces,omitempty"`
	// Objects without a namespace may be deployed, although namespaces are given.
	//
	// +optional
	ClusterResources bool `json:"clusterResources,omitempty"`
}

// GitOpsDeploymentManagedEnvironmentStatus tells whether the cluster can be used.
type GitOpsDeploymentManagedEnvironmentStatus struct {
	// ConnectionInitializationSucceeded: True, or the reason why not.
	//
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Digest of the rest of the status. Drover writes it and tells by it that
	// somebody else has changed the status.
	//
	// +optional
	Digest string `json:"digest,omitempty"`
}

// GitOpsDeploymentManagedEnvironmentList is a list of
// GitOpsDeploymentManagedEnvironments.
//
// +kubebuilder:object:root=true
type GitOpsDeploymentManagedEnvironmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GitOpsDeploymentManagedEnvironment `json:"items"`
}
