package environment

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/document"
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
	return NewService(Config{}).do(ctx, Environment{}, probe{Check: c})
}
