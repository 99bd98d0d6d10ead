package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Values of GitOpsDeploymentSpec.Type.
const (
	Automated = "automated"
	Manual    = "manual"
)

// GitOpsDeployment has what is in a directory of a Git repository deployed to a
// namespace.
//
// Its status tells whether Git and cluster agree, how well the deployed objects
// are, and what went wrong. With the finalizer
// resources-finalizer.managed-gitops.redhat.com a deleted one stays until all that
// it deployed is gone; without, it goes at once and the rest follows.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=gitops
// +kubebuilder:printcolumn:name="Sync Status",type=string,JSONPath=`.status.sync.status`
// +kubebuilder:printcolumn:name="Health Status",type=string,JSONPath=`.status.health.status`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.sync.revision`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,priority=1
type GitOpsDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GitOpsDeploymentSpec   `json:"spec"`
	Status GitOpsDeploymentStatus `json:"status,omitzero"`
}

// GitOpsDeploymentSpec says what is to be deployed, where to, and when.
type GitOpsDeploymentSpec struct {
	// Where in Git the manifests are.
	Source ApplicationSource `json:"source"`
	// Which cluster and namespace they go to. Left out, it is the namespace that this
	// resource is in, on the same cluster.
	//
	// +optional
	// +nullable
	Destination ApplicationDestination `json:"destination,omitzero"`
	// How a sync is done.
	//
	// +optional
	// +nullable
	SyncPolicy *SyncPolicy `json:"syncPolicy,omitempty"`
	// When a sync is done. "automated": Git is followed, what is no longer in Git is
	// removed, and what was changed in the cluster is changed back. "manual": nothing
	// happens but for a GitOpsDeploymentSyncRun.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self in ['manual', 'automated']",message="spec type must be manual or automated"
	Type string `json:"type"`
}

// ApplicationSource is a directory of a Git repository.
type ApplicationSource struct {
	// URL of the repository: https://, or ssh:// with a
	// GitOpsDeploymentRepositoryCredential for the same URL in this namespace.
	//
	// +kubebuilder:validation:MaxLength=2048
	RepoURL string `json:"repoURL"`
	// Directory in the repository. It may be neither empty nor "/"; "." is the whole
	// repository.
	//
	// +kubebuilder:validation:MaxLength=4096
	Path string `json:"path"`
	// Branch, tag or commit. Left out: the repository's default branch.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	TargetRevision string `json:"targetRevision,omitempty"`
}

// ApplicationDestination is where a deployment goes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.__namespace__) || size(self.__namespace__) == 0 || has(self.environment) && size(self.environment) > 0",message="the environment field should not be empty when the namespace is non-empty"
type ApplicationDestination struct {
	// Name of a GitOpsDeploymentManagedEnvironment of this namespace. Left out: the
	// cluster that this resource is on.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Environment string `json:"environment,omitempty"`
	// Namespace there. Needed with an environment, and not to be given without.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
}

// SyncPolicy says how a sync is done.
type SyncPolicy struct {
	// CreateNamespace=true makes the namespace that things are deployed to, if it is
	// not there; CreateNamespace=false does not. There are no others.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(o, o in ['CreateNamespace=true', 'CreateNamespace=false'])",message="the specified sync option in .spec.syncPolicy.syncOptions is either mispelled or is not supported by GitOpsDeployment"
	SyncOptions []string `json:"syncOptions,omitempty"`
}

// GitOpsDeploymentStatus tells what became of a deployment.
type GitOpsDeploymentStatus struct {
	// Troubles, present and past. One that is over stays, with status False and a
	// reason that ends in "Resolved".
	//
	// +optional
	Conditions []GitOpsDeploymentCondition `json:"conditions,omitempty"`
	// Whether the cluster has what Git has.
	//
	// +optional
	Sync SyncStatus `json:"sync,omitzero"`
	// How well the deployed objects are, taken together.
	//
	// +optional
	Health HealthStatus `json:"health,omitzero"`
	// All objects that belong to the deployment. Where there are too many to be
	// listed, the condition ResourcesTruncated says how many are left out.
	//
	// +optional
	Resources []ResourceStatus `json:"resources,omitempty"`
	// What was last compared with the cluster; until that has caught up with the
	// spec, sync and health are about something older.
	ReconciledState ReconciledState `json:"reconciledState"`
	// The sync that is under way, or the last one.
	//
	// +optional
	OperationState *OperationState `json:"operationState,omitempty"`
	// Syncs that succeeded, the newest last.
	//
	// +optional
	History []RevisionHistory `json:"history,omitempty"`
	// Digest of the rest of the status. Drover writes it and tells by it that
	// somebody else has changed the status.
	//
	// +optional
	Digest string `json:"digest,omitempty"`
}

// GitOpsDeploymentCondition is a trouble that there is or was.
type GitOpsDeploymentCondition struct {
	// ErrorOccurred for what is wrong with the resource or on the way to Argo CD;
	// otherwise as Argo CD calls it: ComparisonError, SyncError, InvalidSpecError...
	Type string `json:"type"`
	// True: it is so now. False: it is over.
	Status string `json:"status"`
	// The type again, or the type followed by "Resolved".
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// What is wrong, and what can be done about it.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// When it was last looked at with another outcome than before.
	//
	// +optional
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`
	// When status or message last changed.
	//
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// SyncStatus tells whether the cluster has what Git has.
type SyncStatus struct {
	// Synced, OutOfSync or Unknown.
	Status string `json:"status"`
	// Commit that the cluster was compared with.
	//
	// +optional
	Revision string `json:"revision,omitempty"`
}

// HealthStatus tells how well something is.
type HealthStatus struct {
	// Healthy, Progressing, Degraded, Suspended, Missing or Unknown.
	//
	// +optional
	Status string `json:"status,omitempty"`
	// Why, where there is something to say.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// ResourceStatus is one object of a deployment.
type ResourceStatus struct {
	// API group; empty for the core's.
	//
	// +optional
	Group string `json:"group,omitempty"`
	// Version of the API group.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// Kind of the object.
	//
	// +optional
	Kind string `json:"kind,omitempty"`
	// Namespace of the object; empty for those without.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	//
	// +optional
	Name string `json:"name,omitempty"`
	// Synced, OutOfSync or Unknown.
	//
	// +optional
	Status string `json:"status,omitempty"`
	// How well it is.
	//
	// +optional
	Health *HealthStatus `json:"health,omitempty"`
}

// ReconciledState is what was last compared with the cluster.
type ReconciledState struct {
	// Where in Git the manifests came from.
	Source ReconciledSource `json:"source"`
	// Where they were compared with.
	Destination ReconciledDestination `json:"destination"`
}

// ReconciledSource is the directory that was compared.
type ReconciledSource struct {
	// URL of the repository.
	RepoURL string `json:"repoURL"`
	// Directory in it.
	Path string `json:"path"`
	// The targetRevision.
	Branch string `json:"branch"`
}

// ReconciledDestination is the place that was compared.
type ReconciledDestination struct {
	// Name of the GitOpsDeploymentManagedEnvironment; empty for the same cluster.
	Name string `json:"name"`
	// Namespace there.
	Namespace string `json:"namespace"`
}

// RevisionHistory is a sync that succeeded.
type RevisionHistory struct {
	// Number by which it can be gone back to.
	ID int64 `json:"id"`
	// Commit that was deployed.
	Revision string `json:"revision"`
	// Directory that it was deployed from.
	//
	// +optional
	Path string `json:"path,omitempty"`
	// The targetRevision of that time.
	//
	// +optional
	TargetRevision string `json:"targetRevision,omitempty"`
	// Who made the commit.
	//
	// +optional
	Author string `json:"author,omitempty"`
	// First line of the commit's message.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// When the sync began.
	//
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// When it was done.
	DeployedAt metav1.Time `json:"deployedAt"`
	// "automated", or the sync run that asked for it.
	//
	// +optional
	InitiatedBy string `json:"initiatedBy,omitempty"`
}

// GitOpsDeploymentList is a list of GitOpsDeployments.
//
// +kubebuilder:object:root=true
type GitOpsDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GitOpsDeployment `json:"items"`
}
