package httpapi

import (
	"sync"
	"time"
)

const (
	// servedFor is how long it is remembered what an outside agent was given:
	// agents of that protocol ask several times a minute.
	servedFor = time.Minute
	// servedMost bounds the instances that are remembered, of all clusters.
	servedMost = 1 << 20
)

// served remembers which generations were given to outside agents, who do not
// say which one they speak of. It is this replica's memory alone.
type served struct {
	mu    sync.Mutex
	lists map[[2]string]servedList // by cluster and offering
	total int                      // instances in the lists
}

type servedList struct {
	generations map[string]int64 // by instance; not changed any more
	at          time.Time
}

// remember replaces what the cluster was given of the offering.
func (s *served) remember(cluster, offering string, generations map[string]int64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists == nil {
		s.lists = map[[2]string]servedList{}
	}
	for key, l := range s.lists {
		if l.stale(now) {
			s.drop(key)
		}
	}
	key := [2]string{cluster, offering}
	s.drop(key)
	if len(generations) == 0 || s.total+len(generations) > servedMost {
		return
	}
	s.lists[key] = servedList{generations, now}
	s.total += len(generations)
}

func (s *served) drop(key [2]string) {
	s.total -= len(s.lists[key].generations)
	delete(s.lists, key)
}

// recall returns what the cluster was given last, nil if that is not known.
func (s *served) recall(cluster, offering string, now time.Time) map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lists[[2]string{cluster, offering}]
	if l.stale(now) {
		return nil
	}
	return l.generations
}

// stale also holds for a list of the future, which a clock set back leaves.
func (l servedList) stale(now time.Time) bool {
	age := now.Sub(l.at)
	return age > servedFor || age < -servedFor
}
