// Package v1 holds the wire structs of Drover's own API, /api/v1. It knows
// nothing but the standard library; server, client and agent share it.
package v1

import (
	"encoding/json"
	"time"
)

// Object is anything the ledger holds.
type Object struct {
	Kind       string            `json:"kind" doc:"The ledger's kind: instance, offering, cluster, operation, user, ..."`
	ID         string            `json:"id"`
	Resource   string            `json:"resource,omitempty" doc:"The name users know it by: dinosaurs, offerings, ..."`
	Org        string            `json:"org,omitempty"`
	Owner      string            `json:"owner,omitempty"`
	Name       string            `json:"name,omitempty"`
	Phase      string            `json:"phase,omitempty"`
	Parent     string            `json:"parent,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Fields     map[string]any    `json:"fields,omitempty"`
	Generation int64             `json:"generation" doc:"Moves when the intent changes"`
	Version    int64             `json:"version" doc:"Moves on every write"`
	Spec       json.RawMessage   `json:"spec,omitempty"`
	Status     json.RawMessage   `json:"status,omitempty"`
	Created    time.Time         `json:"created"`
	Updated    time.Time         `json:"updated"`
	Deleted    *time.Time        `json:"deleted,omitempty"`
}

// List is one page of objects.
type List struct {
	Page  int      `json:"page"`
	Size  int      `json:"size"`
	Total int64    `json:"total"`
	Seq   int64    `json:"seq,omitempty" doc:"The log's newest sequence before the page was read: watch after it to miss nothing"`
	Items []Object `json:"items"`
}

// Change is one entry of the log.
type Change struct {
	Seq    int64     `json:"seq"`
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Cause  string    `json:"cause" doc:"request:<id>, change:<kind>/<id>@<version>, report:<cluster>@<n>, resource:<home>/<kind>/<namespace>/<name>, push:<git server>/<ref>@<commit> by <who> or schedule:<what>"`
	Op     string    `json:"op"`
	Object Object    `json:"object"`
}

// Changes is a piece of the log. Resume after Next.
type Changes struct {
	Items []Change `json:"items"`
	Next  int64    `json:"next"`
	Since int64    `json:"since,omitempty" doc:"What is not newer than this was not looked at, or is not there any more: only what each object was then"`
}

// Resource is something verbs apply to: a kind of the ledger, or an offering's
// instances under the offering's own names.
type Resource struct {
	Name     string   `json:"name" doc:"Plural: dinosaurs"`
	Singular string   `json:"singular"`
	Kind     string   `json:"kind" doc:"The ledger's kind"`
	Offering string   `json:"offering,omitempty"`
	API      string   `json:"api,omitempty" doc:"Path of the offering's public API"`
	Verbs    []string `json:"verbs"`
}

// Resources lists what this server knows.
type Resources struct {
	Items []Resource `json:"items"`
}

// CreateInstance orders an instance: POST /api/v1/<resource>.
type CreateInstance struct {
	Name       string         `json:"name"`
	Provider   string         `json:"cloud_provider,omitempty"`
	Region     string         `json:"region,omitempty"`
	MultiAZ    *bool          `json:"multi_az,omitempty"`
	Plan       string         `json:"plan,omitempty" doc:"<type>.<size>"`
	Version    string         `json:"version,omitempty"`
	Parameters map[string]any `json:"parameters,omitempty"`
	// How it is paid for; the zero values leave the choice to quota and offering.
	BillingModel   string `json:"billing_model,omitempty"`
	Marketplace    string `json:"marketplace,omitempty"`
	BillingAccount string `json:"billing_cloud_account_id,omitempty" doc:"Account at the marketplace"`
	Cluster        string `json:"cluster_id,omitempty" doc:"One of the tenant's own clusters"`
}

// UpdateInstance changes intent: PATCH /api/v1/<resource>/<id or name>. Absent
// fields stay.
type UpdateInstance struct {
	Owner      *string        `json:"owner,omitempty"`
	Version    *string        `json:"version,omitempty" doc:"Of the offering's first component"`
	Suspended  *bool          `json:"suspended,omitempty" doc:"Operators only"`
	Parameters map[string]any `json:"parameters,omitempty"`
	// Versions by component.
	Versions map[string]string `json:"versions,omitempty" doc:"Versions by component; operators only"`
}

// Promote asks for another billing model while the instance runs:
// POST /api/v1/<resource>/<id or name>/promote.
type Promote struct {
	BillingModel   string `json:"billing_model" maxLength:"256"`
	Marketplace    string `json:"marketplace,omitempty" maxLength:"256"`
	BillingAccount string `json:"billing_cloud_account_id,omitempty" maxLength:"256" doc:"Account at the marketplace"`
}

// TokenRequest asks the built-in issuer for a token: POST /api/v1/tokens, admins only.
type TokenRequest struct {
	User     string `json:"user,omitempty"`
	Org      string `json:"org,omitempty"`
	OrgAdmin bool   `json:"org_admin,omitempty"`
	Admin    bool   `json:"admin,omitempty"`
	Cluster  string `json:"cluster,omitempty" doc:"A token for this cluster's agent instead of a user"`
	TTL      string `json:"ttl,omitempty" doc:"Default 1h for users, 8760h for agents"`
}

// Token is a signed JWT.
type Token struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// Error is the one error object, shared by every API of the server.
type Error struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"`
	Href        string `json:"href"`
	Code        string `json:"code"`
	Reason      string `json:"reason"`
	OperationID string `json:"operation_id,omitempty" doc:"The request's id; it is in the server's log and in the cause of what the request did"`
}

// CreateCluster makes a data plane, or makes one known that is there: POST
// /api/v1/clusters, admins only.
type CreateCluster struct {
	Name     string `json:"name" doc:"Also the id that its agent speaks for"`
	Provider string `json:"cloud_provider,omitempty" doc:"Needed, unless the profile says: instances are placed by it"`
	Region   string `json:"region,omitempty" doc:"Needed, likewise"`
	Profile  string `json:"profile,omitempty" maxLength:"63" doc:"The profile that says what makes it; default: it is there already"`
	Domain   string `json:"domain,omitempty" maxLength:"253" doc:"Base domain of its routes"`
	// Kubeconfig is sealed; it is never shown again.
	Kubeconfig string            `json:"kubeconfig,omitempty" doc:"To reach it with; default: only its agent reaches it. It is sealed, and never shown again"`
	Labels     map[string]string `json:"labels,omitempty" doc:"zone is its failure domain"`
	Taints     []string          `json:"taints,omitempty" maxItems:"100" doc:"Instances are placed there only if their offering tolerates all of them"`
	Limit      *int64            `json:"limit,omitempty" minimum:"0" doc:"Units that may be placed there, whatever its agent says; default: as many as fit"`
}

// UpdateCluster changes a data plane: PATCH /api/v1/clusters/<id>, admins only.
// Absent fields stay.
type UpdateCluster struct {
	Installation *string           `json:"installation,omitempty" doc:"The agent installation that the cluster belongs to from now on; empty: the next one that connects"`
	Labels       map[string]string `json:"labels,omitempty" doc:"Those that are named; an empty value takes one away"`
	Taints       *[]string         `json:"taints,omitempty" doc:"All of them, in place of those before"`
	Limit        *int64            `json:"limit,omitempty" minimum:"-1" doc:"Units that may be placed there; -1: as many as fit"`
	Schedulable  *bool             `json:"schedulable,omitempty" doc:"Whether it takes new orders"`
}

// DrainCluster empties a data plane: POST /api/v1/clusters/<id>/drain, admins only.
type DrainCluster struct {
	Force bool `json:"force,omitempty" doc:"Also while instances run there that cannot be moved: it takes no new orders, and is empty once they have ended"`
}

// Accept says which version of the terms was read: POST /api/v1/terms/<name>/accept.
type Accept struct {
	Version string `json:"version,omitempty" maxLength:"255" doc:"Refused if there is another one by now; default: whatever it is"`
}
