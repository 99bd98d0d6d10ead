package instance

import (
	"hash/fnv"
	"time"
)

// LifespanOver is what the log has as the cause where an instance was to go at
// its end.
const LifespanOver = "its lifespan ended"

const ownerDenied = "its owner was denied"

// ending is why an instance is to go without anybody having asked for it.
type ending struct {
	why   string // "": it is not
	ruled bool   // a rule takes it, which may take many: the breaker is asked
}

// ended tells whether an instance is to go, and whether that was said of it
// alone: the end that it was given when it was ordered is its own, however many
// have the same. What a list says now of many owners, and an entitlement that is
// over before it was to be, are rules.
func ended(in Instance, facts Facts, now time.Time) ending {
	over := !in.Status.Expires.IsZero() && !now.Before(in.Status.Expires)
	switch {
	case in.Phase == Deprovision || in.Phase == Deleting:
		return ending{}
	case over && !in.Status.Ruled:
		return ending{why: LifespanOver}
	case facts.Denied && now.Sub(in.Created) >= newsWithin:
		return ending{why: ownerDenied, ruled: true}
	case over && facts.Entitled == No: // the rule may have been changed back meanwhile, which nobody can tell while its source is away
		return ending{why: LifespanOver, ruled: true}
	}
	return ending{}
}

// withinGrace reports whether the end is so near that it must rest.
func withinGrace(in Instance, grace time.Duration, now time.Time) bool {
	return grace > 0 && !in.Status.Expires.IsZero() && in.Status.Expires.Sub(now) <= grace
}

// planEnd follows the entitlement with the end, and the end with suspension.
func planEnd(in Instance, facts Facts, now time.Time) []Action {
	if !facts.Lifespan && in.Status.Source != "" {
		switch {
		case facts.Entitled == No && in.Status.Expires.IsZero():
			return []Action{Until{Expires: now.Add(facts.Grace), Ruled: !in.lapsed(now)}}
		case facts.Entitled == Yes && !in.Status.Expires.IsZero():
			return []Action{Until{}}
		case facts.Entitled == Yes && later(facts.Ends, in.Status.GrantEnds):
			return []Action{Granted{Ends: facts.Ends}}
		}
	}
	near := withinGrace(in, facts.Grace, now)
	switch in.Phase {
	case Accepted, Preparing, Provisioning, Ready, Resuming:
		if near && !in.Spec.Suspended {
			return []Action{Rest{On: true}}
		}
	case Suspended:
		if !near && in.Status.Resting && in.Spec.Suspended {
			return []Action{Rest{On: false}}
		}
	}
	return nil
}

// alarm sets the alarm clock where nothing else is to be done: for the end, for
// the rest before it, and for the next look outside, whichever comes first.
func alarm(in Instance, facts Facts, actions []Action, now time.Time) []Action {
	if len(actions) > 0 {
		return actions
	}
	var next []Come
	if end := in.Status.Expires; end.After(now) {
		next = append(next, Come{After: end.Sub(now), Why: "its lifespan ends " + end.Format(time.RFC3339)})
		if rest := end.Add(-facts.Grace); facts.Grace > 0 && rest.After(now) && !in.Spec.Suspended {
			next = append(next, Come{After: rest.Sub(now), Why: "it rests from " + rest.Format(time.RFC3339)})
		}
	}
	if end := in.Status.Expires; !end.IsZero() && !end.After(now) && in.Status.Approval == "" {
		next = append(next, Come{After: every(in.ID, spareFor), Why: "whether it is still to go is asked again"})
	}
	if in.Status.Approval != "" {
		next = append(next, Come{After: every(in.ID, spareFor), Why: in.Status.Message})
	} else if facts.Denied { // or was, when it was ordered: this replica may not have heard of the end of that
		next = append(next, Come{After: newsWithin - now.Sub(in.Created), Why: "whether its owner is denied is looked at again"})
	}
	if watched(in, facts) {
		if !facts.Looked {
			return []Action{Look{}}
		}
		next = append(next, Come{After: facts.NextLook, Why: "what is outside is looked at again"})
	}
	if len(next) == 0 {
		return nil
	}
	first := next[0]
	for _, c := range next[1:] {
		if c.After < first.After {
			first = c
		}
	}
	return []Action{first}
}

// watched reports whether there is anything outside that could go by itself.
func watched(in Instance, facts Facts) bool {
	return in.placed() && (facts.Identity || facts.Names && len(in.Status.Published) > 0 ||
		in.Status.Source != "" && !facts.Lifespan)
}

// every spreads the looks of a fleet: the same instance always has the same
// period, within a fifth of the offering's.
func every(id string, d time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(id))
	return d - d/5 + time.Duration(float64(d)*0.4*float64(h.Sum32()%1000)/1000)
}
