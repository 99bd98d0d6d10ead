// Package operation keeps track of asynchronous work: who asked for what, and
// how it ended. Every verb that takes time leaves one, whatever kind it is for.
//
// It is pure: it makes puts for the sets of other domains, so that an operation
// begins and ends in the same commit as what it tells about.
package operation

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Phases of an operation.
const (
	Running    = "running"
	Succeeded  = "succeeded"
	Failed     = "failed"
	Superseded = "superseded" // a later request made it pointless
)

// Kind declares operations to the ledger.
var Kind = ledger.Kind{
	Name: "operation",
	Fields: []ledger.Field{
		{Name: "verb", Type: ledger.Text},
		{Name: "subject", Type: ledger.Text},
		{Name: "type", Type: ledger.Text},
		{Name: "instance", Type: ledger.Text},
	},
	Totals: [][]string{{}, {"org"}, Census},
}

// Census are the columns by which metrics count operations.
var Census = []string{"phase"}

// Spec says what was asked for.
type Spec struct {
	Verb    string       `json:"verb"` // create, update, delete
	Subject ledger.Ref   `json:"subject"`
	Name    string       `json:"name"` // the subject's, for people
	Cause   ledger.Cause `json:"cause"`
	About
}

// About is what some operations say besides.
type About struct {
	Type     string `json:"type,omitempty"`     // of the subject, as its users call it; default its kind
	Instance string `json:"instance,omitempty"` // cluster whose agent carries it out
	Owner    string `json:"of,omitempty"`       // whose the subject is, where that is no user: a workspace
}

// Status says how it ended.
type Status struct {
	Reason   string    `json:"reason,omitempty"` // why it did not succeed
	Finished time.Time `json:"finished,omitzero"`
}

// Start returns the put that begins an operation for the subject.
func Start(verb string, subject ledger.Object, cause ledger.Cause) ledger.Put {
	return StartFor(verb, subject, cause, About{})
}

// StartFor is Start with more to say.
func StartFor(verb string, subject ledger.Object, cause ledger.Cause, about About) ledger.Put {
	if about.Type == "" {
		about.Type = subject.Kind
	}
	spec, _ := json.Marshal(Spec{Verb: verb, Subject: subject.Ref, Name: subject.Name, Cause: cause, About: about})
	return ledger.Put{Op: verb, Object: ledger.Object{
		Ref: ledger.Ref{Kind: Kind.Name, ID: ledger.NewID()},
		Org: subject.Org, Owner: subject.Owner, Name: verb + "-" + subject.Name, Phase: Running, Parent: subject.ID,
		Fields: ledger.Fields{"verb": verb, "subject": subject.Ref.String(), "type": about.Type, "instance": about.Instance}, Spec: spec,
	}}
}

// CarriedOut notes in an operation which cluster has carried it out.
func CarriedOut(op *ledger.Object, instance string) error {
	var spec Spec
	if err := json.Unmarshal(op.Spec, &spec); err != nil {
		return fault.New(fault.Internal, "%s cannot be read: %w", op.Ref, err)
	}
	if instance == "" || spec.Instance == instance {
		return nil
	}
	spec.Instance = instance
	var err error
	if op.Spec, err = json.Marshal(spec); err == nil {
		op.Fields = maps.Clone(op.Fields)
		op.Fields["instance"] = instance
	}
	return err
}

// Finish returns the put that ends a running operation.
func Finish(op ledger.Object, phase, reason string, now time.Time) (ledger.Put, error) {
	if op.Phase != Running {
		return ledger.Put{}, fault.New(fault.Conflict, "operation %s has ended already", op.ID)
	}
	status, err := json.Marshal(Status{Reason: reason, Finished: now.UTC()})
	op.Phase, op.Status = phase, status
	return ledger.Put{Object: op, Expect: op.Version, Op: phase}, err
}
