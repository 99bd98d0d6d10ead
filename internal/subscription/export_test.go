package subscription

import "time"

// Failed is the subscription after an attempt that failed, and whether that is news.
func Failed(s Subscription, why error, now time.Time) (Subscription, bool) {
	return Next(s, delivered{cursor: s.Status.Cursor, err: why}, now)
}
