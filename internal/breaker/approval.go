package breaker

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Phases of an approval.
const (
	Open     = "open"     // removals wait for somebody to decide
	Approved = "approved" // they may go, as many as was said, until then
	Refused  = "refused"  // they stay until the rule changes
	Expired  = "expired"  // nothing waits any more
)

// KindApproval is what is asked of operators: one object per scope and rule,
// which is opened again when there is a new reason to ask.
var KindApproval = ledger.Kind{
	Name: "approval", Totals: [][]string{{}},
	Fields: []ledger.Field{{Name: "scope", Type: ledger.Text}, {Name: "waiting", Type: ledger.Int}},
}

// KindWindow keeps the marks of a scope.
var KindWindow = ledger.Kind{Name: "breaker"}

// Kinds declares them to the ledger.
func Kinds() []ledger.Kind { return []ledger.Kind{KindApproval, KindWindow} }

// Spec of an approval: what is asked, and what was decided.
type Spec struct {
	Scope   string `json:"scope"`
	Rule    string `json:"rule"`
	Version int64  `json:"version,omitempty"` // of the rule
	Of      string `json:"of"`                // kind of the objects
	// Demanded by a policy, whatever the limit of removals.
	Demanded bool `json:"demanded,omitempty"`

	By    string    `json:"by,omitempty"` // who decided
	At    time.Time `json:"at,omitzero"`  // when
	Until time.Time `json:"until,omitzero"`
	Count int64     `json:"count,omitempty"` // how many may go; 0: all that the rule takes
	// Last is what the approval's counter may reach; negative: anything.
	Last int64 `json:"last,omitempty"`
}

// Status of an approval.
type Status struct {
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"` // asked
	Waiting int64     `json:"waiting"`        // about
	Samples []string  `json:"samples,omitempty"`
	Told    bool      `json:"told,omitempty"` // those who wait have heard of the decision
}

// Approval is an object with its documents decoded.
type Approval struct {
	ledger.Object
	Spec   Spec
	Status Status
}

// Decode reads an approval out of its object.
func Decode(o ledger.Object) (Approval, error) {
	a := Approval{Object: o}
	if err := json.Unmarshal(o.Spec, &a.Spec); err != nil {
		return a, fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err)
	}
	if err := json.Unmarshal(o.Status, &a.Status); err != nil {
		return a, fault.New(fault.Internal, "cannot read the status of %s: %w", o.Ref, err)
	}
	return a, nil
}

func (a *Approval) put(op string) (ledger.Put, error) {
	var err error
	if a.Object.Spec, err = json.Marshal(a.Spec); err != nil {
		return ledger.Put{}, err
	}
	if a.Object.Status, err = json.Marshal(a.Status); err != nil {
		return ledger.Put{}, err
	}
	a.Fields = ledger.Fields{"scope": a.Spec.Scope, "waiting": a.Status.Waiting}
	return ledger.Put{Object: a.Object, Expect: a.Version, Op: op}, nil
}

var letters = base32.NewEncoding("abcdefghijkmnpqrstuvwxyz23456789").WithPadding(base32.NoPadding)

// idOf is short enough to be typed, and the same on every replica.
func idOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return letters.EncodeToString(sum[:])[:10]
}

const (
	takenCounter    = "breaker/taken/"
	approvedCounter = "breaker/approved/"
	maxSamples      = 5
)

// verdict on a removal by what was decided before.
type verdict int

const (
	measure verdict = iota // nothing was: the limit says
	pass
	wait
	ask // what was allowed has gone
)

// judge is pure: used is how many have gone under the approval.
func (a *Approval) judge(r Removal, used int64, now time.Time) verdict {
	if r.Version > a.Spec.Version {
		return measure
	}
	switch a.Phase {
	case Open, Refused:
		return wait
	case Approved:
		switch {
		case !now.Before(a.Spec.Until):
			return measure
		case r.Version < a.Spec.Version:
			return wait // a replica that has yet to hear of the rule that was approved
		case a.Spec.Last >= 0 && used+r.count() > a.Spec.Last:
			return ask
		}
		return pass
	}
	return measure
}

// ask opens the approval for a removal, in place of whatever it was.
func (a *Approval) ask(r Removal, limit int64, now time.Time) {
	a.Phase = Open
	a.Spec = Spec{Scope: r.Scope, Rule: r.Rule, Version: max(r.Version, a.Spec.Version), Of: r.Object.Kind}
	what, _, _ := strings.Cut(r.Scope, "/")
	what = cmp.Or(r.Called, what)
	a.Status = Status{Since: now, Waiting: r.count(), Samples: []string{r.Object.String()}, Message: fmt.Sprintf(
		"more than %d of %d %s would go within an hour because of %s; an operator has to approve: `drover approve %s`", limit, r.Total, what, r.Rule, a.ID)}
}

// sample notes an object for people to look at; false: there are enough.
func (a *Approval) sample(ref ledger.Ref) bool {
	if len(a.Status.Samples) >= maxSamples || slices.Contains(a.Status.Samples, ref.String()) {
		return false
	}
	a.Status.Samples = append(slices.Clone(a.Status.Samples), ref.String())
	a.Status.Waiting = max(a.Status.Waiting, int64(len(a.Status.Samples)))
	return true
}

// waits is what whoever asked for a removal is told.
func (a *Approval) waits() error {
	w := &Waiting{Approval: a.ID, Refused: a.Phase == Refused, message: a.Status.Message}
	return fault.New(fault.Exhausted, "%w", w).Because("breaker")
}
