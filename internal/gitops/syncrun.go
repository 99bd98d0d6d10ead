package gitops

import (
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// Phases of a sync run.
const (
	Waiting     = "waiting" // for its deployment, or for runs before it
	Running     = "running"
	Succeeded   = "succeeded"
	RunFailed   = "failed"
	Terminating = "terminating"
	Terminated  = "terminated"
)

// KindSyncRun declares sync runs. The parent is the deployment, once it is there.
// They are carried out in the order in which they were made, which is not always
// that in which they were heard of.
var KindSyncRun = ledger.Kind{
	Name:   "syncrun",
	Fields: []ledger.Field{{Name: "workspace", Type: ledger.Text}, {Name: "deployment", Type: ledger.Text}, {Name: "made", Type: ledger.Time}}, // deployment: name
	Totals: [][]string{{}, {"org"}},
	Text:   []string{"name"},
	Lookup: []string{"workspace", "deployment"},
}

// SyncRunSpec is what was asked for. Deployment and Revision never change.
type SyncRunSpec struct {
	Deployment string  `json:"deployment"` // name
	Revision   string  `json:"revision,omitempty"`
	Prune      bool    `json:"prune"`
	Deleted    bool    `json:"deleted,omitempty"`
	Stop       bool    `json:"stop,omitempty"` // it is to end, and to be kept
	Origin     *Origin `json:"origin,omitempty"`
	Invalid    string  `json:"invalid,omitempty"` // why it cannot be changed to what was written since
	// Made is when somebody asked for it.
	Made time.Time `json:"made,omitzero"`
	// Seal of one that a custom resource asks for tells whether somebody else has written
	// it; empty: a version before has.
	Seal string `json:"seal,omitempty"`
}

// SyncRunStatus is how it goes.
type SyncRunStatus struct {
	Run      *runtime.SyncRun `json:"run,omitempty"` // as the agent tells it
	Error    string           `json:"error,omitempty"`
	Since    time.Time        `json:"since,omitzero"`
	Mirrored string           `json:"mirrored,omitempty"`

	Operation string `json:"operation,omitempty"`
	Cause     string `json:"cause,omitempty"` // of the operation
}

// SyncRun is an object with its documents decoded.
type SyncRun struct {
	ledger.Object
	Spec   SyncRunSpec
	Status SyncRunStatus
}
