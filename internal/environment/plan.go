package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/template"
)

// Action is what is done next about an environment.
type Action interface{ action() }

// Actions on environments.
type (
	// Reject ends the wish for the next plan: everything else stays as it is.
	Reject struct{ Reason string }
	// Check makes the next plan once more, and takes it up if it comes out the same.
	Check struct{}
	// Take takes the next plan up as it is.
	Take struct{}
	// Lay writes what there should be of each resource in this turn.
	Lay struct{}
	// Rouse wakes those who could go on, because nothing has moved for a while.
	Rouse struct{}
	// Say tells people how far it is.
	Say struct{ Phase, Message string }
	// Settle ends the turn.
	Settle struct{ Phase, Message, Outcome string }
	// Clean ends the environment.
	Clean struct{}
	// Come looks again later; it is always the last.
	Come struct {
		After time.Duration
		Why   string
	}
)

func (Reject) action() {}
func (Check) action()  {}
func (Take) action()   {}
func (Lay) action()    {}
func (Rouse) action()  {}
func (Say) action()    {}
func (Settle) action() {}
func (Clean) action()  {}
func (Come) action()   {}

// Seen is what is decided on besides the environment.
type Seen struct {
	Plan   *Plan  // the next one, if any
	Counts Counts // of its resources, by phase
	Still  int    // at how many looks in a row nothing has moved
	Failed string // what the first ones say that have failed
	// Of one at rest: when its endpoints are probed next, and when it is looked for
	// what nobody expects; zero: nobody can tell.
	ProbeAt, StrayAt time.Time
}

func (s Seen) total() int64 {
	c := s.Counts
	return c.Ready + c.Pending + c.Applying + c.Failed + c.Leaving + c.Blocked
}

// glanceEvery is how often an environment looks that is being worked on: a net,
// since whoever ends a resource wakes it.
const glanceEvery = 2 * time.Second

// maxTries bounds how often a plan is made again before it is taken up.
const maxTries = 5

// steps decide about an environment, in this order; the first that wants something
// decides. Each is pure. What is scheduled besides (the end date, checks, looks for
// drift) is a step of its own in a file of its own: those that must come before a
// plan is taken up stand first, those of an environment at rest last.
var steps = []func(e Environment, seen Seen, now time.Time) []Action{planEnd, planNext, planLay, planGlance, planRest, planWalk, planTimer}

// Decide says what to do next. It is pure. Nothing: until something changes.
func Decide(e Environment, seen Seen, now time.Time) []Action {
	if !e.Deleted.IsZero() {
		return nil
	}
	for _, step := range steps {
		if actions := step(e, seen, now); len(actions) > 0 {
			return inTime(e, actions, now)
		}
	}
	return nil
}

// planNext sees to the plan that is wanted. While it is being made, or waits for an
// approval, what was taken up before goes on.
func planNext(e Environment, seen Seen, _ time.Time) []Action {
	if e.Spec.Next == nil {
		return nil
	}
	p := seen.Plan
	if p == nil {
		return []Action{Reject{"its plan is not there any more; plan again"}}
	}
	switch p.Phase {
	case Planned:
		if e.Spec.Next.Hash != "" {
			return []Action{Check{}}
		}
		return []Action{Take{}}
	case Planning, Asking:
		if e.Spec.Turn > 0 {
			return waitsFor(e, *p)
		}
		message := "its plan is being made"
		if p.Phase == Asking {
			message = p.Status.Message
		}
		return []Action{Say{Phase: Deploying, Message: message}, Come{After: time.Minute, Why: message}}
	}
	return []Action{Reject{p.Status.Message}}
}

// waitsFor tells people of an environment that is well what is wanted of it, where
// somebody has to approve that first. Others have more urgent things to tell, and an
// end that has come is told as such.
func waitsFor(e Environment, p Plan) []Action {
	message := "a change waits: " + p.Status.Message
	if p.Spec.Destroy {
		message = "its destruction waits: " + p.Status.Message
	}
	if p.Phase != Asking || p.Spec.End || e.Phase != OK || e.Status.Operation != "" || e.Status.Message == message {
		return nil
	}
	return []Action{Say{Phase: e.Phase, Message: message}}
}

func planLay(e Environment, _ Seen, _ time.Time) []Action {
	if e.Status.Laid < e.Spec.Turn {
		return []Action{Lay{}}
	}
	return nil
}

// planWalk follows the resources to the end of the turn.
func planWalk(e Environment, seen Seen, _ time.Time) []Action {
	if e.Spec.Turn == 0 {
		return nil
	}
	c := seen.Counts
	phase, verb := Deploying, "are ready"
	if e.Spec.Destroy {
		phase, verb = Destroying, "are gone"
	}
	switch {
	case c.Pending+c.Applying+c.Leaving > 0:
		done := c.Ready
		if e.Spec.Destroy {
			done = e.Status.Counts.Total - seen.total()
		}
		var actions []Action
		if seen.Still > 0 {
			actions = append(actions, Rouse{})
		}
		return append(actions,
			Say{Phase: phase, Message: progress(done, max(e.Status.Counts.Total, seen.total()), c.Failed, verb)},
			Come{After: glanceEvery << min(seen.Still, 4), Why: "its resources are worked on"})
	case c.Failed+c.Blocked > 0:
		if e.Status.Operation == "" && (e.Phase == Fail || e.Spec.Destroy) {
			return nil
		}
		message, retry := seen.Failed, fmt.Sprintf("`drover env retry %s`", e.Name)
		if !strings.Contains(message, retry) {
			message += fmt.Sprintf(" Mend that and go on with %s.", retry)
		}
		to := Fail
		if e.Spec.Destroy {
			to = Destroying
		}
		return []Action{Settle{Phase: to, Message: message, Outcome: operation.Failed}}
	case e.Spec.Destroy:
		return []Action{Clean{}}
	}
	if e.Status.Operation == "" && (e.Phase == OK || e.Phase == Waiting || e.Phase == Fail) && e.Status.Counts.Ready == c.Ready {
		return nil
	}
	return []Action{Settle{Phase: OK, Outcome: operation.Succeeded}}
}

func progress(done, total, failed int64, verb string) string {
	text := fmt.Sprintf("%d of %d %s", max(done, 0), total, verb)
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	return text
}

// decide turns an executor's answer into what the plan does to a resource.
func decide(n template.Node, id string, c executor.Change, inputs map[string]any, v veil) PlannedChange {
	return PlannedChange{
		ID: id, Address: n.Address, Executor: n.Executor, Action: c.Action, Why: v.text(c.Why), Tags: n.Tags, Group: n.Group,
		Needs: n.Needs, Fields: v.fields(c.Fields), Mark: c.Mark, Unknown: !executor.Whole(inputs), Protected: n.Protect,
	}
}

// removal is what the plan does to a resource that no template says any more.
func removal(r Resource, why string) PlannedChange {
	return PlannedChange{ID: r.ID, Address: r.Spec.Address, Executor: r.Spec.Executor, Action: executor.Remove, Why: why,
		Tags: r.Spec.Tags, Group: r.Spec.Group, Protected: r.Spec.Protect}
}

// protect are the verdicts on changes of what the template protects.
func protect(changes []PlannedChange) (out []Verdict) {
	for _, c := range changes {
		if c.Protected && (c.Action == executor.Remove || c.Action == executor.Replace) {
			out = append(out, Verdict{Policy: "protect", Address: c.Address, Effect: deny,
				Message: fmt.Sprintf("%s is protected by its template: take that out of the template first", c.Address)})
		}
	}
	return out
}

// Effects of policies.
const (
	deny    = "deny"
	approve = "approve"
)

// conclude says what verdicts make of a plan, worst first.
func conclude(verdicts []Verdict) (phase, message string) {
	phase = Planned
	for _, effect := range []struct{ name, phase string }{{deny, Forbidden}, {approve, Asking}} {
		var said []string
		for _, v := range verdicts {
			if v.Effect == effect.name {
				text := v.Message
				if text == "" {
					text = "policy " + v.Policy + " is about " + v.Address
				}
				if !slices.Contains(said, text) {
					said = append(said, text)
				}
			}
		}
		if len(said) > 0 {
			return effect.phase, sentences(said, 5)
		}
	}
	return phase, ""
}

// sentences lists the first of many.
func sentences(said []string, most int) string {
	text := ""
	for i, s := range said[:min(most, len(said))] {
		if i > 0 {
			text += "; "
		}
		text += s
	}
	if more := len(said) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// hashLen is the length of a plan's hash.
const hashLen = 2 * sha256.Size

// hash is the same for as long as a plan does the same to the same.
func hash(p PlanSpec, changes []PlannedChange) (string, error) {
	type change struct {
		ID     string
		Action executor.Action
		Mark   string
		Fields []executor.Field
	}
	all := make([]change, len(changes))
	for i, c := range changes {
		// What an executor tells in another order is the same.
		fields := slices.Clone(c.Fields)
		slices.SortStableFunc(fields, func(a, b executor.Field) int { return compare(a.Path, b.Path) })
		all[i] = change{c.ID, c.Action, c.Mark, fields}
	}
	slices.SortFunc(all, func(a, b change) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	raw, err := json.Marshal(struct {
		Environment, Version string
		Parameters           map[string]any
		Destroy              bool
		Changes              []change
	}{p.ID, p.Version, p.Parameters, p.Destroy, all})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}

// moved tells people what differs between the plan that they saw and the one that
// it would be now.
func moved(before, after []PlannedChange) string {
	was := map[string]PlannedChange{}
	for _, c := range before {
		was[c.ID] = c
	}
	var said []string
	for _, c := range after {
		b, ok := was[c.ID]
		delete(was, c.ID)
		switch {
		case !ok:
			said = append(said, fmt.Sprintf("%s is new", c.Address))
		case b.Action != c.Action:
			said = append(said, fmt.Sprintf("%s: %s instead of %s", c.Address, c.Action, b.Action))
		case b.Mark != c.Mark || !sameFields(b.Fields, c.Fields):
			said = append(said, fmt.Sprintf("%s has changed", c.Address))
		}
	}
	for _, b := range before {
		if _, ok := was[b.ID]; ok {
			said = append(said, fmt.Sprintf("%s is not there any more", b.Address))
		}
	}
	if len(said) == 0 {
		return "its version or parameters"
	}
	return sentences(said, 5)
}

func sameFields(a, b []executor.Field) bool {
	if len(a) == 0 && len(b) == 0 {
		return true // whether there is an empty list or none
	}
	x, err := json.Marshal(a)
	y, wrong := json.Marshal(b)
	return err == nil && wrong == nil && string(x) == string(y)
}
