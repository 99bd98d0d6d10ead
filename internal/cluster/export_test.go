package cluster

import "time"

// SetClock lets tests say what time it is.
func (s *Service) SetClock(now func() time.Time) { s.now = now }
