package resilience

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
)

type tenantKey struct{}

// For says whose call it is that a context is used for: see Config.Each.
func For(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// company is for how long a tenant that has called counts as one that calls.
const company = time.Second

// shares bounds what one tenant has under way while others call too. It counts
// tenants, not calls: one that is slow because of the flood of another has few calls
// under way, however much room is left. Whoever is alone has all of it. The zero
// value bounds nothing.
type shares struct {
	each int // calls of one tenant; 0: it is not bound

	mu            sync.Mutex
	of            map[string]*share // with calls under way
	latest, other caller            // the last one, and the last one that is somebody else
}

type caller struct {
	tenant string
	at     time.Time
}

// share is what one tenant has under way, and what waits, the first one first. While
// something waits something is under way.
type share struct {
	under   int
	waiting []chan struct{} // closed when it may begin
}

// take waits for the turn of a call among those of its tenant, and returns what ends
// it. The bulkhead's error: the time is up.
func (s *shares) take(ctx context.Context, most time.Duration) (done func(), err error) {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	if s.each <= 0 || tenant == "" {
		return func() {}, nil
	}
	if turn := s.join(tenant); turn != nil {
		timer := time.NewTimer(most)
		defer timer.Stop()
		select {
		case <-turn:
		case <-ctx.Done():
			err = ctx.Err()
		case <-timer.C:
			err = bulkhead.ErrFull
		}
		if err != nil && s.abandon(tenant, turn) {
			return nil, err
		} // otherwise it was its turn in the same moment
	}
	return func() { s.leave(tenant) }, nil
}

// join begins a call, or returns what to wait for.
func (s *shares) join(tenant string) (turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.latest.tenant == tenant {
		s.latest.at = now
	} else {
		s.latest, s.other = caller{tenant, now}, s.latest
	}
	of := s.of[tenant]
	if of == nil {
		if s.of == nil {
			s.of = map[string]*share{}
		}
		of = &share{}
		s.of[tenant] = of
	}
	if s.free(tenant, of) {
		of.under++
		return nil
	}
	turn = make(chan struct{})
	of.waiting = append(of.waiting, turn)
	return turn
}

// free tells whether a tenant may begin another call. The lock is held.
func (s *shares) free(tenant string, of *share) bool {
	if of.under < s.each {
		return true
	}
	if len(of.waiting) > 0 {
		return false // whoever was there before is first
	}
	return s.alone(tenant)
}

// alone tells that nobody else has called of late. The lock is held.
func (s *shares) alone(tenant string) bool {
	others := s.latest
	if others.tenant == tenant {
		others = s.other
	}
	return others.tenant == "" || time.Since(others.at) > company
}

// leave ends a call, and has those begin who may.
func (s *shares) leave(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[tenant]
	of.under--
	for len(of.waiting) > 0 && (of.under < s.each || s.alone(tenant)) {
		close(of.waiting[0])
		of.waiting = of.waiting[1:]
		of.under++
	}
	if of.under == 0 {
		delete(s.of, tenant)
	}
}

// abandon gives a place up; false: it was its turn by then.
func (s *shares) abandon(tenant string, turn chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[tenant]
	if of == nil {
		return false
	}
	at := slices.Index(of.waiting, turn)
	if at < 0 {
		return false
	}
	of.waiting = slices.Delete(of.waiting, at, at+1)
	return true
}
