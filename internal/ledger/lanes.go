package ledger

import "time"

// Lanes gives work its turn so that claims in the order of turns rotate over
// organisations. A piece's turn is its due time, pushed behind the previous
// piece of the same organisation by one step: a tenant that makes 10,000
// objects due at once fills the next fifty seconds of turns, and another
// tenant's piece that falls due one second later goes before most of them.
// Turns only order; whatever is due may run. Since a turn is at most a horizon
// after the due time, a claim looks no further than that past now.
//
// A store keeps one Lanes per process; it is a hint, and losing it costs nothing.
type Lanes struct{ last map[string]time.Time }

const (
	laneStep = 5 * time.Millisecond
	// LaneHorizon bounds how far a turn lies behind the due time.
	LaneHorizon = time.Minute
	laneLimit   = 10_000
)

func (l *Lanes) turn(org string, now, due time.Time) time.Time {
	if due.Sub(now) > time.Second {
		return due // later work must not push back the organisation's present work
	}
	if l.last == nil {
		l.last = map[string]time.Time{}
	}
	if len(l.last) > laneLimit {
		for o, t := range l.last {
			if t.Before(now) {
				delete(l.last, o)
			}
		}
	}
	turn := due
	if next := l.last[org].Add(laneStep); next.After(turn) {
		turn = next
	}
	if limit := due.Add(LaneHorizon); turn.After(limit) {
		turn = limit
	}
	l.last[org] = turn
	return turn
}
