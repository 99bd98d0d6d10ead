package runtime

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// KindDeployment is the kind of items whose body is a Deployment.
const KindDeployment = "deployment"

// Deployment is the body of an item of kind "deployment": a directory of a Git
// repository that is to be had in a namespace. Its secrets are filled in on the
// way to the agent.
type Deployment struct {
	UID  string `json:"uid"`  // the Application is "gitopsdepl-<UID>"
	Name string `json:"name"` // for people: "<namespace>/<name>", or the name alone
	// Workspace is whose it is. What workspaces may read, reach and use is kept
	// apart: each has an AppProject of its own.
	Workspace string `json:"workspace"`
	// Namespaces of the engine's own cluster that the workspace may deploy into.
	Namespaces []string `json:"namespaces,omitempty"`
	// ClusterResources: the workspace may have objects without a namespace on the
	// engine's own cluster. Default: it may not.
	ClusterResources bool `json:"cluster_resources,omitempty"`

	Repository string `json:"repository"`
	Path       string `json:"path"`
	Revision   string `json:"revision,omitempty"` // branch, tag or commit; empty: HEAD
	// Credential opens the repository; nil: it is public.
	Credential *RepositoryCredential `json:"credential,omitempty"`
	// Target is the cluster that it is deployed to; nil: the engine's own.
	Target    *Target `json:"target,omitempty"`
	Namespace string  `json:"namespace"`
	// Detached: it had a target that is gone. What was deployed is left as it is.
	Detached bool `json:"detached,omitempty"`
	// Abandoned is the id of the target that it had last and that is gone, where it
	// goes somewhere else by now: what was deployed there is left as it is.
	Abandoned string `json:"abandoned,omitempty"`

	// Kept: it is to be forgotten, and what was deployed is left as it is. Whoever has
	// let go of it says so (Deployed.Kept), and is only then asked to remove it.
	Kept bool `json:"kept,omitempty"`

	// Automated: what is in Git is applied, pruned and put right by itself, and
	// tried for ever. Otherwise nothing is done but for Sync.
	Automated   bool     `json:"automated"`
	SyncOptions []string `json:"sync_options,omitempty"`
	// Refresh moves when the repository is to be looked at now.
	Refresh string `json:"refresh,omitempty"`
	// Sync is the run that is wanted; nil: none is. Once it has ended it may stay.
	Sync *SyncRequest `json:"sync,omitempty"`
	// Operation that last changed any of this, shown as a custom resource.
	Operation *DeploymentOperation `json:"operation,omitempty"`
	// Opened are the operations that made Credential and Target what they are: shown once
	// both are in place.
	Opened []DeploymentOperation `json:"opened,omitempty"`
	// Refused are the last operations that were to make them something else, and failed: the
	// data plane goes on with what it has.
	Refused []DeploymentOperation `json:"refused,omitempty"`
}

// Tenant is whose an item is, where its body tells: so that nobody waits for the
// thousands of another. What is nobody's in particular has one that is empty.
func Tenant(kind string, body json.RawMessage) string {
	if kind != KindDeployment || len(body) == 0 {
		return ""
	}
	var of struct {
		Workspace string `json:"workspace"`
	}
	_ = json.Unmarshal(body, &of) // what cannot be read is refused elsewhere
	return of.Workspace
}

// RepositoryCredential opens a repository, for one workspace.
type RepositoryCredential struct {
	ID         string `json:"id"`
	Username   string `json:"username,omitempty"`
	Password   string `json:"password,omitempty"`
	SSHKey     string `json:"ssh_key,omitempty"`
	KnownHosts string `json:"known_hosts,omitempty"`
	// Since when it is this: of two that deployments are told, the later one is right.
	Since time.Time `json:"since,omitzero"`
}

// Target is another cluster, reached with a token of its own.
type Target struct {
	ID               string   `json:"id"`
	Name             string   `json:"name"` // the workspace's name for it
	Server           string   `json:"server"`
	Token            string   `json:"token"`
	CA               string   `json:"ca,omitempty"` // PEM
	Insecure         bool     `json:"insecure,omitempty"`
	Namespaces       []string `json:"namespaces,omitempty"` // empty: all
	ClusterResources bool     `json:"cluster_resources,omitempty"`
	// Since when it is this, as that of a credential.
	Since time.Time `json:"since,omitzero"`
}

// SyncRequest asks for one sync. A runtime begins each ID once.
type SyncRequest struct {
	ID        string `json:"id"`
	Revision  string `json:"revision,omitempty"` // empty: the deployment's
	Prune     bool   `json:"prune,omitempty"`
	Retries   int64  `json:"retries,omitempty"`   // after the first attempt
	Terminate bool   `json:"terminate,omitempty"` // it is to end
	// Operation that it is, shown as a custom resource.
	Operation *DeploymentOperation `json:"operation,omitempty"`
}

// DeploymentOperation is what a custom resource Operation tells.
type DeploymentOperation struct {
	ID       string `json:"id"`
	Owner    string `json:"owner"`    // workspace
	Resource string `json:"resource"` // id
	Type     string `json:"type"`     // of resource: "GitOpsDeployment"
	Cause    string `json:"cause,omitempty"`
	Instance string `json:"instance,omitempty"` // cluster whose agent carries it out
	// Begun and Ended of what the control plane was done with before data planes are told.
	Begun time.Time `json:"begun,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Why is the reason of one that the control plane has seen fail.
	Why string `json:"why,omitempty"`
}

// Farewell is the body of a removal, where it has one. Nothing depends on it: all
// that a runtime removes it knows itself.
type Farewell struct {
	Operation *DeploymentOperation `json:"farewell,omitempty"`
}

// Unremovable begins what is told of something that the runtime cannot remove, a right
// that it lacks above all.
const Unremovable = "it cannot be removed yet"

// Deployed is what is seen of a deployment, as Argo CD words it: the Detail of
// its observation.
type Deployed struct {
	Sync       SyncStatus           `json:"sync"`
	Health     HealthStatus         `json:"health"`
	Resources  []DeployedResource   `json:"resources,omitempty"`
	More       int                  `json:"more,omitempty"` // resources that are not listed: there are too many
	Conditions []DeployedCondition  `json:"conditions,omitempty"`
	Compared   *Compared            `json:"compared,omitempty"`
	Operation  json.RawMessage      `json:"operation,omitempty"` // operationState as it is
	Run        *SyncRun             `json:"run,omitempty"`       // the last requested one
	History    []DeployedRevision   `json:"history,omitempty"`   // oldest first, the last ten
	Diff       []ResourceDifference `json:"diff,omitempty"`      // of what is out of sync: see Concise
	NoDiff     string               `json:"no_diff,omitempty"`   // why it has no lines although something differs
	Healed     *Healed              `json:"healed,omitempty"`
	Kept       bool                 `json:"kept,omitempty"` // it was let go of: removing it removes nothing
}

// SyncStatus is Synced, OutOfSync or Unknown, against a revision.
type SyncStatus struct {
	Status   string `json:"status"`
	Revision string `json:"revision,omitempty"`
}

// HealthStatus is Healthy, Progressing, Degraded, Suspended, Missing or Unknown.
type HealthStatus struct {
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// DeployedResource is one object of a deployment.
type DeployedResource struct {
	Group     string        `json:"group,omitempty"`
	Version   string        `json:"version,omitempty"`
	Kind      string        `json:"kind,omitempty"`
	Namespace string        `json:"namespace,omitempty"`
	Name      string        `json:"name,omitempty"`
	Status    string        `json:"status,omitempty"`
	Health    *HealthStatus `json:"health,omitempty"`
}

// DeployedCondition is a trouble that there is now: ComparisonError, SyncError...
type DeployedCondition struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Compared is what was last compared with the cluster.
type Compared struct {
	Repository string `json:"repository"`
	Path       string `json:"path"`
	Revision   string `json:"revision,omitempty"`
	Target     string `json:"target,omitempty"` // ID of the target; empty: the engine's own cluster
	Namespace  string `json:"namespace"`
}

// SyncRun is how a requested sync goes.
type SyncRun struct {
	ID        string           `json:"id"`
	Phase     string           `json:"phase"` // Running, Succeeded, Failed, Error, Terminating, Terminated
	Message   string           `json:"message,omitempty"`
	Revision  string           `json:"revision,omitempty"` // resolved commit
	Retries   int64            `json:"retries,omitempty"`
	Started   time.Time        `json:"started,omitzero"`
	Finished  time.Time        `json:"finished,omitzero"`
	Resources []SyncedResource `json:"resources,omitempty"`
}

// SyncedResource is what a sync did with one object.
type SyncedResource struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Status    string `json:"status,omitempty"` // Synced, SyncFailed, Pruned, PruneSkipped
	Message   string `json:"message,omitempty"`
}

// DeployedRevision is a sync that succeeded.
type DeployedRevision struct {
	ID       int64     `json:"id"`
	Revision string    `json:"revision"`
	Started  time.Time `json:"started,omitzero"`
	Deployed time.Time `json:"deployed"`
	By       string    `json:"by,omitempty"` // "automated", or a sync run's id
	// Repository, Path and Asked are where it was read and what was asked for there
	// (branch, tag or commit); empty: that is not known.
	Repository string `json:"repository,omitempty"`
	Path       string `json:"path,omitempty"`
	Asked      string `json:"asked,omitempty"`
}

// ResourceDifference is what a sync would change in one object: lines of a
// unified diff, without values of Secrets.
type ResourceDifference struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Change    string `json:"change,omitempty"` // ToCreate, ToChange, ToRemove
	Text      string `json:"text"`             // empty for what is to be removed
}

// What a sync would do with an object.
const (
	ToCreate = "create"
	ToChange = "change"
	ToRemove = "remove" // with prune: Git has it no longer
)

// Bounds of the differences that are told: they travel with every report, and are
// for people to read.
const (
	MaxDifference  = 4 << 10  // bytes of one object's lines
	maxDifferences = 16 << 10 // bytes of all of them
	maxDiffering   = 100      // objects
)

// Concise are differences in an order of their own, as many as are told. Those that
// come after the first bytes have no lines.
func Concise(all []ResourceDifference) []ResourceDifference {
	slices.SortFunc(all, func(a, b ResourceDifference) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	all = all[:min(len(all), maxDiffering)]
	left := maxDifferences
	for i := range all {
		if len(all[i].Text) > left {
			all[i].Text = ""
		}
		left -= len(all[i].Text)
	}
	return all
}

// Healed is what was last put right behind somebody's back.
type Healed struct {
	At   time.Time `json:"at"`
	What string    `json:"what"` // "the Application was deleted"
}
