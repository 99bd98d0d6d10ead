package environment

import (
	"context"
	"github.com/droverhq/drover/internal/ledger"
	"time"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/template"
)

// SetPatience says from when on a call is slow, and how often it is looked whether
// it is still wanted.
func (s *Service) SetPatience(slow, glance time.Duration) { s.slow, s.glance = slow, glance }

// SetRest says how long an executor is left alone that does not answer.
func (s *Service) SetRest(d time.Duration) { s.rest = d }

// RemindOf tells whether a reminder is due, and when the next one is.
var RemindOf = remind

// ProbeOnce probes an endpoint.
func ProbeOnce(ctx context.Context, c template.Check) (good bool, message string) {
	c.Timeout = document.Duration(5 * time.Second)
	good, message, _ = NewService(Config{}).do(ctx, Whose{}, probe{Check: c})
	return good, message
}

// Prober probes endpoints as one service does.
func Prober(o resilience.Observer) func(ctx context.Context, c template.Check) (good bool, message string, known bool) {
	s := NewService(Config{Observer: o})
	return func(ctx context.Context, c template.Check) (good bool, message string, known bool) {
		return s.do(ctx, Whose{}, probe{Check: c})
	}
}

// Patrol probes what is due, and tells how long until something is; negative: nothing
// will be.
func (s *Service) Patrol(ctx context.Context) time.Duration {
	for {
		due, next := s.rests.take(s.Now(), probing)
		if len(due) == 0 {
			return next
		}
		for _, v := range due {
			s.visit(ctx, v)
		}
	}
}

// Logs counts those that are at hand.
func (s *Service) Logs() int {
	s.logs.mu.Lock()
	defer s.logs.mu.Unlock()
	return len(s.logs.of)
}

// Adopt keeps watch over what was there before.
func (s *Service) Adopt(ctx context.Context) error { return s.adopt(ctx) }

// Reckoned is what a failure comes to.
type Reckoned struct {
	Attempts      int
	Resting       time.Time
	Wait          time.Duration
	Counts, Final bool
}

// Reckon says what comes of a failure.
func Reckon(s ResourceStatus, err error, retries int, now time.Time) Reckoned {
	v := reckon(s, err, retries, now)
	return Reckoned{v.attempts, v.resting, v.wait, v.counts, v.final}
}

// Own is a failure that says nothing about the other side.
func Own(err error) error { return seemly{error: err, text: err.Error(), own: true} }

// PutOf writes a resource.
func PutOf(r Resource, op string) (ledger.Put, error) { return r.put(op) }
