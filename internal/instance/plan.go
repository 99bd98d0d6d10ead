package instance

import (
	"fmt"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/operation"
)

// How long a phase may take before it has failed.
const (
	placeWithin   = time.Hour
	prepareWithin = 5 * time.Minute
	hookRetry     = 500 * time.Millisecond // while others wait for the same seller
	placeRetry    = time.Minute            // a net: whoever makes room wakes those who wait for it
)

// Facts are what Plan looks at besides the instance.
type Facts struct {
	Candidates []cluster.Candidate // ready clusters of the region; only read where NeedsCandidates
	Units      int64               // that the size takes
	Hooks      bool                // the offering has hooks for the present phase
}

// Action is one step. Plan returns them in the order they are to be done; all
// but Call are only written, together, in one commit.
type Action interface{ action() }

type (
	// Move enters a phase.
	Move struct{ To, Reason string }
	// Place reserves the units on a cluster.
	Place struct{ Cluster string }
	// Unplace gives the units back after the cluster had no room.
	Unplace struct{}
	// Render makes the data plane's document for the present generation.
	Render struct{}
	// Call calls the hooks of the present phase.
	Call struct{ Within time.Duration }
	// Finish ends the running operation.
	Finish struct{ Phase, Reason string }
	// Expire turns the end of the lifespan into the wish to delete.
	Expire struct{}
	// Clean gives names and units back and soft-deletes the object.
	Clean struct{}
	// Queue waits for room.
	Queue struct{ Why string }
	// Come comes back later.
	Come struct {
		After time.Duration
		Why   string
	}
)

func (Move) action()    {}
func (Place) action()   {}
func (Unplace) action() {}
func (Render) action()  {}
func (Call) action()    {}
func (Finish) action()  {}
func (Expire) action()  {}
func (Clean) action()   {}
func (Queue) action()   {}
func (Come) action()    {}

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
	if expired(in, now) {
		return []Action{Expire{}}
	}
	if facts.Hooks && !in.hooked(in.Phase) {
		return []Action{Call{Within: hookWithin(in.Phase)}}
	}
	switch in.Phase {
	case Accepted:
		return planPlace(in, facts, now, Move{To: Preparing})
	case Preparing:
		return []Action{Render{}, Move{To: Provisioning}}
	case Provisioning, Resuming, Ready, Failed, Suspending, Suspended:
		return untilExpiry(in, planPlaced(in, facts, now), now)
	case Deprovision:
		state, _, _ := in.seen()
		if in.placed() && state != stateDeleted {
			if in.Status.Rendered != in.Generation {
				return []Action{Render{}} // the document says that it is to go
			}
			return nil
		}
		return []Action{Move{To: Deleting}}
	case Deleting:
		return []Action{Finish{Phase: operation.Succeeded}, Clean{}}
	}
	return nil
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
	case in.Phase == Ready && in.Spec.Suspended:
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
		return []Action{Move{To: Ready}, Finish{Phase: operation.Succeeded}}
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
	if in.Status.Operation == "" {
		return nil
	}
	return []Action{with}
}

// planPlace picks the first cluster with room and goes on with next.
func planPlace(in Instance, facts Facts, now time.Time, next Action) []Action {
	if in.Status.Cluster != "" {
		return []Action{next}
	}
	for _, c := range facts.Candidates {
		if c.Free() >= facts.Units && !slices.Contains(in.Status.Rejected, c.ID) {
			return []Action{Place{Cluster: c.ID}, next}
		}
	}
	why := fmt.Sprintf("waiting for room in region %s of %s", in.Spec.Region, in.Spec.Provider)
	if now.Sub(in.Status.Since) >= placeWithin {
		reason := fmt.Sprintf("Region %s of %s had no room for an hour. Delete this instance and try another region, or try again later.",
			in.Spec.Region, in.Spec.Provider)
		return []Action{Move{To: Failed, Reason: reason}, Finish{Phase: operation.Failed, Reason: reason}}
	}
	return []Action{Queue{Why: why}}
}

func failure(message string) string {
	if message == "" {
		return "The data plane reports a failure without a reason."
	}
	return "The data plane reports: " + message
}

func expired(in Instance, now time.Time) bool {
	return !in.Status.Expires.IsZero() && !now.Before(in.Status.Expires) && in.Phase != Deprovision && in.Phase != Deleting
}

// untilExpiry adds the alarm clock where nothing else is to be done.
func untilExpiry(in Instance, actions []Action, now time.Time) []Action {
	if len(actions) > 0 || in.Status.Expires.IsZero() {
		return actions
	}
	return []Action{Come{After: in.Status.Expires.Sub(now), Why: "its lifespan ends " + in.Status.Expires.Format(time.RFC3339)}}
}

// hookWithin is how long a phase waits for its hooks; a deletion waits for ever,
// since giving up would leave the seller's side behind.
func hookWithin(phase string) time.Duration {
	if phase == Deprovision || phase == Deleting {
		return 0
	}
	return prepareWithin
}
