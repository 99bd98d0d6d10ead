// Package runtime is the port of what an agent applies instances to: child
// processes, Kubernetes, a simulation. Each lives in a folder of its own and
// passes runtimetest.
//
// A runtime must not know the control plane: it is given items and tells what
// it has, and it keeps everything running when nobody asks.
package runtime

import (
	"context"
	"encoding/json"

	"github.com/droverhq/drover/internal/ledger"
)

// Runtime makes items real on one data plane. Methods may be called concurrently.
type Runtime interface {
	// Apply makes one item so, or removes it where Delete is set, and returns
	// when that is under way; what becomes of it is seen through Observe. It is
	// idempotent, and refuses an item with a lower Token than it has seen for
	// the id in its epoch, or of a lower epoch (fault.Conflict, reason "fenced").
	// What it applies it also keeps, and goes on with after a restart, without
	// being told again.
	Apply(ctx context.Context, item Item) error
	// Observe returns everything the runtime holds, removed items included
	// until Forget.
	Observe(ctx context.Context) ([]Observed, error)
	// Forget drops the memory of a removed item after the control plane has
	// acknowledged the removal. An item that is not removed is left alone.
	Forget(ctx context.Context, id string) error
	// Changed holds a signal after anything that Observe tells has changed.
	Changed() <-chan struct{}
	// Facts tells what the data plane is and holds.
	Facts(ctx context.Context) (Facts, error)
}

// Listener is a Runtime that wants to know when it was told everything: what is
// shared by items must not be taken away for want of those still to come.
type Listener interface {
	// Told is called once in the agent's life, when it agrees with the control plane
	// on all items, with these, but for their bodies. Some of them may be on their way
	// to Apply.
	Told(all []Item)
}

// Facts of a data plane.
type Facts struct {
	Capacity int64            // units that fit in all
	Units    map[string]Units // by "<offering>/<type>"; nil: types are not told apart
	Kind     string           // of runtime: "process"
	Version  string           // of what it runs on, where that has one
	Nodes    int64            // 0: not known
	Routes   string           // what carries hosts: "proxy", "route", "gateway", "ingress"
	Unready  string           // why nothing can be applied now; empty: it can
	Engine   Engine           // of an Argo CD; zero: there is none
}

// Engine are figures of an Argo CD, counted every few minutes.
type Engine struct {
	Applications int64 // that have our label
	Reconciled   int64 // of these, those that Argo CD has compared lately
	Operations   int64 // that are shown as custom resources
	Jsonnet      bool  // it is evaluated, which lets repositories read files of Argo CD's
	NoHealth     bool  // the health of single resources is not told
	// Left names Applications that have our label, and that no deployment is about; the first
	// few of many. Empty: there are none.
	Left string
}

// Units of one instance type.
type Units struct{ Max, Remaining int64 }

// Item is one instance, or one step of what makes a cluster fit, as it must be.
type Item struct {
	ID         string
	Kind       string // "": an instance; "step"; "deployment"
	Epoch      int64  // of the ledger that wants it
	Generation int64
	Token      int64
	Delete     bool
	Body       json.RawMessage
	Proof      string // the control plane's signature; kept with the item
	Cause      string // what wanted it so, and ...
	Org        string // ... whose it is: for the log alone; empty: not known
}

// About returns a context of work on the item: what is logged in it says what it is
// done for, and whom.
func (it Item) About(ctx context.Context) context.Context { return About(ctx, it.Cause, it.Org) }

// About returns a context of work on what has this cause and is this organisation's.
func About(ctx context.Context, cause, org string) context.Context {
	if cause != "" {
		ctx = ledger.WithCause(ctx, ledger.Cause(cause))
	}
	return ledger.WithOrg(ctx, org)
}

// Observed is one instance as it is. Its maps belong to the runtime: they are
// read, never changed.
type Observed struct {
	ID         string
	Kind       string // of the item
	Generation int64
	State      State
	Message    string // for the user, when it is not ready
	Versions   map[string]string
	Routes     map[string]string // host to address
	Conditions []Condition
	Detail     json.RawMessage // of a deployment: a Deployed
}

// Condition of an item, as Kubernetes words it.
type Condition struct{ Type, Status, Reason, Message string }

// State of an item in a runtime.
type State string

const (
	Installing State = "installing"
	Ready      State = "ready"
	Suspended  State = "suspended"
	Deleted    State = "deleted"
	Error      State = "error"
	Rejected   State = "rejected" // no room; the control plane may place it elsewhere
)
