package argocd

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

const superseded = "a later request took its place"

// announce shows that a deployment's operation is under way; one that still was is
// overtaken by it.
func (s *shift) announce(d runtime.Deployment, m *memory, applied bool) {
	op := d.Operation
	if applied || !m.announces(op) {
		return
	}
	s.overtake(m, op.ID)
	m.Open = op
	s.ops.begin(*op, inProgress)
}

// overtake ends what was under way before something else is.
func (s *shift) overtake(m *memory, by string) {
	if m.Open != nil && m.Open.ID != by {
		s.ops.end(*m.Open, completed, superseded)
	}
	m.Open = nil
}

// conclude notes how a deployment's operation has ended, once.
func (s *shift) conclude(d runtime.Deployment, m *memory, err error) {
	op := d.Operation
	if op == nil || fault.Is(err, fault.Unavailable) {
		return
	}
	end := outcome{ID: op.ID, State: completed, At: s.r.cfg.Now().UTC().Truncate(time.Second)}
	if err != nil {
		end.State, end.Message = failed, short(strings.TrimSpace(err.Error()), 1000)
		if fault.Is(err, fault.Internal) {
			end.Message = "the data plane cannot apply it; its operator finds the reason in the agent's log"
		}
	}
	m.Open = nil
	if was := m.Done; was != nil && was.ID == end.ID && was.State == end.State && was.Message == end.Message {
		return
	}
	m.Done = &end
	s.ops.end(*op, end.State, end.Message)
}

// opened shows the operations of what a deployment is opened with, now that it is in
// place, and those that would have changed that and failed: what has just ended, and each
// once, whoever else uses it.
func (s *shift) opened(d runtime.Deployment) {
	for _, op := range d.Opened {
		if s.ops.news(op) {
			s.ops.show(shown{DeploymentOperation: op, state: completed, begun: op.Begun, at: op.Ended})
		}
	}
	for _, op := range d.Refused {
		if s.ops.news(op) {
			s.ops.show(shown{DeploymentOperation: op, state: failed, message: short(op.Why, 1000), begun: op.Begun, at: op.Ended})
		}
	}
}

// news tells whether an operation that the control plane is done with is still to be
// shown, and takes it that it is.
func (o *operations) news(op runtime.DeploymentOperation) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, told := o.opened[op.ID]; told || o.s.r.cfg.Now().Sub(op.Ended) >= operationKept {
		return false
	}
	o.opened[op.ID] = op.Ended
	return true
}

// forget drops what is no news any more.
func (o *operations) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.opened, func(_ string, ended time.Time) bool { return o.s.r.cfg.Now().Sub(ended) >= operationKept })
}

// follows shows how a sync goes. Before is how it went when it was last looked at.
func (s *shift) follows(want *runtime.SyncRequest, before, run *runtime.SyncRun, begun bool) {
	if want == nil || want.Operation == nil || run == nil || run.ID != want.ID {
		return
	}
	op := *want.Operation
	switch over := before != nil && before.ID == run.ID && ended(before); {
	case over:
	case !ended(run) && begun:
		s.ops.begin(op, inProgress)
	case !ended(run):
		s.ops.begin(op, waiting)
	case run.Phase == "Succeeded":
		s.ops.end(op, completed, run.Message)
	default:
		s.ops.end(op, failed, cmp.Or(run.Message, "the sync "+strings.ToLower(run.Phase)))
	}
}

// parts shows that a deployment is removed, and returns what shows that it is gone.
func (s *shift) parts(rec keep.Record) (gone func()) {
	op := farewell(rec)
	key, by := "removal of "+rec.ID, ""
	if op != nil {
		by = op.ID
		s.ops.begin(*op, inProgress)
	}
	if s.ops.first(key) { // what it was about is over
		m := remember(rec.Own)
		if d := m.last(); d != nil && d.Sync != nil && d.Sync.Operation != nil && (m.Run == nil || m.Run.ID != d.Sync.ID || !ended(m.Run)) {
			s.ops.end(*d.Sync.Operation, failed, "the deployment was deleted")
		}
		s.overtake(&m, by)
	}
	return func() {
		s.ops.drop(key)
		if op != nil {
			s.ops.end(*op, completed, "")
		}
	}
}

// farewell is the operation of a removal; nil: there is none.
func farewell(rec keep.Record) (op *runtime.DeploymentOperation) {
	if len(rec.Farewell) > 0 {
		_ = json.Unmarshal(rec.Farewell, &op) // it is nothing but for show
	}
	return op
}

// depart shows that a removal is over before the item is forgotten: nobody could show it
// afterwards. Where that cannot be, the item goes all the same.
func (s *shift) depart(ctx context.Context, rec keep.Record) {
	if op := farewell(rec); op != nil && !s.r.cfg.Quiet {
		s.ops.finish(ctx, *op)
	}
}

// retell shows how that has ended which ended a short while before the shift began:
// whoever was to show it may have died before.
func (s *shift) retell(rec keep.Record) {
	recent := func(at time.Time) bool { return s.r.cfg.Now().Sub(at) < operationKept }
	if op := farewell(rec); rec.Gone && op != nil {
		s.ops.end(*op, completed, "")
	}
	d, err := read(rec.Body)
	if err != nil || rec.Gone || rec.Delete {
		return
	}
	m := remember(rec.Own)
	if op, was := d.Operation, m.Done; op != nil && was != nil && was.ID == op.ID && recent(was.At) {
		s.ops.show(shown{DeploymentOperation: *op, state: was.State, message: was.Message, at: was.At})
	}
	if m.Run != nil && ended(m.Run) && recent(m.Run.Finished) {
		s.follows(d.Sync, nil, m.Run, true)
	}
}
