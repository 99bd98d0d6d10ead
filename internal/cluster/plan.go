package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/operation"
)

const (
	// settle is how long after the wish a cluster is looked at for instances
	// that were being placed when it was made.
	settle = 5 * time.Second
	// recheck is when what is outside is looked at again: accounts, and steps
	// that the control plane applies.
	recheck = 10 * time.Minute
	// stepRetry is when steps that are not ready are looked at again.
	stepRetry = 5 * time.Second
	// makeRetry is when a maker is asked again that does not say when.
	makeRetry = 15 * time.Second
	// stripWithin is how long it is tried to take steps off a cluster that stays
	// where it is.
	stripWithin = 15 * time.Minute
	// absentWithin is the same where the agent would have to and is not there.
	absentWithin = 2 * time.Minute
	drainRetry   = 30 * time.Second
)

// States of a step.
const (
	StepWaiting  = "waiting"
	StepApplying = "applying"
	StepReady    = "ready"
	StepError    = "error"
	StepRemoving = "removing"
)

// Facts are what Plan looks at besides the cluster.
type Facts struct {
	Maker   *Maker // that its profile names now; nil: nothing new is known
	Missing string // why nothing can make it

	// Steps that are wanted, with name, needs and digest; Read are the sources
	// that could be read: what is not wanted goes only where its source says so.
	Steps  []Step
	Read   map[string]bool
	Unread []string // why the wanted steps are not all known
	Reach  bool     // the control plane applies them; otherwise the agent does

	Accounts bool            // agents have accounts
	Login    bool            // people log in to it
	Decided  map[string]bool // steps that waited for an approval, and do not any more
	Checked  bool            // the accounts were looked at, not long ago
	Applied  bool            // the steps were applied, not long ago
	Used     int64
	Verb     string // of the running operation
}

// Action is one thing to do.
type Action interface{ action() }

type (
	// Move enters a phase.
	Move struct{ To, Reason string }
	// Begin writes down what makes the cluster, before it does.
	Begin struct{ Maker Maker }
	// Ensure asks the maker to go on.
	Ensure struct{}
	// Account sees to the accounts of its agent and of its login.
	Account struct{}
	// Settle writes down the steps that are wanted.
	Settle struct{ Steps []Step }
	// Apply carries steps out, Drop takes steps back.
	Apply struct{ Steps []string }
	Drop  struct{ Steps []string }
	// Finish ends the running operation.
	Finish struct{ Phase, Reason string }
	// Keep takes the wish back that it goes: something runs there.
	Keep struct{}
	// Leave writes down that there is no way back.
	Leave struct{}
	// Strip takes all steps off, Abandon leaves them where they are, and Withdraw
	// asks the maker to take the cluster away.
	Strip    struct{ Last bool }
	Abandon  struct{}
	Withdraw struct{}
	// Lose marks everything on it as lost.
	Lose struct{}
	// Evacuate goes on with moving what can be moved off it.
	Evacuate struct{}
	// Clean gives back what it has elsewhere, and is the last.
	Clean struct{}
	// Come is to look again later.
	Come struct {
		After time.Duration
		Why   string
	}
)

func (Move) action()     {}
func (Begin) action()    {}
func (Ensure) action()   {}
func (Account) action()  {}
func (Settle) action()   {}
func (Apply) action()    {}
func (Drop) action()     {}
func (Finish) action()   {}
func (Keep) action()     {}
func (Leave) action()    {}
func (Strip) action()    {}
func (Abandon) action()  {}
func (Withdraw) action() {}
func (Lose) action()     {}
func (Evacuate) action() {}
func (Clean) action()    {}
func (Come) action()     {}

// Plan decides what to do next. It is pure: the same cluster, facts and time
// give the same actions. No actions: there is nothing to do until something
// changes.
func Plan(c Cluster, f Facts, now time.Time) []Action {
	if !c.Deleted.IsZero() {
		return nil
	}
	if m := c.Status.Maker; m != nil && f.Maker != nil && m.Name != f.Maker.Name && c.Status.State != "" {
		f.Maker = nil // what has begun is its maker's: another could neither go on with it nor take it away
	}
	switch c.Phase {
	case Accepted, Provisioning:
		return planMaking(c, f)
	case Failed:
		if f.Maker != nil && f.Maker.digest() != c.Status.Refused {
			return []Action{Begin{*f.Maker}, Move{To: Provisioning}}
		}
		return nil
	case Provisioned, Waiting, Ready:
		return planFit(c, f)
	case Abandoned:
		return planAbandoned(c, f)
	case Deprovisioning:
		return planLeaving(c, f, now)
	case Cleanup:
		return []Action{Finish{Phase: operation.Succeeded, Reason: c.Status.Reason}, Clean{}}
	}
	return nil
}

func planMaking(c Cluster, f Facts) []Action {
	switch {
	case f.Missing != "":
		return []Action{Move{To: Failed, Reason: f.Missing}, Finish{Phase: operation.Failed, Reason: f.Missing}}
	case c.Phase == Accepted && f.Maker == nil:
		return nil // nothing is known yet
	case c.Phase == Accepted:
		return []Action{Begin{*f.Maker}, Move{To: Provisioning}}
	case f.Maker != nil && f.Maker.digest() != c.Status.Maker.digest():
		return []Action{Begin{*f.Maker}} // what is to be made, and by whom, is written down before it is
	}
	return []Action{Ensure{}}
}

// planFit makes a cluster fit and keeps it so.
func planFit(c Cluster, f Facts) []Action {
	s := &c.Status
	if f.Accounts && (s.Client == "" || !f.Checked) || f.Login && (s.Login == "" || !f.Checked) {
		return []Action{Account{}}
	}
	if wanted := merge(c, f); !slices.EqualFunc(wanted, s.Steps, Step.equal) {
		return []Action{Settle{wanted}}
	}
	if !f.Reach {
		return planProgress(c, f)
	}
	// What is to go may be held up for long, and nothing else is to wait for it.
	var now []Action
	if gone := droppable(s.Steps, f.Decided); len(gone) > 0 {
		now = []Action{Drop{gone}}
	}
	if next := applicable(s.Steps, f.Applied, f.Decided); len(next) > 0 {
		return append(now, Apply{next})
	}
	then := planProgress(c, f)
	if len(now) > 0 && len(then) > 0 {
		if _, later := then[0].(Come); later {
			return now
		}
	}
	return append(now, then...)
}

// planProgress is what follows from how far the steps have come.
func planProgress(c Cluster, f Facts) []Action {
	s := &c.Status
	ready, all, trouble := progress(s.Steps)
	switch {
	case c.Phase == Provisioned && len(f.Unread) > 0:
		return []Action{Come{recheck, strings.Join(f.Unread, "; ")}}
	case c.Phase == Provisioned && ready == all:
		return []Action{Move{To: Waiting}}
	case c.Phase == Provisioned && !f.Reach:
		return []Action{Come{recheck, says(ready, all, "its agent is to apply them"+trouble)}}
	case f.Verb == "create" && c.Phase == Ready, f.Verb == "drain" && f.Used == 0:
		return []Action{Finish{Phase: operation.Succeeded}}
	case f.Reach && ready < all:
		return []Action{Come{stepRetry, says(ready, all, "they are being applied"+trouble)}}
	case f.Verb == "drain":
		return []Action{Evacuate{}}
	case len(s.Steps) > 0:
		return []Action{Come{recheck, "its steps are looked at again"}}
	}
	return nil
}

func says(ready, all int, why string) string {
	return fmt.Sprintf("%d of %d steps are ready: %s", ready, all, why)
}

// planLeaving takes a cluster away, once it is sure that nothing runs there.
func planLeaving(c Cluster, f Facts, now time.Time) []Action {
	s := &c.Status
	if c.Spec.Abandoned != "" { // nothing runs there that anybody counts on
		if c.Spec.Destroy && s.Maker != nil {
			return []Action{Withdraw{}}
		}
		return []Action{Move{To: Cleanup, Reason: s.Reason}}
	}
	since := s.Since
	if since.IsZero() {
		since = c.Updated
	}
	if wait := settle - now.Sub(since); !s.Leaving && wait > 0 {
		return []Action{Come{wait, "looking whether instances were being placed"}}
	}
	switch {
	case !s.Leaving && f.Used > 0: // one came in between: whoever ordered it was promised it
		return []Action{Keep{}, Finish{Phase: operation.Failed, Reason: "an instance was placed there meanwhile"}}
	case !s.Leaving:
		return []Action{Leave{}}
	case (s.Maker == nil || s.Maker.Name == standalone) && len(s.Steps) > 0: // it stays, what was put there does not
		if f.Reach {
			return []Action{Strip{Last: now.Sub(since) >= stripWithin}}
		}
		return planRetreat(c, now.Sub(since))
	case s.Maker != nil:
		return []Action{Withdraw{}}
	}
	return []Action{Move{To: Cleanup, Reason: s.Reason}}
}

// planRetreat has the agent take off what it has put on a cluster that stays
// where it is, for as long as that can be expected of it.
func planRetreat(c Cluster, waited time.Duration) []Action {
	s := &c.Status
	within := stripWithin
	if s.Session == "" {
		within = absentWithin
	}
	if waited >= within {
		return []Action{Abandon{}}
	}
	if !slices.ContainsFunc(s.Steps, func(s Step) bool { return s.State != StepRemoving }) {
		return []Action{Come{min(stepRetry, within-waited), fmt.Sprintf("its agent takes off what was put there: %d steps are left", len(s.Steps))}}
	}
	steps := slices.Clone(s.Steps)
	for i := range steps {
		if steps[i].State != StepRemoving {
			steps[i].State, steps[i].Message, steps[i].Generation, steps[i].Token = StepRemoving, "", c.Version, 0
		}
		steps[i].Held, steps[i].Approval, steps[i].Awaits = nil, "", ""
	}
	return []Action{Settle{steps}}
}

// standalone is the maker of clusters that are there already.
const standalone = "standalone"

func (s Step) equal(t Step) bool {
	return s.Name == t.Name && s.State == t.State && s.Message == t.Message && s.Generation == t.Generation && s.Token == t.Token &&
		s.Digest == t.Digest && s.Objects == t.Objects && slices.Equal(s.Needs, t.Needs) && slices.Equal(s.Inventory, t.Inventory) &&
		slices.Equal(s.Held, t.Held) && slices.Equal(s.Cleared, t.Cleared) && s.Approval == t.Approval && s.Awaits == t.Awaits
}

// source of a step: what is before its own name.
func (s Step) source() string { return s.Name[:max(strings.LastIndexByte(s.Name, '/'), 0)] }

// merge brings what is known of the steps together with what is wanted. A step
// goes because its source was read and lacks it, and for no other reason.
func merge(c Cluster, f Facts) []Step {
	known := map[string]Step{}
	for _, s := range c.Status.Steps {
		known[s.Name] = s
	}
	var out []Step
	for _, want := range f.Steps {
		s, there := known[want.Name]
		delete(known, want.Name)
		switch wanted := s.Digest == want.Digest && s.State != StepRemoving; {
		case there && !f.Reach && s.Awaits == want.Digest && !f.Decided[s.Name]: // it stays as it was until that may be
		case there && wanted && s.Awaits != "": // nothing is to go any more
			s.Held, s.Approval, s.Awaits, s.Message = nil, "", "", ""
		case !there || !wanted:
			s.Name, s.Digest, s.State, s.Message, s.Generation, s.Token = want.Name, want.Digest, StepWaiting, "", c.Version, 0
			s.Held, s.Approval, s.Cleared, s.Awaits = nil, "", nil, ""
		}
		if s.Needs = want.Needs; s.Message == kept(s.source()) {
			s.Message = ""
		}
		out = append(out, s)
	}
	for _, s := range c.Status.Steps {
		if _, left := known[s.Name]; !left {
			continue
		}
		waits := !f.Reach && s.Awaits == awaitsNone && !f.Decided[s.Name]
		if f.Read[s.source()] && s.State != StepRemoving && !waits {
			s.State, s.Message, s.Generation, s.Token = StepRemoving, "", c.Version, 0
			s.Held, s.Approval, s.Cleared, s.Awaits = nil, "", nil, ""
		}
		if !f.Read[s.source()] && s.State == StepReady && s.Message == "" {
			s.Message = kept(s.source())
		}
		out = append(out, s)
	}
	return out
}

// kept is what a step says whose source is not to be had.
func kept(source string) string {
	return "kept as it is: " + source + " is gone or cannot be read"
}

// applicable lists steps that are not ready and whose needs are, in their
// order; where nothing was looked at for long, the ready ones too, and those of
// which more may go now.
func applicable(steps []Step, applied bool, decided map[string]bool) []string {
	ready := map[string]bool{}
	there := map[string]bool{}
	for _, s := range steps {
		ready[s.Name], there[s.Name] = s.State == StepReady, true
	}
	var out []string
	for _, s := range steps {
		if s.State == StepRemoving || applied && s.State == StepReady && !decided[s.Name] {
			continue
		}
		if !slices.ContainsFunc(s.Needs, func(n string) bool { return there[n] && !ready[n] }) {
			out = append(out, s.Name)
		}
	}
	return out
}

// droppable lists steps that are to go, and may, and that no other needs any more.
func droppable(steps []Step, decided map[string]bool) []string {
	needed := map[string]bool{}
	for _, s := range steps {
		for _, n := range s.Needs {
			needed[n] = true
		}
	}
	var out []string
	for _, s := range steps {
		if s.State == StepRemoving && !needed[s.Name] && (s.Approval == "" || decided[s.Name]) {
			out = append(out, s.Name)
		}
	}
	return out
}

// progress counts the steps that are wanted, and names the first trouble.
func progress(steps []Step) (ready, all int, trouble string) {
	for _, s := range steps {
		if s.State == StepRemoving {
			continue
		}
		all++
		switch s.State {
		case StepReady:
			ready++
		case StepError:
			if trouble == "" {
				trouble = fmt.Sprintf("; %s: %s", s.Name, s.Message)
			}
		}
	}
	return ready, all, trouble
}
