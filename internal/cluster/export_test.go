package cluster

import "time"

// SetClock lets tests say what time it is.
func (s *Service) SetClock(now func() time.Time) { s.now = now }

// SetGlance says how often it is looked whether a cluster is still wanted.
func (s *Service) SetGlance(d time.Duration) { s.glance = d }
