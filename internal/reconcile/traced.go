package reconcile

import (
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/trace"
)

// follow makes a run part of the trace that it was woken in. The loop begins no trace:
// what nobody asked for would bury what somebody did.
func (l *Loop) follow(r *run) {
	if l.cfg.Tracer == nil || r.work.Trace == "" {
		return
	}
	r.ctx, r.followed = l.cfg.Tracer.Continue(r.ctx, r.work.Trace, "reconcile "+r.work.Kind)
	r.ctx = r.followed.Hold(r.ctx) // what it calls is told with it, or not at all
	r.followed.Set(trace.Text("drover.kind", r.work.Kind), trace.Text("drover.id", r.work.ID), trace.Text("drover.org", r.work.Org),
		trace.Text("drover.cause", string(r.work.Cause)), trace.Number("drover.attempts", int64(r.work.Attempts)))
	r.trace = trace.Parent(r.ctx)
}

// told ends what is told of a run. One that found that it has to wait, and did nothing,
// is not told: the trace of what is stuck would grow for ever.
func (r *run) told(outcome Outcome, err error) {
	if r.followed == nil || outcome == Waiting && !r.wrote {
		return
	}
	r.followed.Set(trace.Text("drover.outcome", string(outcome)), trace.Number("drover.rounds", int64(r.rounds)))
	why := ""
	if err != nil {
		why = string(outcome) + ": " + fault.Of(err).String()
	}
	r.followed.End(why)
}
