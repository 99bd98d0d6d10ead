package agent

import (
	"context"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/trace"
)

// traced is an item that was applied in a trace, until the control plane has heard what
// became of it.
type traced struct {
	generation int64
	since      time.Time
	parent     string // how it goes on
	settled    bool   // the end of it was told
}

// tracedTries is how often an item that fails is applied in its trace: what cannot be
// done for days must not be told for days.
const tracedTries = 5

// follow begins the span of an item that is applied. An agent that follows nothing
// itself hands on what it was given.
func (a *Agent) follow(ctx context.Context, e *entry) (context.Context, *trace.Span) {
	if e.trace == "" {
		return ctx, nil
	}
	ctx, span := a.cfg.Tracer.Continue(ctx, e.trace, "agent apply")
	t := traced{generation: e.item.Generation, since: time.Now(), parent: e.trace}
	if span != nil {
		span.Set(trace.Text("drover.id", e.item.ID), trace.Text("drover.kind", itemKind(e.item)), trace.Text("drover.cluster", a.cfg.Cluster),
			trace.Number("drover.generation", e.item.Generation), trace.Number("drover.attempts", int64(e.failures)))
		t.parent = trace.Parent(ctx)
	}
	a.mu.Lock() // before it is applied: it may be seen before Apply returns
	a.traced[e.item.ID] = t
	a.mu.Unlock()
	if e.failures+1 >= tracedTries {
		e.trace = ""
	}
	return ctx, span
}

func itemKind(it runtime.Item) string {
	switch {
	case it.Delete:
		return "removal"
	case it.Kind == "":
		return "instance"
	}
	return it.Kind
}

// continued says of items that are told in which traces they are. When one has come to
// rest, how long that took is told too. The lock is held.
func (a *Agent) continued(ctx context.Context, items []v1.ObservedItem) {
	if len(a.traced) == 0 {
		return
	}
	for i := range items {
		o := &items[i]
		t, ok := a.traced[o.ID]
		if !ok || o.Generation < t.generation {
			continue
		}
		if atRest(o.State) && !t.settled {
			t.parent, t.settled = a.cfg.Tracer.Past(ctx, t.parent, "agent settle", t.since,
				trace.Text("drover.id", o.ID), trace.Text("drover.cluster", a.cfg.Cluster), trace.Text("drover.state", o.State)), true
			a.traced[o.ID] = t
		}
		o.Trace = t.parent
	}
}

// handed forgets the traces of what the control plane has heard the end of.
func (a *Agent) handed(items []v1.ObservedItem) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.traced) == 0 {
		return
	}
	for _, o := range items {
		if t, ok := a.traced[o.ID]; ok && t.settled && t.parent == o.Trace {
			delete(a.traced, o.ID)
		}
	}
}

func atRest(state string) bool {
	switch runtime.State(state) {
	case runtime.Ready, runtime.Suspended, runtime.Deleted, runtime.Rejected:
		return true
	}
	return false
}
