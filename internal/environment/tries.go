package environment

import (
	"errors"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

const (
	// tryAgain is how often what has failed is tried again where the template says nothing.
	tryAgain = 3
	// restWithin is how long an executor that does not answer is waited for, from the
	// first time that it was given a rest.
	restWithin = 5 * time.Minute
	// probeAgain is the pause after a call that was let through to see whether an
	// executor is back, and found that it is not.
	probeAgain = 5 * time.Second
)

// reckoned is what a failure comes to.
type reckoned struct {
	attempts int           // those that count, this one included if it does
	resting  time.Time     // since when nobody answers; zero: somebody does
	wait     time.Duration // until the next one
	counts   bool
	final    bool // there is no next one
}

// reckon says what comes of a failure: it is tried again a few times, unless that cannot
// help. While the executor is given a rest, neither a call that is not made counts as a
// try nor one that is made to see whether it is back: both say nothing about the
// resource.
func reckon(s ResourceStatus, err error, retries int, now time.Time) reckoned {
	v := reckoned{attempts: s.Attempts, resting: s.Resting}
	rest, resumed := resumes(err)
	open := fault.Reason(err) == "breaker-open"
	if open && v.resting.IsZero() {
		v.resting = now
	}
	switch {
	case resumed && !open:
		v.wait = rest
		return v
	case open || !v.resting.IsZero() && unanswered(err):
		if v.final = now.Sub(v.resting) >= restWithin; v.final {
			v.attempts = retries + 1
		} else if v.wait = rest; !resumed {
			v.wait = probeAgain
		}
		return v
	}
	v.attempts, v.counts, v.resting = v.attempts+1, true, time.Time{}
	v.wait = min(time.Second<<min(v.attempts-1, 6), maxBackoff)
	v.final = v.attempts > retries || movedOn(err) || fault.Is(err, fault.Invalid) || fault.Is(err, fault.Denied)
	return v
}

// unanswered tells that an error is of somebody who is away.
func unanswered(err error) bool {
	var said seemly
	return fault.Is(err, fault.Unavailable) && !(errors.As(err, &said) && said.own)
}

func movedOn(err error) bool { return fault.Is(err, fault.Conflict) && fault.Reason(err) == "moved" }
