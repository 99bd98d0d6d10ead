package ledger

import "time"

// Lanes gives work its turn so that claims in the order of turns rotate over
// organisations. A piece's turn is its due time, pushed behind the previous
// piece of the same organisation by one step: a tenant that makes thousands of
// objects due at once fills the next minute of turns, and another tenant's piece
// that falls due one second later goes before most of them.
// Where more falls due than is done, what waits longest has waited for a while; a
// piece of an organisation that has nothing there begins beside that, or it would be
// behind all that came before it.
// Turns only order; whatever is due may run. Since a turn is at most a horizon
// after the due time, a claim looks no further than that past now.
//
// A store keeps one Lanes per process; it is a hint, and losing it costs nothing.
type Lanes struct {
	last map[string]time.Time
	late time.Duration // how long ago the turn was of what is claimed
}

const (
	// laneStep is about what a piece takes when there is much to do, calls out included.
	laneStep = 20 * time.Millisecond
	// LaneHorizon bounds how far a turn lies behind the due time.
	LaneHorizon = time.Minute
	// laneLate bounds how far it lies before the due time: a claim passes over what has
	// its turn and is not due yet.
	laneLate  = 10 * time.Minute
	laneLimit = 10_000
)

// Claimed is told of a piece whose turn has come, or of the present time where nothing
// waits: only what waits is late.
func (l *Lanes) Claimed(now, turn time.Time) {
	l.late = min(max(now.Sub(turn), 0), laneLate)
}

func (l *Lanes) turn(org string, now, due time.Time) time.Time {
	if due.Sub(now) > time.Second {
		return due.Add(-l.late) // later work must not push back the organisation's present work
	}
	if l.last == nil {
		l.last = map[string]time.Time{}
	}
	if len(l.last) > laneLimit {
		for o, t := range l.last {
			if t.Before(now.Add(-l.late)) {
				delete(l.last, o)
			}
		}
	}
	turn := due.Add(-l.late)
	if next := l.last[org].Add(laneStep); next.After(turn) {
		turn = next
	}
	if limit := due.Add(LaneHorizon); turn.After(limit) {
		turn = limit
	}
	l.last[org] = turn
	return turn
}
