package gitops

import (
	"encoding/json"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// Phases of a deployment.
const (
	Pending   = "pending"   // nothing was handed to an agent yet, or it cannot be
	Deploying = "deploying" // handed over; not in sync and healthy yet
	Deployed  = "deployed"  // in sync and healthy
	OutOfSync = "outofsync" // manual, and Git has something else
	Failed    = "failed"    // in trouble: Error or conditions tell
	Deleting  = "deleting"
	Gone      = "gone" // soft-deleted
)

// KindDeployment declares deployments. The parent is the workspace, or the
// deployment with the selector that made it.
var KindDeployment = ledger.Kind{
	Name: "deployment",
	Fields: []ledger.Field{
		{Name: "workspace", Type: ledger.Text},
		{Name: "repository", Type: ledger.Text}, // normalised, for webhooks
		{Name: "engine", Type: ledger.Text},     // cluster whose agent has it
		{Name: "target", Type: ledger.Text},     // id
		{Name: "credential", Type: ledger.Text}, // id
		{Name: "selector", Type: ledger.Bool},   // it is for many clusters
		{Name: "sync", Type: ledger.Text},
		{Name: "health", Type: ledger.Text},
	},
	Totals:   [][]string{{}, {"org"}, {"workspace"}, {"phase"}, Census},
	Text:     []string{"name"},
	Lookup:   []string{"workspace", "repository", "engine", "target", "credential", "selector"},
	Searched: true, Linked: true,
}

// Census are the columns by which metrics count deployments.
var Census = []string{"sync", "health"}

// Spec is what was asked for: the one place of intent.
type Spec struct {
	Repository string `json:"repository"`
	Path       string `json:"path"`
	Revision   string `json:"revision,omitempty"` // branch, tag or commit; empty: HEAD
	To         To     `json:"to"`
	// Automated: Git is followed. Otherwise only sync runs change anything.
	Automated   bool     `json:"automated"`
	SyncOptions []string `json:"sync_options,omitempty"`
	Deleted     bool     `json:"deleted,omitempty"`
	// Keep: once it is deleted, what was deployed is left as it is.
	Keep bool `json:"keep,omitempty"`
	// Operator: an operator asked for it, who may deploy anywhere.
	Operator bool `json:"operator,omitempty"`
	// Previous is the revision before a rollback.
	Previous string  `json:"previous,omitempty"`
	Origin   *Origin `json:"origin,omitempty"`
	// Invalid is why the intent cannot be carried out as it was written, for the
	// user; nothing is handed over until it is written anew. What was deployed
	// before is left alone.
	Invalid string `json:"invalid,omitempty"`
}

// To is where a deployment goes: a target of the workspace, a cluster of the
// fleet, all clusters that a selector fits, or (all empty) the engine's own.
type To struct {
	Target    string            `json:"target,omitempty"`  // name
	Cluster   string            `json:"cluster,omitempty"` // id
	Selector  map[string]string `json:"selector,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
}

// Status is what became of it.
type Status struct {
	// Engine is the cluster whose agent was handed it, Runtime what that runs.
	Engine  string `json:"engine,omitempty"`
	Runtime string `json:"runtime,omitempty"`
	// What the agent must have: the digest of the blob that holds the body (with
	// references in place of secrets), and its count.
	Desired string `json:"desired,omitempty"`
	Digest  string `json:"digest,omitempty"`
	Issued  int64  `json:"issued,omitempty"`
	Token   int64  `json:"token,omitempty"`
	Remove  bool   `json:"remove,omitempty"` // the agent is to remove it
	// Released: the body says that it is to be let go of, and what was deployed left.
	Released bool `json:"released,omitempty"`
	// Leaving is the copy on an engine that it was on before, until it is gone.
	Leaving *Leaving `json:"leaving,omitempty"`
	// Target and Credential are the ids of those that the body has, Named is the
	// name that the target was asked for by.
	Target     string `json:"target,omitempty"`
	Named      string `json:"named,omitempty"`
	Credential string `json:"credential,omitempty"`
	// Detached: the body says that the target is gone. Abandoned is the target that
	// was gone when the deployment went somewhere else.
	Detached  bool   `json:"detached,omitempty"`
	Abandoned string `json:"abandoned,omitempty"`
	// Wanted is the cluster that it waits for, where it is on none.
	Wanted string `json:"wanted,omitempty"`

	Observed *Observed `json:"observed,omitempty"`
	// Error is the trouble on our side, for the user; empty: none.
	Error string `json:"error,omitempty"`
	// Patient: Error only says what is waited for.
	Patient    bool        `json:"patient,omitempty"`
	Told       string      `json:"told,omitempty"` // in place of Error to custom resources; empty: Error
	Conditions []Condition `json:"conditions,omitempty"`
	// Refresh counts how often the repository was said to have changed.
	// Pushed: it was said again too soon after Refreshed.
	Refresh   int64     `json:"refresh,omitempty"`
	Refreshed time.Time `json:"refreshed,omitzero"`
	Pushed    bool      `json:"pushed,omitempty"`
	// Pushes are those that it was told of and whose commits are not deployed yet.
	Pushes []Told `json:"pushes,omitempty"`
	// Read is the repository, normalised, that was read last, as far as that is known for
	// sure: by the control plane itself, or an agent of the fleet.
	Read string `json:"read,omitempty"`
	// Commit that is handed over where the control plane reads the repository
	// itself (runtime kubernetes), and when it was last looked at.
	Commit string    `json:"commit,omitempty"`
	Looked time.Time `json:"looked,omitzero"`
	// Head is the commit that the revision is now, Made tells of what (repository,
	// path, commit, run) the body was made that was handed over.
	Head string `json:"head,omitempty"`
	Made string `json:"made,omitempty"`
	// Run is the sync run that is under way, Sync the last that was asked for;
	// Operation is the running operation, Shown the last one as the agent shows it.
	Run       string                       `json:"run,omitempty"`
	Sync      *runtime.SyncRequest         `json:"sync,omitempty"`
	Operation string                       `json:"operation,omitempty"`
	Shown     *runtime.DeploymentOperation `json:"shown,omitempty"`
	History   []Revision                   `json:"history,omitempty"` // newest last
	Mirrored  string                       `json:"mirrored,omitempty"`
	// Unread is why the repository could not be read, where the control plane
	// reads it itself; empty: it could.
	Unread string `json:"unread,omitempty"`
	// Quiet says since when nothing is heard of the engine's agent; empty: it is.
	Quiet string `json:"quiet,omitempty"`
	// Lost is the sync run that was taken up and came to nothing, because what it
	// asks for could not be read, or because it was ended before it was.
	Lost *runtime.SyncRun `json:"lost,omitempty"`
	// Children of one with a selector, by cluster, and what has become of them.
	Children map[string]string `json:"children,omitempty"`
	Tally    *Tally            `json:"tally,omitempty"`
	Since    time.Time         `json:"since,omitzero"`
}

// Tally counts the deployments that one with a selector has made.
type Tally struct {
	Total    int `json:"total"`
	Deployed int `json:"deployed"`
	Failed   int `json:"failed"`
	Busy     int `json:"busy"` // whose operation has not ended
}

// Leaving is what an engine has of a deployment that is somewhere else by now.
type Leaving struct {
	Engine     string `json:"engine"`
	Runtime    string `json:"runtime"`
	Generation int64  `json:"generation"`
	Token      int64  `json:"token"`
	Desired    string `json:"desired,omitempty"`
	Digest     string `json:"digest"`
	Leaf       uint64 `json:"leaf,string,omitempty"`
}

// Observed is what the agent said of it last.
type Observed struct {
	Generation int64  `json:"generation"`
	State      string `json:"state"`
	Message    string `json:"message,omitempty"`
	Leaf       uint64 `json:"leaf,string,omitempty"`
	Engine     string `json:"engine"` // whose agent said it
	// Detail is a runtime.Deployed; Blob is the digest of one that is too large to
	// stand here, and Detail then has it without its resources.
	Detail json.RawMessage `json:"detail,omitempty"`
	Blob   string          `json:"blob,omitempty"`
}

// Condition is one as the custom resources have them: resolved, never removed.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"` // True, False
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Changed time.Time `json:"changed"`
}

// Revision is a sync that succeeded, with what Git says of its commit.
type Revision struct {
	runtime.DeployedRevision
	Author  string `json:"author,omitempty"`
	Message string `json:"message,omitempty"` // its first line
	Cause   string `json:"cause,omitempty"`   // the push that led to it; empty: none that is known
}

// Deployment is an object with its documents decoded.
type Deployment struct {
	ledger.Object
	Spec   Spec
	Status Status
}
