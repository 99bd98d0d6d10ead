// Package breaker keeps rules from taking many things away at once: a list, a
// report, a file or a loop may remove a share of a scope per hour, and what is
// beyond it waits until somebody approves. What was said of one object (a
// user's delete, its own end) is not a rule and does not pass here.
//
// It must not know what is removed, nor by whom.
package breaker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
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

// Of returns how many of a scope may go, which is a whole number of objects.
func (l Limit) Of(total int64) int64 {
	return max(l.Objects, int64(float64(max(total, 0))*l.Percent/100))
}

func (l Limit) String() string {
	return fmt.Sprintf("%d,%s%%", l.Objects, strconv.FormatFloat(l.Percent, 'f', -1, 64))
}

// ParseLimit reads "5,5%": so many objects, or that share, whichever is more.
// Faults: Invalid.
func ParseLimit(text string) (Limit, error) {
	objects, share, both := strings.Cut(text, ",")
	n, err := strconv.ParseInt(strings.TrimSpace(objects), 10, 64)
	percent, is := strings.CutSuffix(strings.TrimSpace(share), "%")
	p, wrong := strconv.ParseFloat(percent, 64)
	if !both || err != nil || !is || wrong != nil || n < 0 || n > maxObjects || !(p >= 0 && p <= 100) {
		return Limit{}, fault.New(fault.Invalid, "%.64q is no limit of removals: want OBJECTS,SHARE such as 5,5%%", text)
	}
	return Limit{Objects: n, Percent: p}, nil
}

const maxObjects = 1_000_000

// Removal is what a rule is about to take away.
type Removal struct {
	// Scope is what the share is of: "instances/dinosaur", "clusters".
	Scope string
	// Total is how many objects the scope has now.
	Total int64
	// Rule that wants it, for people: "the deny list \"abuse\" names alice".
	// Removals of one rule share one approval.
	Rule string
	// Version of the rule, where it has any: what was decided of one version
	// says nothing of a later one.
	Version int64
	// Object that is to go.
	Object ledger.Ref
	// Count is how many objects of the scope go with it, all or none; default 1.
	Count int64
	// Called is what messages call the objects; default: as the scope begins.
	Called string
}

func (r Removal) count() int64 { return max(r.Count, 1) }

// Waiting is why a removal was not let through.
type Waiting struct {
	Approval string // its id
	Refused  bool   // somebody has said no
	message  string
}

func (w *Waiting) Error() string { return w.message }

// Guard is what rooms ask before a rule takes something away.
type Guard interface {
	// Take returns what must be counted in the same commit as the removal.
	// Faults: Exhausted, reason "breaker": more than the share would go, and
	// nobody has approved; the message names the approval to ask for. The
	// removal must then not be made: whoever holds the object is woken when
	// that is decided. A *Waiting in the chain tells which approval it is.
	//
	// The counts are good for the next minutes, not to be kept.
	Take(ctx context.Context, r Removal) ([]ledger.Count, error)
}
