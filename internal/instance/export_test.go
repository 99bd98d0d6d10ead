package instance

import "time"

// SetClock lets tests pass time.
func (s *Service) SetClock(now func() time.Time) { s.Now = now }

// SetClock lets tests pass time.
func (r *Reconciler) SetClock(now func() time.Time) { r.Now = now }
