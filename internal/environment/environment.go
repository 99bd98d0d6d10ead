package environment

import (
	"encoding/json"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
)

// Phases of an environment.
const (
	Deploying  = "Deploying"
	Waiting    = "Deployed-Waiting" // made; being validated
	OK         = "Deployed-OK"
	Fail       = "Deployed-Fail"
	Destroying = "Destroying"
	Destroyed  = "Destroyed" // the object is soft-deleted
)

// Phases of a resource.
const (
	Pending         = "pending"  // waits for what it needs
	Blocked         = "blocked"  // waits for one that has failed: a retry or another plan helps
	Applying        = "applying" // its executor is at work
	Ready           = "ready"
	Failed          = "failed"
	ResourceLeaving = "destroying" // to go, once nothing needs it
	ResourceGone    = "destroyed"  // the object is soft-deleted
)

// Phases of a plan.
const (
	Planning   = "planning"
	Planned    = "planned"  // it can be applied
	Unplanned  = "failed"   // it could not be made
	Forbidden  = "denied"   // by a policy
	Asking     = "approval" // a policy wants somebody's approval first
	Superseded = "moved"    // something has moved since
	Applied    = "applied"
)

// Phases of a drift record.
const (
	DriftOpen      = "open"
	DriftCorrected = "corrected"
	DriftGone      = "gone" // it is as expected again, by itself or by somebody's hand
)

// Kind declares environments to the ledger.
var Kind = ledger.Kind{
	Name: "environment",
	Fields: []ledger.Field{
		{Name: "template", Type: ledger.Text},
		{Name: "version", Type: ledger.Text},
		{Name: "tags", Type: ledger.Text}, // each between commas: ",data,prod,"
		{Name: "ends", Type: ledger.Time}, // planned destruction
		{Name: "drifted", Type: ledger.Int},
	},
	Totals:   [][]string{{}, {"org"}, {"template"}, Census},
	Text:     []string{"name", "tags"},
	Lookup:   []string{"template", "owner"},
	Searched: true, Linked: true,
}

// Census are the columns by which metrics count environments.
var Census = []string{"phase"}

// KindResource declares resources. The parent is the environment, the name the
// address.
var KindResource = ledger.Kind{
	Name: "resource",
	Fields: []ledger.Field{
		{Name: "environment", Type: ledger.Text}, // name
		{Name: "executor", Type: ledger.Text},
		{Name: "group", Type: ledger.Text},
		{Name: "tags", Type: ledger.Text},
		{Name: "template", Type: ledger.Text},
		{Name: "drifted", Type: ledger.Bool},
	},
	Scope:    []string{"parent"},
	Totals:   [][]string{{}, {"parent", "phase"}},
	Text:     []string{"name", "tags"},
	Lookup:   []string{"executor", "org", "owner"},
	Searched: true, Linked: true,
}

// KindPlan declares plans. The parent is the environment, where there is one
// already.
var KindPlan = ledger.Kind{
	Name: "plan",
	Fields: []ledger.Field{
		{Name: "environment", Type: ledger.Text},
		{Name: "hash", Type: ledger.Text},
		{Name: "approval", Type: ledger.Text}, // that it waits for
	},
	Totals: [][]string{{}, {"org"}},
	Lookup: []string{"hash", "environment", "approval"},
}

// KindDrift declares the records of what differed: the parent is the resource.
var KindDrift = ledger.Kind{
	Name:   "drift",
	Fields: []ledger.Field{{Name: "environment", Type: ledger.Text}, {Name: "address", Type: ledger.Text}},
	Totals: [][]string{{}, {"org"}},
	Lookup: []string{"environment"},
}

// Kinds declares all of them.
func Kinds() []ledger.Kind {
	return []ledger.Kind{Kind, KindResource, KindPlan, KindDrift, KindRun, KindState}
}

// Spec is what was asked for: the one place of intent.
type Spec struct {
	Description string         `json:"description,omitempty"`
	Tags        []string       `json:"tags,omitempty"`
	Template    string         `json:"template"` // name
	Version     string         `json:"version"`  // id of the template's version
	Parameters  map[string]any `json:"parameters,omitempty"`
	// Plan that is carried out: its id.
	Plan string `json:"plan,omitempty"`
	// Told is what was said of it when that plan was made: its template knows it by
	// that until the next one, whatever people write meanwhile.
	Told *Told `json:"told,omitempty"`
	// Next is the plan that is to be taken up. Until it is, everything else here is
	// as it was: a plan that comes out otherwise by then touches nothing.
	Next *Next `json:"next,omitempty"`
	// Turn moves with every apply, retry and destroy: resources carry the one that
	// they were last worked on for.
	Turn int64 `json:"turn"`
	// Planned is the turn that Plan was taken up for: later ones only go on with it.
	Planned int64 `json:"planned,omitempty"`
	// Previous is the version and parameters before the last upgrade, to go back to.
	Previous *Before `json:"previous,omitempty"`
	// Ends is the planned destruction; zero: never. Protected: until that is taken
	// back it cannot be destroyed, by nobody and no date.
	Ends      time.Time `json:"ends,omitzero"`
	Protected bool      `json:"protected,omitempty"`
	// FirstEnd is the end that it was made with: whoever wanted it has agreed to that.
	FirstEnd time.Time `json:"first_end,omitzero"`
	// Operator: an operator of the control plane has made it. Connections may be
	// for those alone.
	Operator bool `json:"operator,omitempty"`
	Destroy  bool `json:"destroy,omitempty"`
	// Look moves with every wish to observe now.
	Look int64 `json:"look,omitempty"`
	// Handed: another control plane keeps it, and nobody works on it here.
	Handed *Handed `json:"handed,omitempty"`
}

// Next is a plan that somebody wants.
type Next struct {
	Plan string `json:"plan"` // its id
	// Hash that was looked at. Empty: nobody did, and it is taken up as it is made.
	Hash string `json:"hash,omitempty"`
	// Operation that ends when the plan has been carried out, or was not taken up.
	Operation string `json:"operation"`
}

// Told is what people say of an environment.
type Told struct {
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
}

// Before is what an environment was made of.
type Before struct {
	Version    string         `json:"version"`
	Parameters map[string]any `json:"parameters,omitempty"`
}

// Status is what has become of an environment.
type Status struct {
	Message   string                     `json:"message,omitempty"` // what it waits for or why it failed, and what to do
	Since     time.Time                  `json:"since,omitzero"`
	Operation string                     `json:"operation,omitempty"` // the running one
	Tries     int                        `json:"tries,omitempty"`     // at taking up the next plan
	Laid      int64                      `json:"laid,omitempty"`      // the turn whose resources are laid out
	Counts    Counts                     `json:"counts"`
	Groups    []Group                    `json:"groups,omitempty"`
	Outputs   map[string]json.RawMessage `json:"outputs,omitempty"` // those that are not secret
	Secrets   map[string]string          `json:"secrets,omitempty"` // output: reference of the keeper's
	Anew      int64                      `json:"untold,omitempty"`  // corrections that have changed what its outputs are made of, untold
	Entries   []Endpoint                 `json:"entries,omitempty"`
	Checks    []Endpoint                 `json:"checks,omitempty"`
	Reminded  time.Time                  `json:"reminded,omitzero"`  // of the end, or when that was set
	Ended     time.Time                  `json:"ended,omitzero"`     // the end had come, and it was said or tried
	EndPlan   string                     `json:"end_plan,omitempty"` // the plan of that, which is made again each time it is tried
	Looked    int64                      `json:"looked,omitempty"`
	Observed  time.Time                  `json:"observed,omitzero"`
	Deployed  time.Time                  `json:"deployed,omitzero"`
	Destroyed time.Time                  `json:"destroyed,omitzero"`
}

// Counts of an environment's resources.
type Counts struct {
	Total    int64 `json:"total"`
	Ready    int64 `json:"ready"`
	Pending  int64 `json:"pending"`
	Applying int64 `json:"applying"`
	Failed   int64 `json:"failed"`
	Blocked  int64 `json:"blocked"` // wait for one that has failed
	Leaving  int64 `json:"leaving"`
	Drifted  int64 `json:"drifted"`
}

// Group is a resource group with a status of its own.
type Group struct {
	Address  string   `json:"address"`
	Name     string   `json:"name"`
	Tags     []string `json:"tags,omitempty"`
	Template string   `json:"template"` // that makes it
	Status   string   `json:"status"`   // as that of an environment
	Counts   Counts   `json:"counts"`
}

// Endpoint is an entry point or status endpoint with what was last seen of it.
type Endpoint struct {
	Name    string    `json:"name"`
	Of      string    `json:"of,omitempty"` // address of the resource; empty: the environment's
	URL     string    `json:"url"`
	OK      *bool     `json:"ok,omitempty"`  // nil: not decided yet
	Row     int       `json:"row,omitempty"` // how many of the same in a row
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

// ResourceSpec is what a resource should be: a place in the layout of its
// environment's template and parameters.
type ResourceSpec struct {
	Address     string   `json:"address"`
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	Executor    string   `json:"executor"`
	Connection  string   `json:"connection,omitempty"`
	Template    string   `json:"template"` // "<name>@<version>" that made it
	Group       string   `json:"group,omitempty"`
	Needs       []string `json:"needs,omitempty"` // ids of resources
	// Needed are the ids of those that must have gone, or learned to do without it,
	// before it goes: only of one that is to go. Who needs one that stays is in the
	// layout and in the links of those: thousands would make it too large to look at.
	Needed   []string `json:"needed,omitempty"`
	Frees    []string `json:"frees,omitempty"` // ids of those that may go once it does without them
	External []string `json:"external,omitempty"`
	Turn     int64    `json:"turn"`
	Absent   bool     `json:"absent,omitempty"` // it is to go
	Action   string   `json:"action,omitempty"` // of the plan; empty: without a plan
	Mark     string   `json:"mark,omitempty"`   // what the plan saw
	Drift    string   `json:"drift,omitempty"`
	Protect  bool     `json:"protect,omitempty"`
}

// ResourceStatus is what has become of a resource.
type ResourceStatus struct {
	Message  string                     `json:"message,omitempty"`
	Since    time.Time                  `json:"since,omitzero"`
	Turn     int64                      `json:"turn,omitempty"` // that was last carried out
	Attempts int                        `json:"attempts,omitempty"`
	Resting  time.Time                  `json:"resting,omitzero"`  // since when its executor has not answered in this turn
	Moved    bool                       `json:"moved,omitempty"`   // it failed because it is not as its plan has seen it
	Version  string                     `json:"version,omitempty"` // of the environment's template, applied last
	With     json.RawMessage            `json:"with,omitempty"`    // the inputs that were applied last, if none of them is secret
	Sealed   string                     `json:"sealed,omitempty"`  // otherwise: reference of the keeper's
	State    string                     `json:"state,omitempty"`   // reference of the keeper's
	Outputs  map[string]json.RawMessage `json:"outputs,omitempty"`
	Secrets  map[string]string          `json:"secrets,omitempty"`
	Links    []executor.Link            `json:"links,omitempty"`
	Made     []string                   `json:"made,omitempty"`
	Checks   []Endpoint                 `json:"checks,omitempty"`
	Mark     string                     `json:"mark,omitempty"`
	Observed time.Time                  `json:"observed,omitzero"`
	// Seen is "present", "drifted", "absent", "unknown" (it could not be looked at: Why), or
	// nothing before the first look.
	Seen        string           `json:"seen,omitempty"`
	Why         string           `json:"why,omitempty"`
	Drift       []executor.Field `json:"drift,omitempty"`
	DriftRecord string           `json:"drift_record,omitempty"`
	Looked      int64            `json:"looked,omitempty"`    // the wish that was last answered
	Anew        int64            `json:"anew,omitempty"`      // how often what it uses was made anew by a correction
	Corrected   []time.Time      `json:"corrected,omitempty"` // within the last hour
	Log         string           `json:"log,omitempty"`       // digest of the last turn's log
	LogFrom     int64            `json:"log_from,omitempty"`  // how much of its beginning is not kept
	LogTurn     int64            `json:"log_turn,omitempty"`  // that it is of
}

// PlanSpec is what a plan was asked for.
type PlanSpec struct {
	Environment string         `json:"environment"`  // name
	ID          string         `json:"id,omitempty"` // of the environment, if there is one
	Template    string         `json:"template"`
	Version     string         `json:"version"`
	Parameters  map[string]any `json:"parameters,omitempty"`
	Description string         `json:"description,omitempty"`
	Tags        []string       `json:"tags,omitempty"`
	// Describes and Tagged: whoever asked named them. What was not named is as it was
	// when the plan was made, and what people write meanwhile stays.
	Describes bool          `json:"describes,omitempty"`
	Tagged    bool          `json:"tagged,omitempty"`
	TTL       time.Duration `json:"ttl,omitempty"`
	Destroy   bool          `json:"destroy,omitempty"`
	Operator  bool          `json:"operator,omitempty"` // see Spec
	// End: it is the environment's own end, which needs no approval: it was made with
	// that end.
	End bool `json:"end,omitempty"`
	// Sooner: that end was set, or brought forward, after it was made: approvals are
	// asked for as for any destruction.
	Sooner bool `json:"sooner,omitempty"`
	// Apply it as soon as it is made: it was asked for without a look at it.
	Apply bool `json:"apply,omitempty"`
}

// PlanStatus is what a plan found. The changes are a blob: thousands do not fit
// an object.
type PlanStatus struct {
	Hash     string    `json:"hash,omitempty"`
	Changes  string    `json:"changes,omitempty"` // digest of a blob of []PlannedChange
	Creates  int       `json:"creates"`
	Updates  int       `json:"updates"`
	Replaces int       `json:"replaces"`
	Destroys int       `json:"destroys"`
	Same     int       `json:"same"`
	Verdicts []Verdict `json:"verdicts,omitempty"` // of policies
	Approval string    `json:"approval,omitempty"`
	Message  string    `json:"message,omitempty"`
	Made     time.Time `json:"made,omitzero"`
	// Basis is the environment's turn that it was made in: 0 if there was none.
	Basis int64 `json:"basis"`
}

// PlannedChange is one resource of a plan.
type PlannedChange struct {
	ID       string           `json:"id"` // of the resource
	Address  string           `json:"address"`
	Executor string           `json:"executor"`
	Action   executor.Action  `json:"action"`
	Why      string           `json:"why,omitempty"`
	Tags     []string         `json:"tags,omitempty"`
	Group    string           `json:"group,omitempty"`
	Needs    []string         `json:"needs,omitempty"`
	Fields   []executor.Field `json:"fields,omitempty"`
	Mark     string           `json:"mark,omitempty"`
	// Unknown: it depends on what is known only after others were applied.
	Unknown bool `json:"unknown,omitempty"`
	// Protected by the template: it cannot be destroyed or replaced.
	Protected bool `json:"protected,omitempty"`
}

// Verdict of a policy on one change.
type Verdict struct {
	Policy  string `json:"policy"`
	Address string `json:"address"`
	Effect  string `json:"effect"`
	Message string `json:"message,omitempty"`
}

// DriftSpec is one difference with its history.
type DriftSpec struct {
	Environment string           `json:"environment"`
	Address     string           `json:"address"`
	What        string           `json:"what"` // drifted, absent, stray
	First       time.Time        `json:"first"`
	Expected    map[string]any   `json:"expected,omitempty"`
	Actual      map[string]any   `json:"actual,omitempty"`
	Fields      []executor.Field `json:"fields,omitempty"`
	By          string           `json:"by,omitempty"`
	Policy      string           `json:"policy"`
	Last        time.Time        `json:"last"`
	Ended       time.Time        `json:"ended,omitzero"`
}
