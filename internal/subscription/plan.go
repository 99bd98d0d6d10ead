package subscription

import (
	"time"

	"github.com/droverhq/drover/internal/fault"
)

const (
	// patience is how long a receiver may fail before nothing is sent to it any more.
	patience = 24 * time.Hour
	// leastTries besides: a ledger that was away for days is no receiver's fault.
	leastTries = 20
)

// delivered is what one attempt came to.
type delivered struct {
	told   int64 // events that were taken
	cursor int64 // up to where everything was told or is of no interest
	passed bool  // there was more than cursors that moved
	err    error // why it ended early
}

// Next is the subscription after an attempt, and whether somebody is to hear of it:
// false if only the cursor moved. It is pure.
func Next(s Subscription, d delivered, now time.Time) (Subscription, bool) {
	s.Status.Cursor = max(s.Status.Cursor, d.cursor)
	if s.Status.Told += d.told; d.told > 0 {
		s.Status.Last = now
	}
	if d.err == nil {
		news := s.Phase != Active
		s.Phase, s.Status.Since, s.Status.Tries, s.Status.Message = Active, time.Time{}, 0, ""
		return s, news
	}
	if d.told > 0 { // it works, and then it does not: from now on
		s.Status.Since, s.Status.Tries = time.Time{}, 0
	}
	before := s.Phase
	if s.Status.Since.IsZero() {
		s.Status.Since = now
	}
	s.Status.Tries++
	s.Status.Message = words(d.err)
	s.Phase = Failing
	gone := fault.Reason(d.err) == ReasonGone
	tired := now.Sub(s.Status.Since) >= patience && s.Status.Tries >= leastTries
	if s.Spec.To == ToWebhook && (gone || tired) { // the broker is the operator's own: it is waited for
		s.Phase = Disabled
	}
	return s, s.Phase != before
}

// retry is the pause before the next try of a receiver that failed so often.
func retry(tries int) time.Duration {
	return min(200*time.Millisecond<<min(max(tries, 1)-1, 16), time.Minute)
}

// ReasonGone is that of an error by which a receiver says that it wants nothing any more.
const ReasonGone = "gone"

// words are what people are told of an error.
func words(err error) string {
	if fault.Of(err) == fault.Internal {
		return "internal error"
	}
	return err.Error()
}
