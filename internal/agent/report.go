package agent

import (
	"context"
	"fmt"
	"maps"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/runtime"
)

const (
	chunk      = 500 // items of one report
	fullEvery  = 6   // heartbeats until everything is told again
	answerTime = 15 * time.Second
)

// report tells the server what changed, at once, and that the agent lives.
func (a *Agent) report(ctx context.Context) {
	heartbeat := time.NewTimer(a.cfg.Heartbeat)
	defer heartbeat.Stop()
	failures, beats := 0, 0
	beat := false // owed until it has been sent
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.cfg.Runtime.Changed():
		case <-a.kick:
		case <-heartbeat.C:
			beat = true
			if beats++; beats%fullEvery == 0 {
				a.tellAll()
			}
		}
		if !beat && !wait(ctx, a.cfg.Coalesce) {
			return
		}
		// What was signalled until here is observed below.
		drain(a.cfg.Runtime.Changed())
		drain(a.kick)
		err := a.send(ctx, beat)
		if ctx.Err() != nil {
			return
		}
		heartbeat.Reset(a.cfg.Heartbeat)
		if err == nil {
			failures, beat = 0, false
			continue
		}
		if failures++; failures == 1 {
			a.cfg.Logger.Warn("cannot report", "cluster", a.cfg.Cluster, "error", err)
		}
		if !wait(ctx, pause(failures)) {
			return
		}
		a.nudge()
	}
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

func (a *Agent) tellAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.full = true
}

// send reports what the server does not know yet; a beat is sent in any case.
func (a *Agent) send(ctx context.Context, beat bool) error {
	a.mu.Lock()
	head := v1.Report{Epoch: a.mark.Epoch, Seq: a.seq, Agent: a.id, Installation: a.home, Ready: a.told && a.frozen == ""}
	known, told, frozen, full := a.mark.Ledger != "", a.told, a.frozen != "", a.full
	a.mu.Unlock()
	if !known || !told && !beat {
		return nil // nobody to report to yet: the first desired state comes with a nudge
	}
	facts, err := a.cfg.Runtime.Facts(ctx)
	if err != nil {
		return fmt.Errorf("cannot learn what the data plane holds: %w", err)
	}
	head.Capacity = facts.Capacity
	now, err := a.observe(ctx)
	if err != nil {
		return err
	}
	var items []v1.ObservedItem
	for id, o := range now {
		// Another ledger must not be told about these instances.
		if was, ok := a.acked[id]; !frozen && (full || !ok || !same(was, o)) {
			items = append(items, o)
		}
	}
	if len(items) == 0 && !beat && a.sent.Ready == head.Ready && a.sent.Capacity == head.Capacity && a.sent.Epoch == head.Epoch {
		return a.forget(ctx, now)
	}
	for first := true; first || len(items) > 0; first = false {
		r := head
		n := min(chunk, len(items))
		r.Items, items = items[:n], items[n:]
		a.number++
		r.Number = a.number
		if err := a.put(ctx, r); err != nil {
			return err
		}
		for _, o := range r.Items {
			a.acked[o.ID] = o
		}
	}
	a.sent = head
	if full && !frozen {
		a.mu.Lock()
		a.full = false
		a.mu.Unlock()
	}
	return a.forget(ctx, now)
}

func same(a, b v1.ObservedItem) bool {
	return a.Generation == b.Generation && a.State == b.State && a.Message == b.Message &&
		maps.Equal(a.Versions, b.Versions) && maps.Equal(a.Routes, b.Routes)
}

func (a *Agent) put(ctx context.Context, r v1.Report) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := a.cfg.Client.Observe(ctx, a.cfg.Cluster, r)
	return err
}

// observe is what the runtime holds, and what it refused.
func (a *Agent) observe(ctx context.Context) (map[string]v1.ObservedItem, error) {
	all, err := a.cfg.Runtime.Observe(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot observe the runtime: %w", err)
	}
	now := make(map[string]v1.ObservedItem, len(all))
	for _, o := range all {
		now[o.ID] = v1.ObservedItem{ID: o.ID, Generation: o.Generation, State: string(o.State),
			Message: o.Message, Versions: o.Versions, Routes: o.Routes}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, o := range a.failed {
		now[id] = o
	}
	return now, nil
}

// forget drops removed items that the server has acknowledged and no longer
// lists. While it lists them, the removal may be asked about again.
func (a *Agent) forget(ctx context.Context, now map[string]v1.ObservedItem) error {
	for id := range a.acked {
		if _, ok := now[id]; !ok {
			delete(a.acked, id)
		}
	}
	a.mu.Lock()
	var ids []string
	if a.told && a.frozen == "" {
		for id, o := range a.acked {
			if _, listed := a.listed[id]; !listed && o.State == string(runtime.Deleted) && now[id].State == o.State {
				ids = append(ids, id)
			}
		}
	}
	a.mu.Unlock()
	for _, id := range ids {
		if err := a.cfg.Runtime.Forget(ctx, id); err != nil {
			return fmt.Errorf("cannot forget %s: %w", id, err)
		}
		delete(a.acked, id)
	}
	return nil
}
