package breaker

import "time"

// What rules have taken from a scope is counted by one counter that only grows,
// and a few marks say when it stood where. Whoever takes something makes a mark
// first if the last one is older than the grain, so what lies between two marks
// was taken within the grain after the first. The counter's bound is then where
// it stood an hour ago, or earlier, plus the limit: a counter's bound is checked
// in the commit that moves it, so that any number of replicas keep it together.
// A clock that was set back only finds less of the past to be over.

// grain is how exactly the past is known.
const grain = 5 * time.Minute

// mark says that so many were counted at a moment.
type mark struct {
	At time.Time `json:"at"`
	N  int64     `json:"n"`
}

// window is what is known of when the counter of a scope moved.
type window struct {
	Marks []mark `json:"marks,omitempty"` // times never fall
}

// over is how many of those counted so far were taken before the window began.
func (w window) over(counted int64, now time.Time) int64 {
	begin := now.Add(-Window)
	var n int64
	for i, m := range w.Marks {
		if !m.At.After(begin) {
			n = max(n, m.N)
		}
		if m.At.Add(grain).After(begin) {
			continue
		}
		if i+1 < len(w.Marks) {
			n = max(n, w.Marks[i+1].N)
		} else {
			n = max(n, counted)
		}
	}
	return n
}

// due reports whether a mark is to be made before anything is taken.
func (w window) due(now time.Time) bool {
	last := len(w.Marks) - 1
	return last < 0 || !now.Before(w.Marks[last].At.Add(grain))
}

// marked adds a mark and drops those that the window is past.
func (w window) marked(counted int64, now time.Time) window {
	begin, from := now.Add(-Window), 0
	for i, m := range w.Marks {
		if !m.At.After(begin) {
			from = i
		}
	}
	kept := append([]mark(nil), w.Marks[min(from, len(w.Marks)):]...)
	return window{Marks: append(kept, mark{At: now, N: counted})}
}
