// Package template owns the language that environments are described in: a
// versioned file of resources, groups, their graph, outputs, actions, checks,
// permissions and policies, and where its versions are kept.
//
// It must not know environments or what executors do: it says what there should
// be, in which order, with which inputs, given parameters and the outputs so far.
package template

import (
	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/offering"
)

// FileKind heads every template's file; FileName is what it is called in a tree.
const (
	FileKind = "Template"
	FileName = "template.yaml"
)

// File is a template's file.
type File struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   offering.Metadata `json:"metadata"`
	Spec       Spec              `json:"spec"`
}

// Spec is what a template says. Text with ${...} is CEL over params, env (name,
// id, org, owner, description, tags), files (the text of the template's files by
// their paths), index (of a resource with a count), and the resources and groups
// by their names: ${db.outputs.url}, ${web[0].outputs.port},
// ${front.api.outputs.url}, ${front.outputs.url} of a group that is a template.
type Spec struct {
	Version     string         `json:"version"` // for people: "1.2.0"
	Description string         `json:"description,omitempty"`
	Tags        []string       `json:"tags,omitempty"`
	Parameters  map[string]any `json:"parameters,omitempty"` // JSON Schema
	Resources   []Resource     `json:"resources,omitempty"`
	Groups      []Group        `json:"groups,omitempty"`
	Outputs     []Output       `json:"outputs,omitempty"`
	Checks      []Check        `json:"checks,omitempty"` // status endpoints of the whole
	Actions     []Action       `json:"actions,omitempty"`
	Permissions Permissions    `json:"permissions,omitempty"`
	Policies    []Policy       `json:"policies,omitempty"`
	Links       []Link         `json:"links,omitempty"`
	// AtOnce bounds the resources that are worked on at a time; default 10.
	AtOnce int `json:"atOnce,omitempty"`
	// TTL of environments that name none; default: they stay.
	TTL document.Duration `json:"ttl,omitempty"`
}

// Resource of a template.
type Resource struct {
	Name        string   `json:"name"` // an identifier: letters, digits, _
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	Executor    string   `json:"executor"`
	Connection  string   `json:"connection,omitempty"` // default "default"
	// Count makes so many of it; a number or ${...} over params. Without it there
	// is one, without an index.
	Count any `json:"count,omitempty"`
	// When is a condition over params; without, it is always there.
	When string `json:"when,omitempty"`
	// Needs are edges besides those of references: names of resources and groups,
	// "web[0]", or ${...} over params and index.
	Needs    []string          `json:"needs,omitempty"`
	External []External        `json:"external,omitempty"`
	With     any               `json:"with,omitempty"`    // inputs
	Drift    string            `json:"drift,omitempty"`   // report (default), correct, ignore
	Protect  bool              `json:"protect,omitempty"` // a plan that destroys or replaces it is refused
	Secret   []string          `json:"secret,omitempty"`  // outputs that are secret besides those the executor says
	Checks   []Check           `json:"checks,omitempty"`
	Links    []Link            `json:"links,omitempty"`
	Timeout  document.Duration `json:"timeout,omitempty"` // of one call; default: the executor's
	Retries  *int              `json:"retries,omitempty"` // before it has failed; default 3
}

// External is something that Drover does not make and a resource depends on.
type External struct {
	Name        string `json:"name"` // unique in the world: "payments-api", "dns/shop.example.org"
	Description string `json:"description,omitempty"`
	URL         string `json:"url,omitempty"`
}

// Group of resources with a graph and a status of its own: resources of this
// file, or another template at a version.
type Group struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Tags        []string       `json:"tags,omitempty"`
	When        string         `json:"when,omitempty"`
	Needs       []string       `json:"needs,omitempty"`
	Resources   []Resource     `json:"resources,omitempty"`
	Template    string         `json:"template,omitempty"` // "web@1.2.0", or ./web of the same tree
	With        map[string]any `json:"with,omitempty"`     // its parameters
}

// Output of an environment.
type Output struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Value       any    `json:"value"`
	Secret      bool   `json:"secret,omitempty"` // it is, besides, if anything in it is
	Entry       bool   `json:"entry,omitempty"`  // an entry point: a URL that is probed
}

// Check probes a status endpoint. Exactly one of HTTP, TCP and Consul is set.
type Check struct {
	Name   string `json:"name,omitempty"`
	HTTP   string `json:"http,omitempty"`   // URL
	Status int    `json:"status,omitempty"` // of HTTP; default: any 2xx or 3xx
	TCP    string `json:"tcp,omitempty"`    // host:port
	// Consul is a service whose instances must be passing, of Connection.
	Consul     string            `json:"consul,omitempty"`
	Connection string            `json:"connection,omitempty"`
	Every      document.Duration `json:"every,omitempty"`   // default 10 s
	Timeout    document.Duration `json:"timeout,omitempty"` // of one probe; default 5 s
	// After so many good ones in a row it is well (default 1), after so many bad
	// ones it is not (default 3).
	Passes   int `json:"passes,omitempty"`
	Failures int `json:"failures,omitempty"`
	// Within is how long it may take to be well after a deployment; default 5 min.
	Within document.Duration `json:"within,omitempty"`
}

// Action is something that people run on an environment: a command of an app.
type Action struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Parameters  map[string]any `json:"parameters,omitempty"` // JSON Schema, as ${args.x}
	App         App            `json:"app"`
	// Command is the program and its arguments; no shell. A first word that is
	// the app's name is the app's file.
	Command []string          `json:"command"`
	Env     map[string]string `json:"env,omitempty"`
	Timeout document.Duration `json:"timeout,omitempty"` // default 5 min
}

// App is where a program comes from.
type App struct {
	Name   string `json:"name"`
	URL    string `json:"url,omitempty"`    // https, or file:./x of the template's tree; empty: a program that the server allows by name
	SHA256 string `json:"sha256,omitempty"` // needed with an https URL
}

// Link leads people on.
type Link = executor.Link

// Permissions say who may do what besides operators, and the owner of an
// environment and administrators of its organisation where a verb is not named.
type Permissions struct {
	Plan    *Who           `json:"plan,omitempty"`
	Apply   *Who           `json:"apply,omitempty"`
	Destroy *Who           `json:"destroy,omitempty"`
	Actions map[string]Who `json:"actions,omitempty"` // by name; "*": those that are not named
}

// Who lists people. "*" is everybody who can see the environment.
type Who struct {
	Users []string `json:"users,omitempty"`
	Orgs  []string `json:"orgs,omitempty"`
	Roles []string `json:"roles,omitempty"`
}

// Policy judges plans.
type Policy struct {
	Name string `json:"name"`
	// When is CEL over change (address, executor, action, tags, group) and plan
	// (creates, changes, replaces, destroys, environment), for each change of the
	// plan: change.action == "destroy" && "data" in change.tags
	When    string `json:"when"`
	Effect  string `json:"effect"` // deny, approve
	Message string `json:"message,omitempty"`
}
