package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OperationState is how a sync goes, as Argo CD tells it.
type OperationState struct {
	// What was asked of Argo CD.
	Operation ApplicationOperation `json:"operation"`
	// Running, Terminating, Failed, Error or Succeeded.
	Phase string `json:"phase"`
	// What there is to say about it.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// What the sync did.
	//
	// +optional
	SyncResult *SyncOperationResult `json:"syncResult,omitempty"`
	// When it began.
	StartedAt metav1.Time `json:"startedAt"`
	// When it ended.
	//
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// How often it was tried again.
	//
	// +optional
	RetryCount int64 `json:"retryCount,omitempty"`
}

// ApplicationOperation is what was asked of Argo CD.
type ApplicationOperation struct {
	// The sync that was asked for.
	//
	// +optional
	Sync *SyncOperation `json:"sync,omitempty"`
	// Who asked.
	//
	// +optional
	InitiatedBy OperationInitiator `json:"initiatedBy,omitzero"`
	// Remarks of whoever asked.
	//
	// +optional
	Info []*Info `json:"info,omitempty"`
	// How it is tried again.
	//
	// +optional
	Retry RetryStrategy `json:"retry,omitzero"`
}

// SyncOperation is a sync that was asked for.
type SyncOperation struct {
	// Commit, branch or tag; empty for the one of the deployment.
	//
	// +optional
	Revision string `json:"revision,omitempty"`
	// What is no longer in Git is removed.
	//
	// +optional
	Prune bool `json:"prune,omitempty"`
	// Nothing is changed.
	//
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// Whether objects are applied with or without hooks.
	//
	// +optional
	SyncStrategy *SyncStrategy `json:"syncStrategy,omitempty"`
	// The only objects that are synced; empty for all.
	//
	// +optional
	Resources []SyncOperationResource `json:"resources,omitempty"`
	// Source in place of the deployment's.
	//
	// +optional
	Source *ApplicationSource `json:"source,omitempty"`
	// Manifests in place of those in Git.
	//
	// +optional
	Manifests []string `json:"manifests,omitempty"`
	// Options as in spec.syncPolicy.
	//
	// +optional
	SyncOptions []string `json:"syncOptions,omitempty"`
	// Sources in place of the deployment's, where there are several.
	//
	// +optional
	Sources []ApplicationSource `json:"sources,omitempty"`
	// Revisions of those.
	//
	// +optional
	Revisions []string `json:"revisions,omitempty"`
}

// SyncStrategy is how objects are applied.
type SyncStrategy struct {
	// As kubectl apply does.
	//
	// +optional
	Apply *SyncStrategyForce `json:"apply,omitempty"`
	// The same, with hooks around it.
	//
	// +optional
	Hook *SyncStrategyForce `json:"hook,omitempty"`
}

// SyncStrategyForce says what is done with objects that cannot be changed.
type SyncStrategyForce struct {
	// They are deleted and made anew.
	//
	// +optional
	Force bool `json:"force,omitempty"`
}

// SyncOperationResource names an object.
type SyncOperationResource struct {
	// API group; empty for the core's.
	//
	// +optional
	Group string `json:"group,omitempty"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
	// Namespace of the object.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// OperationInitiator is who asked.
type OperationInitiator struct {
	// Name of a user.
	//
	// +optional
	Username string `json:"username,omitempty"`
	// Nobody did: Git was followed.
	//
	// +optional
	Automated bool `json:"automated,omitempty"`
}

// Info is a remark.
type Info struct {
	// What it is about.
	Name string `json:"name"`
	// What it says.
	Value string `json:"value"`
}

// RetryStrategy is how a failed sync is tried again.
type RetryStrategy struct {
	// How often at most; negative for no end.
	//
	// +optional
	Limit int64 `json:"limit,omitempty"`
	// How long between.
	//
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`
}

// Backoff is how long it takes until something is tried again.
type Backoff struct {
	// After the first failure: 5s, 1m...
	//
	// +optional
	Duration string `json:"duration,omitempty"`
	// By how much it grows with each.
	//
	// +optional
	Factor *int64 `json:"factor,omitempty"`
	// How long at most.
	//
	// +optional
	MaxDuration string `json:"maxDuration,omitempty"`
}

// SyncOperationResult is what a sync did.
type SyncOperationResult struct {
	// What became of each object.
	//
	// +optional
	Resources []*ResourceResult `json:"resources,omitempty"`
	// Commit that was deployed.
	Revision string `json:"revision"`
	// Where it came from.
	//
	// +optional
	Source ApplicationSource `json:"source,omitzero"`
	// The same where there are several sources.
	//
	// +optional
	Sources []ApplicationSource `json:"sources,omitempty"`
	// Commits of those.
	//
	// +optional
	Revisions []string `json:"revisions,omitempty"`
	// What the namespace was given, if it was made.
	//
	// +optional
	ManagedNamespaceMetadata *ManagedNamespaceMetadata `json:"managedNamespaceMetadata,omitempty"`
}

// ResourceResult is what a sync did with one object.
type ResourceResult struct {
	// API group; empty for the core's.
	Group string `json:"group"`
	// Version of the API group.
	Version string `json:"version"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object.
	Namespace string `json:"namespace"`
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
	// PreSync, Sync, PostSync, SyncFail or Skip; empty for what is no hook.
	//
	// +optional
	HookType string `json:"hookType,omitempty"`
	// Running, Terminating, Failed, Error or Succeeded.
	//
	// +optional
	HookPhase string `json:"hookPhase,omitempty"`
	// Part of the sync in which it was applied.
	//
	// +optional
	SyncPhase string `json:"syncPhase,omitempty"`
}

// ManagedNamespaceMetadata is what a namespace is given.
type ManagedNamespaceMetadata struct {
	// Labels of the namespace.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the namespace.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
