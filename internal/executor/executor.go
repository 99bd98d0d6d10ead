// Package executor is the port of what makes a resource of an environment real:
// files, keys of Consul, secrets of Vault, OpenTofu, manifests, commands. Each
// lives in a folder of its own and passes executortest; those that stand for
// another domain live there.
//
// An executor must not know the ledger, templates or graphs: it is given one
// resource with its inputs, and tells what it would do, did, and sees.
package executor

import (
	"context"
	"io"
	"time"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/reconcile"
)

// Executor makes resources of one kind. Its methods may be called concurrently
// for different resources, never for the same one while its lease holds. Each
// returns when it is done or when ctx ends, may be called again at any time, also
// after the caller was killed in the middle, and goes on where the last call
// stopped. A fault.Invalid or fault.Denied cannot be mended by trying again,
// fault.Conflict with the reason "moved" asks for a new plan, everything else may
// be tried again.
type Executor interface {
	// Describe tells what the executor takes and gives. It never changes.
	Describe() Description
	// Plan tells what Apply would do, and touches nothing. Inputs may hold
	// Unknown: what depends on it is unknown in the change too, never made up.
	Plan(ctx context.Context, r Resource) (Change, error)
	// Apply makes it so, or goes on making it. It refuses what is there already
	// and is not the resource's.
	Apply(ctx context.Context, r Resource) (Result, error)
	// Observe tells what is there now. An error means that it is not known,
	// never that it is gone.
	Observe(ctx context.Context, r Resource) (Observation, error)
	// Destroy takes away what Apply has made, and nothing else; nothing is fine.
	Destroy(ctx context.Context, r Resource) (Result, error)
}

// Watcher is an executor that is told when something changes, so that drift is
// known within seconds.
type Watcher interface {
	// Watch calls changed whenever the resource may have changed, until ctx ends,
	// and once as soon as it watches, so that nothing is missed between the last
	// observation and the first moment. Too often is fine. It returns nil at once
	// if the connection has nothing to watch with; an error ends it, and it is
	// called again later.
	Watch(ctx context.Context, r Resource, changed func()) error
}

// Follower is an executor some of whose resources somebody else looks after, who knows
// whether they work: a catalogue of services.
type Follower interface {
	// Follows says whether a resource with these inputs is one. Their values are as the
	// template has them.
	Follows(inputs map[string]any) bool
	// Followed is what is asked for, as a URL, of one with these outputs; empty: nothing yet.
	Followed(outputs map[string]any) string
	// Health says why it does not work; empty: it does. An error says nothing of it: that
	// nobody can be asked, or that nothing is known there, is no news.
	Health(ctx context.Context, c Connection, at string) (why string, err error)
}

// Lister is an executor that can tell what is there that nobody expects.
type Lister interface {
	// List names what is where the resource is and was made by none: given all
	// resources of the environment on that executor. Bounded to a thousand.
	List(ctx context.Context, all []Resource) ([]Stray, error)
}

// Stray is something that no resource has made.
type Stray struct {
	Name  string // as the executor names it: "kv/shop/old"
	Where string // address of the resource beside which it lies; empty: of none
}

// Description is what an executor takes and gives.
type Description struct {
	Summary string // one line for people
	// Inputs is the JSON Schema of "with". Texts in it are examples and
	// descriptions for `drover template executors` and the docs.
	Inputs map[string]any
	// Outputs by name. One that is not listed cannot be referred to, unless Open.
	Outputs map[string]Output
	// Open: besides Outputs it has others, known only from the resource (those of
	// a Terraform module). Their types are known when they are evaluated.
	Open bool
	// Connects: resources name a connection of the server's (an address with
	// credentials); default: the one named "default".
	Connects bool
	// Timeout of one Plan, Apply, Observe or Destroy where the resource names
	// none; default a minute.
	Timeout time.Duration
	// AtOnce bounds the calls under way on one server; default 16.
	AtOnce int
	// Every is how often it is observed where nothing is watched; default 5 min.
	Every time.Duration
}

// Output is what a resource tells others.
type Output struct {
	Type    expr.Type
	Secret  bool // it is kept sealed and shown to nobody
	Summary string
}

// Unknown stands for a value that is known only after something was applied.
type Unknown = expr.Unknown

// Resource is one resource as an executor is given it.
type Resource struct {
	ID          string // unique for ever: what is made is marked with it where that can be
	Address     string // within the environment: "db", "web[0]", "front.api"
	Environment string // name, for people
	Org, Owner  string // whose environment it is
	Operator    bool   // an operator of the control plane has made it
	Tags        []string
	// Connection to work through, opened by name; nil where Description.Connects
	// is false.
	Connection Connection
	// Inputs are the evaluated "with", as its schema asks for: maps, lists, text,
	// int64, float64, bool, Secret, and while planning Unknown.
	Inputs map[string]any
	// Outputs are those of the last Apply; nil: it was never made.
	Outputs map[string]any
	// Mark is what the plan has seen that is being carried out; Apply refuses with
	// fault.Conflict (reason "moved") if it is something else by now. Empty: no
	// plan, whatever is there.
	Mark string
	// State is what Save was last given; nil: nothing.
	State []byte
	// Save keeps what the executor must remember, sealed, and returns when it is
	// safe. What is needed to find work again is saved before the work begins.
	// It is nil while planning and observing.
	Save func(ctx context.Context, state []byte) error
	// Files of the template that the resource is said in, by path; nil: there are
	// none to be had.
	Files func(ctx context.Context) (map[string][]byte, error)
	// Log is what users read live. No secrets: values wrapped in Secret are
	// struck out of it as far as they can be recognised.
	Log io.Writer
	// Fence of the run, for what has a place to keep it.
	Fence reconcile.Fence
}

// Connection is where an executor works: options by name, as the server's file of
// connections has them, with secrets already read.
type Connection map[string]string

// Action is what a plan does to a resource.
type Action string

// Actions.
const (
	None    Action = "none"
	Create  Action = "create"
	Update  Action = "change"
	Replace Action = "replace" // it goes and comes again
	Remove  Action = "destroy"
)

// Change is what Apply would do.
type Change struct {
	Action Action
	Why    string  // for people: "key shop/size is \"small\", wanted \"large\""
	Fields []Field // what differs
	// Outputs as they will be, Unknown where that cannot be known.
	Outputs map[string]any
	// Mark of what was seen: the same for as long as nothing has moved. It says
	// nothing of a secret.
	Mark string
	// Takes names what the resource will have for itself, in the words that NotOurs is
	// told with: "the key shop/size". Two on one connection cannot take the same.
	Takes []string
}

// Field is one difference. Values of secrets are Hidden.
type Field struct {
	Path   string `json:"path"`
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"` // Unknown{} is told as such
	// Forces: it cannot be changed in place.
	Forces bool `json:"forces,omitempty"`
}

// Hidden is shown in place of a secret.
const Hidden = "(secret)"

// Result of Apply and Destroy.
type Result struct {
	Done    bool
	Message string        // what is being done or waited for, for people
	After   time.Duration // when to call again while it is not done; 0: the caller decides
	// Outputs of what is made, all of them, once it is done. Secret ones are
	// Secret.
	Outputs map[string]any
	Links   []Link
	// Tells lists names for people of what was made: "configmap shop/web".
	Made []string
}

// Link leads people on.
type Link struct {
	Rel string `json:"rel"`
	URL string `json:"url"`
}

// Observation is what is there.
type Observation struct {
	// Exists: it is there. That it is not is only said when that was seen.
	Exists bool
	// Drift is what differs from the inputs that were applied last: Before is what
	// was applied, After what is there now; nil: it is not there.
	Drift []Field
	// By is who changed it, where that can be known.
	By string
	// Outputs as they are now; nil: as they were.
	Outputs map[string]any
	// Unready says why it does not work, where the executor can tell; empty: it
	// works as far as is known.
	Unready string
	Mark    string
}
