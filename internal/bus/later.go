package bus

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Verdict is what becomes of a message whose handling has failed.
type Verdict int

const (
	Again   Verdict = iota // try it again here, after a while
	Park                   // keep it elsewhere for a while, where nobody waits behind it; then it comes again
	PutAway                // put it aside, with the error as its reason
)

const (
	firstWait, longestWait = 100 * time.Millisecond, 30 * time.Second
	// triesInHand is how often a message is tried before it waits elsewhere: what is over
	// in a moment costs nothing more, and what is not holds up nobody else's messages.
	triesInHand = 3
	// triesOfWork is for errors that have to do with the message: a minute. What we
	// depend on being away is waited for, for as long as it takes.
	triesOfWork = 10
)

// Later decides after the try that ended with err. An outage alone puts nothing aside.
// The wait is to be spread.
func Later(err error, d Delivery) (Verdict, time.Duration) {
	if IsRejected(err) || own(err) && d.Failed+1 >= triesOfWork {
		return PutAway, 0
	}
	wait := longestWait
	if shift := d.Try - 1; shift < 9 { // beyond, it would be longer than the longest
		wait = min(wait, firstWait<<max(shift, 0))
	}
	if d.Try < triesInHand {
		return Again, wait
	}
	return Park, wait
}

// Retried is the delivery of the next try, after one that ended with err.
func (d Delivery) Retried(err error) Delivery {
	d.Again = true
	d.Try++
	if own(err) {
		d.Failed++
	}
	return d
}

// own tells whether an error has to do with the message, and not with who is away.
func own(err error) bool { return !fault.Is(err, fault.Unavailable) }

// Spread returns about d, up to a quarter more or less: those who failed together do not
// all come back together.
func Spread(d time.Duration) time.Duration {
	return d - d/4 + time.Duration(rand.Int64N(int64(max(d/2, 1))))
}

// Rest waits for about d, and tells whether that was over before ctx was.
func Rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(Spread(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
