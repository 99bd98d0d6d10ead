package instance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
)

// How long things may take; an offering can say otherwise for the first three.
const (
	placeWithin   = time.Hour
	prepareWithin = 5 * time.Minute
	observeEvery  = 10 * time.Minute
	versionWithin = 5 * time.Minute
	hookRetry     = 500 * time.Millisecond // while others wait for the same seller
	placeRetry    = time.Minute            // a net: whoever makes room wakes those who wait for it
	lookRetry     = 30 * time.Second       // of a look at what could not be asked
	newsWithin    = 5 * time.Second        // what one replica took an order on (a grant, a denial that is over) is known to all
	rejectedFor   = 5 * time.Minute        // a cluster that had no room is asked again, if no other has any
)

// Facts are what Plan looks at besides the instance.
type Facts struct {
	// Candidates are clusters of the region that could take it, the best of them
	// where there are many; Unlisted is how many more could. Barred tells where
	// none can what is in the way of how many. Only read where NeedsCandidates.
	Candidates []cluster.Candidate
	Unlisted   int
	Barred     map[cluster.Bar]int
	Rules      offering.Placement // by which one of them is chosen
	Units      int64              // that the size takes
	Unsold     string             // its plan, where the file has it no longer: nothing is placed
	Hooks      bool               // the offering has hooks for the present phase
	Timing     offering.Timing    // zero: the defaults

	// Open are components whose version is chosen when it is placed, with what
	// is wanted ("": the newest). Offers are the choices by cluster; a cluster
	// that lacks a component is not listed.
	Open   map[string]string
	Offers map[string]map[string]string

	Grace     time.Duration // of the billing model in force
	Lifespan  bool          // of the size: nobody's entitlement moves its end
	Entitled  Answer
	Ends      time.Time // of the grant that it is entitled by; zero: never
	OtherLost bool      // the cluster of its other copy was given up, or is gone
	Denied    bool      // its owner may do nothing any more
	Removal   Removal   // where a rule would take it
	Target    Answer    // is the billing model to be had that it is promoted to?
	Refusal   string    // why not

	Identity    bool // it is to have an account at an identity provider
	Names       bool // there are name servers for its hosts
	Certificate bool // there is a source of certificates
	Looked      bool // outside, within Timing.Observe
	NextLook    time.Duration
}

// Answer of somebody who may not have been asked, or not have answered.
type Answer int

// Answers. Nothing is ever done because of Unknown.
const (
	Unknown Answer = iota
	Yes
	No
)

func or(d offering.Duration, standard time.Duration) time.Duration {
	if d > 0 {
		return time.Duration(d)
	}
	return standard
}

// NeedsCandidates reports whether Plan will want to place the instance.
func NeedsCandidates(in Instance) bool {
	return in.Status.Cluster == "" && (in.Phase == Accepted || in.Phase == Provisioning) || rejected(in)
}

func rejected(in Instance) bool {
	state, _, current := in.seen()
	return in.Phase == Provisioning && state == stateRejected && current
}

// Plan decides what to do next. It is pure: the same instance, facts and time
// give the same actions. No actions: there is nothing to do until something changes.
func Plan(in Instance, facts Facts, now time.Time) []Action {
	if !in.Deleted.IsZero() {
		return nil
	}
	end := ended(in, facts, now)
	if spare := planSpare(in, facts, end); len(spare) > 0 {
		return spare
	}
	if end.why != "" && !facts.spares(end) {
		return []Action{Expire{Why: end.why}}
	}
	if in.Status.Lost != "" && !gone(in.Phase) && in.Status.Cluster != "" {
		return planLost(in, facts, now)
	}
	if facts.Hooks && !in.hooked(in.Phase) {
		return []Action{Call{Within: hookWithin(in.Phase, facts)}}
	}
	if moved := planEnd(in, facts, now); len(moved) > 0 {
		return moved
	}
	switch in.Phase {
	case Accepted:
		return planAccepted(in, facts, now)
	case Preparing:
		return planPreparing(in, facts)
	case Provisioning, Resuming, Ready, Failed, Suspending, Suspended:
		actions := planPromotion(in, facts)
		if len(actions) == 0 {
			actions = planPlaced(in, facts, now)
		}
		if len(actions) == 0 && in.placed() {
			actions = publish(in, facts)
		}
		if len(actions) == 0 {
			actions = planCopy(in, facts, now)
		}
		return alarm(in, facts, actions, now)
	case Deprovision:
		left := planCopy(in, facts, now)
		if _, waits := first(left).(Come); len(left) > 0 && !waits {
			return left
		}
		state, _, _ := in.seen()
		if in.placed() && state != stateDeleted && in.Status.Lost == "" {
			if in.Status.Rendered != in.Generation {
				return []Action{Render{}} // the document says that it is to go
			}
			return nil
		}
		if len(left) > 0 {
			return left // its other copy is not gone yet
		}
		return []Action{Move{To: Deleting}}
	case Deleting:
		end := []Action{Finish{Phase: operation.Succeeded}, Clean{}}
		if in.outside() {
			return append([]Action{Withdraw{}}, end...)
		}
		return end
	}
	return nil
}

func first(actions []Action) Action {
	if len(actions) == 0 {
		return nil
	}
	return actions[0]
}

// outside reports whether somebody else may hold something of the instance.
func (in *Instance) outside() bool {
	s := &in.Status
	return s.Client != "" || s.Secret != "" || s.Named || s.Certified || len(s.Tickets) > 0
}

// planAccepted reserves the quota and a place, and makes up what preparing will
// need, so that one commit does for all where nothing is in the way.
func planAccepted(in Instance, facts Facts, now time.Time) []Action {
	var reserve, seal []Action
	if len(in.Status.Tickets) > 0 && in.Status.Reserved == "" {
		reserve = []Action{Reserve{}}
	}
	if facts.Identity && in.Status.Client == "" {
		seal = []Action{Seal{}}
	}
	actions := planPlace(in, facts, now, Move{To: Preparing})
	if _, waits := actions[0].(Queue); waits && len(reserve) > 0 && facts.Unsold == "" {
		return reserve // whoever waits for room has its quota already
	}
	if last, ok := actions[len(actions)-1].(Move); ok && last.To == Preparing {
		return slices.Concat(reserve, actions[:len(actions)-1], seal, []Action{last})
	}
	return actions
}

func planPreparing(in Instance, facts Facts) []Action {
	if facts.Identity && in.Status.Client == "" {
		return []Action{Seal{}}
	}
	var actions []Action
	if facts.Identity {
		actions = append(actions, Account{})
	}
	if facts.Certificate {
		actions = append(actions, Certify{})
	}
	return append(actions, Render{}, Move{To: Provisioning})
}

// planPlaced decides for an instance that a data plane has, or is to have.
func planPlaced(in Instance, facts Facts, now time.Time) []Action {
	if in.Phase == Failed && !in.placed() { // nothing that anybody could report on
		return conclude(in, Finish{Phase: operation.Failed, Reason: in.Status.Reason + neverPlaced})
	}
	if in.Phase == Provisioning && in.Status.Cluster == "" {
		return planPlace(in, facts, now, Render{})
	}
	if rejected(in) {
		return []Action{Unplace{}}
	}
	state, message, current := in.seen()
	switch {
	case in.Spec.Suspended && CanMove(in.Phase, Suspending):
		return []Action{Render{}, Move{To: Suspending}}
	case in.Phase == Suspended && !in.Spec.Suspended:
		return []Action{Render{}, Move{To: Resuming}}
	case in.Status.Rendered != in.Generation:
		return []Action{Render{}}
	case !current:
		return nil
	}
	switch {
	case in.Phase == Failed && in.Status.Refused == in.Generation:
		return nil // the seller's no outlasts the agent's yes; a changed wish is asked about anew
	case in.Phase == Suspending && state == stateSuspended:
		return []Action{Move{To: Suspended}, Finish{Phase: operation.Succeeded}}
	case state == stateError && CanMove(in.Phase, Failed):
		reason := failure(message)
		return []Action{Move{To: Failed, Reason: reason}, Finish{Phase: operation.Failed, Reason: reason}}
	case state == stateReady && in.Phase != Ready && CanMove(in.Phase, Ready):
		if facts.Names && !in.Status.Named && !in.published() {
			return []Action{Publish{}} // only written down yet
		}
		return append(publish(in, facts), Move{To: Ready}, Finish{Phase: operation.Succeeded})
	case state == stateReady && in.Phase == Ready, state == stateSuspended && in.Phase == Suspended:
		return conclude(in, Finish{Phase: operation.Succeeded})
	case state == stateError && in.Phase == Failed:
		return conclude(in, Finish{Phase: operation.Failed, Reason: failure(message)})
	}
	return nil
}

const neverPlaced = " It never reached a data plane, so there is nothing to change: delete it and order anew."

// conclude ends the running operation, if there is one.
func conclude(in Instance, with Finish) []Action {
	if in.Status.Operation == "" || in.Status.Promotion == Promoting {
		return nil
	}
	return []Action{with}
}

// publish makes hosts known that are not yet, or point elsewhere.
func publish(in Instance, facts Facts) []Action {
	if facts.Names && !in.published() {
		return []Action{Publish{}}
	}
	return nil
}

// published reports whether all hosts whose targets are known are in place, and
// no others.
func (in *Instance) published() bool {
	known := 0
	for _, r := range in.Status.Routes {
		if r.Router != "" && in.Status.Published[r.Host] != r.Router {
			return false
		}
		if r.Router != "" {
			known++
		}
	}
	return len(in.Status.Published) == known
}

// planPlace picks a cluster with room and versions, and goes on with next.
func planPlace(in Instance, facts Facts, now time.Time, next Action) []Action {
	if in.Status.Cluster != "" {
		return []Action{next}
	}
	waited := now.Sub(in.Status.Since)
	verdict := facts.verdict(in, waited)
	if verdict.Cluster != "" {
		return []Action{Place{Cluster: verdict.Cluster, Why: verdict.Why, Versions: facts.Offers[verdict.Cluster]}, next}
	}
	room := slices.ContainsFunc(verdict.Others, func(j cluster.Judgement) bool { return j.Bar == cluster.NoVersion })
	within := or(facts.Timing.Place, placeWithin)
	why := lackOf(in, facts)
	reason := fmt.Sprintf("Region %s of %s had no room for %s. Delete this instance and try another region, or try again later.",
		in.Spec.Region, in.Spec.Provider, spoken(within))
	if facts.Unsold != "" {
		why = fmt.Sprintf("waiting for plan %s, which is not sold at present", facts.Unsold)
		reason = fmt.Sprintf("Plan %s is not sold any more. Delete this instance and order another one.", facts.Unsold)
	}
	if room {
		parts := strings.Join(slices.Sorted(maps.Keys(facts.Open)), ", ")
		within = min(within, versionWithin)
		why = fmt.Sprintf("waiting for a data plane that offers the wanted version of %s", parts)
		reason = fmt.Sprintf("No data plane in region %s of %s offered the wanted version of %s for %s. Delete this instance and try again later.",
			in.Spec.Region, in.Spec.Provider, parts, spoken(within))
	}
	if !in.Status.Sought.IsZero() && in.Phase == Provisioning { // who is asked again each time need not have room
		waited = max(waited, now.Sub(in.Status.Sought))
	}
	if waited >= within {
		return []Action{Move{To: Failed, Reason: reason}, Finish{Phase: operation.Failed, Reason: reason}}
	}
	return []Action{Queue{Why: why}}
}

// lackOf says what an order waits for. It counts nothing, so that it stays the
// same while others come and go.
func lackOf(in Instance, facts Facts) string {
	any := func(bars ...cluster.Bar) bool {
		return slices.ContainsFunc(bars, func(b cluster.Bar) bool { return facts.Barred[b] > 0 })
	}
	what, why := "waiting for a ready cluster in region %s of %s: ", "there is none"
	switch {
	case in.Spec.Cluster != "" && any(cluster.OtherTenant):
		what, why = "waiting for its own cluster in region %s of %s: ", "it is not there, or not its organisation's"
	case any(cluster.NoRoom, cluster.LimitReached, cluster.WasRejected) || len(facts.Candidates) > 0:
		what, why = "waiting for room in region %s of %s: ", "its clusters are full"
		if any(cluster.Unschedulable, cluster.Draining) {
			why = "its clusters are full, or take no new orders"
		}
	case any(cluster.Unschedulable, cluster.Draining):
		why = "its clusters take no new orders"
	case any(cluster.NotReady, cluster.Unfit, cluster.Leaving):
		why = "its clusters are not ready"
	case any(cluster.OtherOffering, cluster.OtherType, cluster.OtherZones, cluster.Unlabelled, cluster.Tainted):
		why = "its clusters host other services"
	}
	return fmt.Sprintf(what, in.Spec.Region, in.Spec.Provider) + why
}

func spoken(d time.Duration) string {
	if d == time.Hour {
		return "an hour"
	}
	s := strings.TrimSuffix(d.String(), "0s")
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func failure(message string) string {
	if message == "" {
		return "The data plane reports a failure without a reason."
	}
	return "The data plane reports: " + message
}

// hookWithin is how long a phase waits for its hooks; a deletion waits for ever,
// since giving up would leave the seller's side behind.
func hookWithin(phase string, facts Facts) time.Duration {
	if phase == Deprovision || phase == Deleting {
		return 0
	}
	return or(facts.Timing.Prepare, prepareWithin)
}

// refuses reports whether somebody outside was there and said no.
func refuses(kind fault.Kind) bool {
	return kind == fault.Invalid || kind == fault.Denied || kind == fault.Exhausted || kind == fault.Conflict
}

// hopeless decides whether trouble with somebody outside fails the instance:
// at once where they refuse what they are given, else when the phase has lasted
// too long. A deletion is never given up, and what runs is left running.
func hopeless(in Instance, facts Facts, kind fault.Kind, now time.Time) bool {
	refused := refuses(kind)
	waited := now.Sub(in.Status.Since)
	switch in.Phase {
	case Accepted:
		if kind == fault.Denied && waited < newsWithin {
			return false
		}
		return refused || waited >= or(facts.Timing.Place, placeWithin)
	case Preparing:
		return refused || kind != fault.NotFound && waited >= or(facts.Timing.Prepare, prepareWithin)
	case Provisioning:
		return refused
	}
	return false
}
