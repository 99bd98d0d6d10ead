package environment

import (
	"cmp"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/template"
)

// Defaults of checks.
const (
	checkEvery    = 10 * time.Second
	checkTimeout  = 5 * time.Second
	checkWithin   = 5 * time.Minute
	checkFailures = 3
	fastest       = time.Second // how often one is probed at most
	slowest       = 30 * time.Second
)

// filled has a check's defaults.
func filled(c template.Check) template.Check {
	c.Every = document.Duration(max(cmp.Or(time.Duration(c.Every), checkEvery), fastest))
	c.Timeout = document.Duration(min(cmp.Or(time.Duration(c.Timeout), checkTimeout), slowest))
	c.Within = document.Duration(cmp.Or(time.Duration(c.Within), checkWithin))
	c.Passes, c.Failures = max(c.Passes, 1), cmp.Or(max(c.Failures, 0), checkFailures)
	return c
}

// Tally is what is known of one endpoint: its verdict, and how the last probes went.
type Tally struct {
	OK      *bool // nil: not decided yet
	Good    bool  // the last one
	Row     int   // how many like it there were
	Message string
	At      time.Time // of the last one
}

// Weigh adds a probe to a tally. It is pure. A verdict needs as many in a row as the
// check says; before the first one, it has the time that a deployment may take.
func Weigh(c template.Check, t Tally, good bool, message string, deployed, now time.Time) Tally {
	if t.Row > 0 && t.Good == good {
		t.Row++
	} else {
		t.Row = 1
	}
	t.Good, t.Message, t.At = good, message, now
	switch {
	case good && t.Row >= c.Passes:
		yes := true
		t.OK, t.Message = &yes, ""
	case !good && t.Row >= c.Failures && (t.OK != nil || now.Sub(deployed) >= time.Duration(c.Within)):
		no := false
		t.OK = &no
	}
	return t
}

// health is what endpoints make of an environment. It is pure.
func health(all []Endpoint) (phase, message string) {
	var bad, open []string
	for _, e := range all {
		name := e.Name
		if e.Of != "" {
			name = e.Of + "/" + e.Name
		}
		switch {
		case e.OK == nil:
			open = append(open, name)
		case !*e.OK:
			bad = append(bad, fmt.Sprintf("%s (%s): %s", name, e.URL, e.Message))
		}
	}
	switch {
	case len(bad) > 0:
		return Fail, fmt.Sprintf("It is made, and does not work: %s. It is looked at again by itself.", sentences(bad, 3))
	case len(open) > 0:
		return Waiting, "it is made, and is being validated: " + sentences(open, 3)
	}
	return OK, ""
}

// atRest: all is made, and nobody wants anything else. What is worked on then is a
// correction.
func atRest(e Environment, seen Seen) bool {
	c := seen.Counts
	return e.Spec.Turn > 0 && e.Status.Laid == e.Spec.Turn && !e.Spec.Destroy && e.Status.Operation == "" &&
		c.Pending+c.Leaving+c.Failed+c.Blocked == 0 && (e.Phase == OK || e.Phase == Waiting || e.Phase == Fail)
}

// Actions of an environment at rest.
type (
	// Probe has this replica probe the endpoints, without further work.
	Probe struct{}
	// Glance has everything looked at, and what nobody expects.
	Glance struct{}
	// Stray looks for what nobody expects.
	Stray struct{}
	// Count tells what is there and what has drifted.
	Count struct{}
)

func (Probe) action()  {}
func (Glance) action() {}
func (Stray) action()  {}
func (Count) action()  {}

// planGlance has everything looked at where somebody asks for it, also where
// something has failed. While it is worked on, that comes first.
func planGlance(e Environment, seen Seen, _ time.Time) []Action {
	c := seen.Counts
	if e.Spec.Destroy || e.Status.Laid < e.Spec.Turn || c.Pending+c.Applying+c.Leaving > 0 {
		return nil
	}
	if e.Spec.Look > e.Status.Looked {
		return []Action{Glance{}}
	}
	if e.Phase == Fail && e.Status.Operation == "" && c.Drifted != e.Status.Counts.Drifted {
		return []Action{Count{}}
	}
	return nil
}

// planRest decides about an environment at rest: what is probed, looked at and told.
func planRest(e Environment, seen Seen, now time.Time) []Action {
	if !atRest(e, seen) {
		return nil
	}
	c, was := seen.Counts, e.Status.Counts
	if e.Status.Anew > 0 && c.Applying == 0 { // its outputs are told anew
		return []Action{Settle{Phase: OK, Outcome: operation.Succeeded}}
	}
	if c.Ready != was.Ready || c.Applying != was.Applying || c.Drifted != was.Drifted {
		return []Action{Count{}}
	}
	if !seen.StrayAt.IsZero() && !seen.StrayAt.After(now) {
		return []Action{Stray{}}
	}
	after, timed := untilEnd(e, now)
	why := "it ends then"
	if len(e.Status.Checks)+len(e.Status.Entries) > 0 {
		if !seen.ProbeAt.After(now) {
			return []Action{Probe{}}
		}
		if wait := seen.ProbeAt.Sub(now); !timed || wait < after {
			after, timed, why = wait, true, "its status endpoints are probed then"
		}
	}
	if !seen.StrayAt.IsZero() {
		if wait := seen.StrayAt.Sub(now); !timed || wait < after {
			after, timed, why = max(wait, time.Second), true, "it is looked for what nobody expects then"
		}
	}
	if c.Applying > 0 && (!timed || after > glanceEvery) {
		after, timed, why = glanceEvery, true, "a resource is corrected"
	}
	if !timed {
		return nil
	}
	return []Action{Come{After: after, Why: why}}
}
