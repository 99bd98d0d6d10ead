package bus

import (
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Verdict is what becomes of a message whose handling has failed.
type Verdict int

const (
	Again   Verdict = iota // try it again here, after a while
	Return                 // give it back to the broker, for whoever takes it
	PutAway                // put it aside, with the error as its reason
)

const (
	firstWait, longestWait = 100 * time.Millisecond, 30 * time.Second
	// triesOfWork is for errors that have to do with the message: a minute.
	triesOfWork = 10
	// triesOfOutage is for what we depend on being away: a quarter of an hour, which is
	// less than brokers wait for an acknowledgement. Then another replica may
	// have more luck. An outage alone puts nothing aside.
	triesOfOutage = 38
)

// Later decides after so many tries, at least one, of which the last ended with err.
func Later(err error, tries int) (Verdict, time.Duration) {
	if IsRejected(err) {
		return PutAway, 0
	}
	wait := longestWait
	if shift := tries - 1; shift < 9 { // beyond, it would be longer than the longest
		wait = min(wait, firstWait<<max(shift, 0))
	}
	switch away := fault.Is(err, fault.Unavailable); {
	case away && tries >= triesOfOutage:
		return Return, 0
	case !away && tries >= triesOfWork:
		return PutAway, 0
	}
	return Again, wait
}
