package gitops

import (
	"encoding/json"
	"time"

	"github.com/droverhq/drover/internal/runtime"
)

// DeploymentView is what users see of a deployment: of what Mirror is told, and
// the API shows.
type DeploymentView struct {
	Conditions []Condition                `json:"conditions,omitempty"`
	Sync       runtime.SyncStatus         `json:"sync"`
	Health     runtime.HealthStatus       `json:"health"`
	Resources  []runtime.DeployedResource `json:"resources,omitempty"`
	More       int                        `json:"more,omitempty"`
	// Compared is what was last compared, with the target by its name.
	Compared  *runtime.Compared `json:"compared,omitempty"`
	Operation json.RawMessage   `json:"operation,omitempty"`
	History   []Revision        `json:"history,omitempty"`
	// Diff is what a sync would change, NoDiff why that has no lines. Custom
	// resources do not show it.
	Diff   []runtime.ResourceDifference `json:"diff,omitempty"`
	NoDiff string                       `json:"no_diff,omitempty"`
	// Healed is what was last put right behind somebody's back.
	Healed *runtime.Healed `json:"healed,omitempty"`
}

// SyncRunView is what users see of a sync run.
type SyncRunView struct {
	Phase      string           `json:"phase"` // as Argo CD words it; Waiting before
	Message    string           `json:"message,omitempty"`
	Run        *runtime.SyncRun `json:"run,omitempty"`
	Conditions []Condition      `json:"conditions,omitempty"`
}

// RepositoryView is what users see of a credential.
type RepositoryView struct {
	Conditions []Condition `json:"conditions,omitempty"`
	Checked    time.Time   `json:"checked,omitzero"`
}

// TargetView is what users see of a target.
type TargetView struct {
	Conditions []Condition `json:"conditions,omitempty"`
}
