package gitops

import "github.com/droverhq/drover/internal/ledger"

// KindWorkspace declares workspaces. The id of one that is a namespace of a
// Kubernetes API is that namespace's UID.
var KindWorkspace = ledger.Kind{
	Name:   "workspace",
	Fields: []ledger.Field{{Name: "home", Type: ledger.Text}},
	Totals: [][]string{{}, {"org"}},
	Text:   []string{"name"},
	Lookup: []string{"home"},
}

// WorkspaceSpec says who deploys, and where that may be.
type WorkspaceSpec struct {
	// Home is the Kubernetes API whose namespace it is, by the name that the server
	// was given for it; empty: it is an organisation's, used through Drover's API.
	Home      string `json:"home,omitempty"`
	Namespace string `json:"namespace,omitempty"` // of that API
	// Engine is the cluster whose agent carries out what names no cluster itself.
	Engine string `json:"engine,omitempty"`
	// Reach is where deployments of it may go besides their targets. Empty for a
	// namespace: into itself alone, on the engine's own cluster.
	Reach []Reach `json:"reach,omitempty"`
	// ClusterResources: objects without a namespace may be deployed. Default: not.
	ClusterResources bool `json:"cluster_resources,omitempty"`
	// Seal of one that is a namespace tells whether somebody else has written it.
	Seal string `json:"seal,omitempty"`
}

// Reach is a cluster of the fleet and the namespaces of it that may be used.
type Reach struct {
	Cluster    string   `json:"cluster"`    // id; "*": any
	Namespaces []string `json:"namespaces"` // names, or prefixes that end in "*"
}

// Origin is the custom resource that an object mirrors; nil for what Drover's API
// was asked for. The id of the object is the resource's UID.
type Origin struct {
	Home       string `json:"home"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	// Held: a finalizer keeps the resource until all that was deployed is gone.
	Held bool `json:"held,omitempty"`
	// Reading is how the resource was read when this was written.
	Reading int `json:"reading,omitempty"`
}

// Workspace is an object with its documents decoded.
type Workspace struct {
	ledger.Object
	Spec WorkspaceSpec
}
