package app

import (
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/subscription"
)

// Messages is how a server with this bus tells of changes.
func Messages(bus string, next reconcile.Reconciler) (map[string]subscription.Sink, reconcile.Reconciler) {
	s := &Server{}
	s.cfg.Bus = bus
	return s.sinks(&hook.Caller{}), s.telling(next)
}
