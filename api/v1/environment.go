package v1

import (
	"encoding/json"
	"time"
)

// AddTemplate brings a version of a template in: POST /api/v1/templates,
// operators only. Either a repository is named, which the server reads, or the
// files are sent along.
type AddTemplate struct {
	Repository string            `json:"repository,omitempty" maxLength:"2048" doc:"URL of a Git repository: https, or ssh"`
	Revision   string            `json:"revision,omitempty" maxLength:"256" doc:"Branch, tag or commit; default: the default branch"`
	Path       string            `json:"path,omitempty" maxLength:"1024" doc:"Directory of the template in the repository"`
	Username   string            `json:"username,omitempty" maxLength:"256" doc:"For a repository that asks; used once and not kept"`
	Password   string            `json:"password,omitempty" maxLength:"8192" doc:"Or a token; used once and not kept"`
	SSHKey     string            `json:"ssh_key,omitempty" maxLength:"65536" doc:"Private key in PEM; used once and not kept"`
	KnownHosts string            `json:"known_hosts,omitempty" maxLength:"65536" doc:"Lines of known_hosts; ssh is refused without"`
	Files      map[string][]byte `json:"files,omitempty" doc:"Files by path, in base64, instead of a repository"`
	Origin     string            `json:"origin,omitempty" maxLength:"1024" doc:"Where the files come from, for people"`
	DryRun     bool              `json:"dry_run,omitempty" doc:"Only say what is wrong with it"`
}

// TemplateVersion is the answer: the version, and whether it is new.
type TemplateVersion struct {
	Object
	New bool `json:"new" doc:"False: the same commit was there already"`
}

// Executors lists what resources of a template are made by: GET /api/v1/executors.
type Executors struct {
	Items []Executor `json:"items"`
}

// Executor is one of them.
type Executor struct {
	Name     string           `json:"name"`
	Summary  string           `json:"summary"`
	Inputs   map[string]any   `json:"inputs,omitempty" doc:"JSON Schema of a resource's \"with\""`
	Outputs  []ExecutorOutput `json:"outputs"`
	Open     bool             `json:"open,omitempty" doc:"It has other outputs besides, known only from the resource"`
	Connects bool             `json:"connects,omitempty" doc:"Its resources name a connection of the server's"`
}

// ExecutorOutput is what a resource tells others.
type ExecutorOutput struct {
	Name    string `json:"name"`
	Type    string `json:"type" doc:"As in CEL"`
	Secret  bool   `json:"secret,omitempty"`
	Summary string `json:"summary,omitempty"`
}

// Connections lists where executors work: GET /api/v1/connections, operators only.
// No option of theirs is told, and so no secret.
type Connections struct {
	Items []Connection `json:"items"`
}

// Connection is one of them.
type Connection struct {
	Name      string   `json:"name"`
	Executor  string   `json:"executor"`
	Orgs      []string `json:"orgs" doc:"Organisations that may use it; \"*\": all; none: operators alone"`
	Templates []string `json:"templates" doc:"Templates whose environments may use it; none: all"`
}

// PlanEnvironment asks what an environment would need:
// POST /api/v1/environments/<name>/plan. Nothing is touched.
type PlanEnvironment struct {
	Template    string         `json:"template,omitempty" maxLength:"256" doc:"name, name@version or name@commit; default: what the environment was made from"`
	Parameters  map[string]any `json:"parameters,omitempty"`
	Reset       bool           `json:"reset,omitempty" doc:"Parameters that are not named get their defaults, not what they are now"`
	Description *string        `json:"description,omitempty" maxLength:"1024"`
	Tags        []string       `json:"tags,omitempty" maxItems:"64"`
	TTL         string         `json:"ttl,omitempty" maxLength:"32" doc:"Planned destruction, from when it is applied: 8h"`
	Destroy     bool           `json:"destroy,omitempty" doc:"Plan its destruction"`
	Rollback    bool           `json:"rollback,omitempty" doc:"Plan the way back to the version and parameters before the last change"`
}

// CreateEnvironment plans and applies in one: POST /api/v1/environments.
type CreateEnvironment struct {
	Name string `json:"name" maxLength:"63"`
	PlanEnvironment
}

// ApplyEnvironment carries a plan out: POST /api/v1/environments/<name>/apply.
type ApplyEnvironment struct {
	Plan string `json:"plan" maxLength:"128" doc:"Hash or id of the plan; at least 8 digits of the hash"`
}

// DestroyEnvironment takes everything away: POST /api/v1/environments/<name>/destroy.
type DestroyEnvironment struct {
	Plan string `json:"plan,omitempty" maxLength:"128" doc:"Hash or id of a plan of its destruction; default: whatever is there"`
}

// UpdateEnvironment changes what is said of an environment:
// PATCH /api/v1/environments/<name>. Absent fields stay.
type UpdateEnvironment struct {
	Description *string   `json:"description,omitempty" maxLength:"1024"`
	Tags        *[]string `json:"tags,omitempty" maxItems:"64"`
	Protected   *bool     `json:"protected,omitempty" doc:"It cannot be destroyed, by nobody and no date"`
	Ends        *string   `json:"ends,omitempty" maxLength:"64" doc:"Planned destruction: a time, \"+8h\" for so much later than planned, \"8h\" from now, or \"never\""`
}

// Plan is one plan over all executors.
type Plan struct {
	ID          string          `json:"id"`
	Hash        string          `json:"hash,omitempty"`
	Environment string          `json:"environment"`
	Template    string          `json:"template"`
	Version     string          `json:"version"`
	Phase       string          `json:"phase" enum:"planning,planned,failed,denied,approval,moved,applied"`
	Message     string          `json:"message,omitempty"`
	Approval    string          `json:"approval,omitempty" doc:"Id of the approval that it waits for"`
	Destroy     bool            `json:"destroy,omitempty"`
	Creates     int             `json:"creates"`
	Updates     int             `json:"changes"`
	Replaces    int             `json:"replaces"`
	Destroys    int             `json:"destroys"`
	Same        int             `json:"same"`
	Made        time.Time       `json:"made,omitzero"`
	Resources   []PlannedChange `json:"resources"`
	Verdicts    []PolicyVerdict `json:"verdicts,omitempty"`
}

// PlannedChange is what a plan does to one resource.
type PlannedChange struct {
	Address  string       `json:"address"`
	Executor string       `json:"executor"`
	Action   string       `json:"action" enum:"none,create,change,replace,destroy"`
	Why      string       `json:"why,omitempty"`
	Tags     []string     `json:"tags,omitempty"`
	Group    string       `json:"group,omitempty"`
	Needs    []string     `json:"needs,omitempty"`
	Fields   []Difference `json:"fields,omitempty"`
	Unknown  bool         `json:"unknown,omitempty" doc:"It depends on what is known only after others were applied"`
}

// Difference of one field. Secrets are "(secret)", what is not known yet is
// "(known after apply)".
type Difference struct {
	Path   string          `json:"path"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	Forces bool            `json:"forces,omitempty" doc:"It cannot be changed in place"`
}

// PolicyVerdict is what a policy says of one change.
type PolicyVerdict struct {
	Policy  string `json:"policy"`
	Address string `json:"address"`
	Effect  string `json:"effect" enum:"deny,approve"`
	Message string `json:"message,omitempty"`
}

// Outputs of an environment: GET /api/v1/environments/<name>/outputs. Secret ones
// are there with reveal=true, for those who may apply.
type Outputs struct {
	Items []OutputValue `json:"items"`
}

// OutputValue is one output.
type OutputValue struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Value       json.RawMessage `json:"value,omitempty"`
	Secret      bool            `json:"secret,omitempty"`
	Entry       bool            `json:"entry,omitempty"`
}

// Graph of an environment: GET /api/v1/environments/<name>/graph; as SVG with
// Accept: image/svg+xml.
type Graph struct {
	Environment string      `json:"environment"`
	Phase       string      `json:"phase"`
	Nodes       []GraphNode `json:"nodes"`
}

// GraphNode is one resource, or something outside.
type GraphNode struct {
	Address  string   `json:"address"`
	ID       string   `json:"id,omitempty"`
	Executor string   `json:"executor,omitempty"`
	Group    string   `json:"group,omitempty"`
	Phase    string   `json:"phase,omitempty"`
	Message  string   `json:"message,omitempty"`
	Drifted  bool     `json:"drifted,omitempty"`
	External bool     `json:"external,omitempty"`
	Needs    []string `json:"needs,omitempty"`
	Links    []Link   `json:"links,omitempty"`
}

// Link leads on from a resource: to its dashboard, to the object that it stands for.
type Link struct {
	Rel string `json:"rel"`
	URL string `json:"url"`
}

// Why tells what something depends on and what depends on it, transitively and
// across environments: GET /api/v1/environments/<name>/why?address=db.
type Why struct {
	Of       string    `json:"of"`
	Needs    []Related `json:"needs"`
	NeededBy []Related `json:"needed_by"`
}

// Related is one end of the tree, with the end that leads to it.
type Related struct {
	End         string `json:"end" doc:"<kind>/<id>, or what is outside"`
	Via         string `json:"via"`
	Depth       int    `json:"depth"`
	Environment string `json:"environment,omitempty"`
	Name        string `json:"name,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Phase       string `json:"phase,omitempty"`
}

// EnvironmentAction is something that can be run on an environment.
type EnvironmentAction struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	App         string         `json:"app"`
	URL         string         `json:"url,omitempty"`
	Command     []string       `json:"command"`
	Parameters  map[string]any `json:"parameters,omitempty"`
	Allowed     bool           `json:"allowed" doc:"Whether the caller may run it"`
}

// EnvironmentActions lists them: GET /api/v1/environments/<name>/actions.
type EnvironmentActions struct {
	Items []EnvironmentAction `json:"items"`
}

// RunAction starts one: POST /api/v1/environments/<name>/actions/<action>.
// The answer is its operation; its output is at /api/v1/operations/<id>/log.
type RunAction struct {
	Arguments map[string]any `json:"arguments,omitempty"`
}

// SearchResults is what /api/v1/search?q= finds, best first.
type SearchResults struct {
	Items []SearchResult `json:"items"`
}

// SearchResult is one of them.
type SearchResult struct {
	Object
	Rank float64 `json:"rank"`
}

// Log is a piece of what an executor or an action said:
// GET /api/v1/environments/<name>/log?address=db&after=N, and
// GET /api/v1/operations/<id>/log?after=N.
type Log struct {
	Text string `json:"text"`
	Next int64  `json:"next" doc:"Go on after it"`
	Done bool   `json:"done" doc:"The run has ended, nothing more will come"`
	Cut  bool   `json:"cut,omitempty" doc:"It said more than is kept"`
}
