package site

import "time"

// Drain is the other site's word that it is about to end; zero: there is none that counts.
type Drain struct {
	Epoch int64     `json:"epoch"` // that it led in
	At    time.Time `json:"at"`    // by its own clock
	Heard time.Time `json:"heard"` // by this site's
}

// Told is what counts after a signal. Signals that were sent before the word that counts may
// come after it, and change nothing.
func (d Drain) Told(s Signal, now time.Time) Drain {
	switch {
	case s.Epoch < d.Epoch || s.Epoch == d.Epoch && !s.At.After(d.At):
		return d
	case s.Kind == SignalDrain:
		return Drain{Epoch: s.Epoch, At: s.At, Heard: now}
	}
	return Drain{}
}

// Works is what counts once the other site has answered as one that leads, and does not
// end, what it was asked at a time. An answer may have been on its way for longer than the
// word.
func (d Drain) Works(asked time.Time) Drain {
	if asked.After(d.Heard) {
		return Drain{}
	}
	return d
}

// Past is what counts once somebody has led in an epoch.
func (d Drain) Past(epoch int64) Drain {
	if epoch > d.Epoch {
		return Drain{}
	}
	return d
}
