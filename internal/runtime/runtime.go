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
)

// Runtime makes items real on one data plane. Methods may be called concurrently.
type Runtime interface {
	// Apply makes one item so, or removes it where Delete is set, and returns
	// when that is under way; what becomes of it is seen through Observe. It is
	// idempotent, and refuses an item with a lower Token than it has seen for
	// the id (fault.Conflict, reason "fenced").
	Apply(ctx context.Context, item Item) error
	// Observe returns everything the runtime holds, removed items included
	// until Forget.
	Observe(ctx context.Context) ([]Observed, error)
	// Forget drops the memory of a removed item after the control plane has
	// acknowledged the removal. An item that is not removed is left alone.
	Forget(ctx context.Context, id string) error
	// Changed holds a signal after anything that Observe tells has changed.
	Changed() <-chan struct{}
	// Capacity is how many units fit in all.
	Capacity(ctx context.Context) (int64, error)
}

// Item is one instance as it must be.
type Item struct {
	ID         string
	Generation int64
	Token      int64
	Delete     bool
	Body       json.RawMessage
}

// Observed is one instance as it is. Its maps belong to the runtime: they are
// read, never changed.
type Observed struct {
	ID         string
	Generation int64
	State      State
	Message    string // for the user, when it is not ready
	Versions   map[string]string
	Routes     map[string]string // host to address
}

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
