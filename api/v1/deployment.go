package v1

import (
	"encoding/json"
	"time"
)

// CreateDeployment brings a directory of a Git repository to a namespace:
// POST /api/v1/deployments.
type CreateDeployment struct {
	Name        string            `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
	Workspace   string            `json:"workspace,omitempty" maxLength:"256" doc:"Name or id of the workspace; default: the caller's organisation's own"`
	Repository  string            `json:"repository" minLength:"1" maxLength:"2048" doc:"URL of the Git repository: https or ssh" example:"https://git.example.org/shop.git"`
	Path        string            `json:"path" minLength:"1" maxLength:"1024" doc:"Directory in the repository" example:"k8s"`
	Revision    string            `json:"revision,omitempty" maxLength:"256" doc:"Branch, tag or commit; default: the default branch"`
	Cluster     string            `json:"cluster,omitempty" maxLength:"256" doc:"Id of a cluster of the fleet"`
	Target      string            `json:"target,omitempty" maxLength:"256" doc:"Name of a target of the workspace, in place of a cluster"`
	Selector    map[string]string `json:"selector,omitempty" maxProperties:"16" doc:"Labels (and region, provider) of clusters, in place of one: all that fit, as they come and go"`
	Namespace   string            `json:"namespace,omitempty" maxLength:"63" doc:"Namespace there"`
	Manual      bool              `json:"manual,omitempty" doc:"Nothing is done before a sync is asked for. Default: Git is followed"`
	SyncOptions []string          `json:"sync_options,omitempty" maxItems:"8" doc:"CreateNamespace=true"`
}

// UpdateDeployment changes a deployment: PATCH /api/v1/deployments/<name>. Absent
// fields stay.
type UpdateDeployment struct {
	Repository  *string   `json:"repository,omitempty" minLength:"1" maxLength:"2048"`
	Path        *string   `json:"path,omitempty" minLength:"1" maxLength:"1024"`
	Revision    *string   `json:"revision,omitempty" maxLength:"256"`
	Namespace   *string   `json:"namespace,omitempty" maxLength:"63"`
	Manual      *bool     `json:"manual,omitempty"`
	SyncOptions *[]string `json:"sync_options,omitempty" maxItems:"8"`
}

// SyncDeployment asks for one sync: POST /api/v1/deployments/<name>/sync.
type SyncDeployment struct {
	Revision string `json:"revision,omitempty" maxLength:"256" doc:"Default: the deployment's"`
	Prune    bool   `json:"prune,omitempty" doc:"Remove what is no longer in Git"`
}

// RollbackDeployment goes back: POST /api/v1/deployments/<name>/rollback.
type RollbackDeployment struct {
	ID       *int64 `json:"id,omitempty" minimum:"0" doc:"Of the history; default: the one before the last"`
	Revision string `json:"revision,omitempty" maxLength:"256" doc:"Or a commit of the history"`
}

// DeploymentStatus is how a deployment is: GET /api/v1/deployments/<name>/status.
type DeploymentStatus struct {
	ID         string                `json:"id"`
	Name       string                `json:"name"`
	Phase      string                `json:"phase" enum:"pending,deploying,deployed,outofsync,failed,deleting,gone"`
	Sync       string                `json:"sync,omitempty" doc:"Synced, OutOfSync, Unknown"`
	Revision   string                `json:"revision,omitempty" doc:"Commit that was compared"`
	Health     string                `json:"health,omitempty" doc:"Healthy, Progressing, Degraded, Suspended, Missing, Unknown"`
	Message    string                `json:"message,omitempty"`
	Conditions []DeploymentCondition `json:"conditions,omitempty"`
	Resources  []DeployedResource    `json:"resources,omitempty"`
	More       int                   `json:"more,omitempty" doc:"Resources that are not listed"`
	Operation  json.RawMessage       `json:"operation,omitempty" doc:"operationState of the Application, where there is one"`
	History    []DeployedRevision    `json:"history,omitempty" doc:"Oldest first"`
	Diff       []DeployedDifference  `json:"diff,omitempty" doc:"What a sync would change"`
	NoDiff     string                `json:"no_diff,omitempty" doc:"Why the diff has no lines although something differs"`
	Healed     *DeploymentHealed     `json:"healed,omitempty" doc:"What was last put right behind somebody's back"`
	Compared   *DeploymentCompared   `json:"compared,omitempty" doc:"What was last compared with what: reconciledState of the custom resource"`
}

// DeploymentCompared is what Sync is about, which may be behind what is asked for.
type DeploymentCompared struct {
	Repository string `json:"repository"`
	Path       string `json:"path"`
	Revision   string `json:"revision,omitempty" doc:"Branch, tag or commit as it was asked for"`
	Target     string `json:"target,omitempty" doc:"Name of the target; absent: the engine's own cluster"`
	Namespace  string `json:"namespace,omitempty"`
}

// DeploymentHealed is something that was put right.
type DeploymentHealed struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// DeploymentCondition is a trouble, or one that was resolved.
type DeploymentCondition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
}

// DeployedResource is one object of a deployment.
type DeployedResource struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Status    string `json:"status,omitempty"`
	Health    string `json:"health,omitempty"`
	Message   string `json:"message,omitempty"`
}

// DeployedRevision is a sync that succeeded.
type DeployedRevision struct {
	ID       int64  `json:"id"`
	Revision string `json:"revision"`
	// Where it was read, and what was asked for there; empty: that is not known.
	Repository string    `json:"repository,omitempty" doc:"URL that it was read from"`
	Path       string    `json:"path,omitempty" doc:"Directory that it was read from"`
	Asked      string    `json:"asked,omitempty" doc:"Branch, tag or commit that was asked for"`
	Author     string    `json:"author,omitempty"`
	Message    string    `json:"message,omitempty"`
	By         string    `json:"by,omitempty"`
	Cause      string    `json:"cause,omitempty" doc:"The push that led to it: push:<git server>/<ref>@<commit> by <who>; empty: none that is known"`
	Started    time.Time `json:"started,omitzero"`
	Deployed   time.Time `json:"deployed,omitzero"`
}

// DeployedDifference is what a sync would change in one object.
type DeployedDifference struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Change    string `json:"change,omitempty" enum:"create,change,remove" doc:"What a sync would do with it; remove: one that prunes"`
	Text      string `json:"text" doc:"Lines of a unified diff, without values of Secrets; empty for what is to be removed, and for what is beyond the first 16 KiB"`
}

// PutRepository keeps the credential of a repository: PUT /api/v1/repositories/<name>.
type PutRepository struct {
	Workspace  string `json:"workspace,omitempty" maxLength:"256" doc:"Default: the caller's organisation's own"`
	URL        string `json:"url" minLength:"1" maxLength:"2048" doc:"https:// or ssh://"`
	Username   string `json:"username,omitempty" maxLength:"256"`
	Password   string `json:"password,omitempty" maxLength:"8192" doc:"Or a token; sealed, and never shown again"`
	SSHKey     string `json:"ssh_key,omitempty" maxLength:"65536" doc:"Private key in PEM; sealed, and never shown again"`
	KnownHosts string `json:"known_hosts,omitempty" maxLength:"65536" doc:"Lines of known_hosts; default: the server's"`
}

// PutTarget takes a cluster in that the caller brings along: PUT /api/v1/targets/<name>.
type PutTarget struct {
	Workspace        string   `json:"workspace,omitempty" maxLength:"256" doc:"Default: the caller's organisation's own"`
	URL              string   `json:"url" minLength:"1" maxLength:"2048" doc:"Of its API: https://"`
	Kubeconfig       string   `json:"kubeconfig" minLength:"1" maxLength:"262144" doc:"With a cluster of that URL and a context for it; sealed, and never shown again"`
	Insecure         bool     `json:"insecure,omitempty" doc:"Do not verify its certificate"`
	NewAccount       bool     `json:"new_account,omitempty" doc:"Make a service account there and use its token; default: the token of the kubeconfig"`
	Namespaces       []string `json:"namespaces,omitempty" maxItems:"256" doc:"That may be deployed to; default: all"`
	ClusterResources bool     `json:"cluster_resources,omitempty" doc:"Objects without a namespace may be deployed, where namespaces are named"`
}

// PutWorkspace says where an organisation may deploy to: PUT /api/v1/workspaces/<name>,
// operators only.
type PutWorkspace struct {
	Org              string  `json:"org,omitempty" maxLength:"256" doc:"Whose it is; default: the workspace's name"`
	Engine           string  `json:"engine,omitempty" maxLength:"256" doc:"Cluster whose agent carries out deployments to targets"`
	Reach            []Reach `json:"reach,omitempty" maxItems:"64"`
	ClusterResources bool    `json:"cluster_resources,omitempty" doc:"Objects without a namespace may be deployed"`
}

// Reach is a cluster and the namespaces of it that may be deployed to.
type Reach struct {
	Cluster    string   `json:"cluster" minLength:"1" maxLength:"256" doc:"Id, or * for any"`
	Namespaces []string `json:"namespaces" minItems:"1" maxItems:"64" doc:"Names, or prefixes that end in *"`
}

// WebhookSecret signs the pushes of an organisation's repositories:
// POST /api/v1/webhooks/git/secret.
type WebhookSecret struct {
	URL          string `json:"url" doc:"Where the Git server is to send pushes"`
	Secret       string `json:"secret"`
	SigningToken string `json:"signing_token,omitempty" doc:"The same for GitLab 19 and later, as a signing token"`
}

// Pushed answers a webhook.
type Pushed struct {
	Deployments int `json:"deployments" doc:"That are looked at now"`
}
