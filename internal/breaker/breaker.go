// Package breaker keeps rules from taking many things away at once: a list, a
// report, a file or a loop may remove a share of a scope per hour, and what is
// beyond it waits until somebody approves. What was said of one object (a
// user's delete, its own end) is not a rule and does not pass here.
//
// It must not know what is removed, nor by whom.
package breaker

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// Defaults of a Limit.
const (
	DefaultObjects = 5
	DefaultPercent = 5
	Window         = time.Hour
)

// Limit is how much of a scope may go within the window: the larger of the two.
type Limit struct {
	Objects int64   `json:"objects"`
	Percent float64 `json:"percent"`
}

// Removal is what a rule is about to take away.
type Removal struct {
	// Scope is what the share is of: "instances/dinosaur", "clusters".
	Scope string
	// Total is how many objects the scope has now.
	Total int64
	// Rule that wants it, for people: "the deny list \"abuse\" names alice".
	// Removals of one rule share one approval.
	Rule string
	// Object that is to go.
	Object ledger.Ref
}

// Guard is what rooms ask before a rule takes something away.
type Guard interface {
	// Take returns what must be counted in the same commit as the removal.
	// Faults: Exhausted, reason "breaker": more than the share would go, and
	// nobody has approved; the message names the approval to ask for. The
	// removal must then not be made: whoever holds the object is woken when
	// that is approved.
	Take(ctx context.Context, r Removal) ([]ledger.Count, error)
}
