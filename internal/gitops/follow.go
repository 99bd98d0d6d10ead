package gitops

import (
	"context"
	"maps"
	"math"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// clusterKind is the kind of objects whose changes may be those of an engine.
const clusterKind = "cluster"

// Follow wakes what is about a cluster when that changes in a way that matters
// here, until ctx ends. It is one goroutine, the caller's. Any number of replicas
// may: what is woken twice is run once. Without it, changes are found by looking
// every few minutes.
func (s *Service) Follow(ctx context.Context, feed Follower, log Log) error {
	head, err := log.Head(ctx)
	for err != nil {
		if !sleep(ctx, time.Second) {
			return nil
		}
		head, err = log.Head(ctx)
	}
	// What is so at the beginning is no news; what has changed since may be in both the
	// list and the log.
	known := s.enginesNow(ctx)
	until := int64(math.MaxInt64)
	if now, err := log.Head(ctx); err == nil {
		until = now.Seq
	}
	for after := head.Seq; ctx.Err() == nil; {
		changes, err := feed.Next(ctx, after)
		if fault.Reason(err) == "truncated" { // it was away for days: all is looked at by itself
			if head, err := log.Head(ctx); err == nil {
				after = head.Seq
			}
		}
		if err != nil {
			sleep(ctx, time.Second)
			continue
		}
		seen := map[string]bool{}
		for i := range changes {
			after = changes[i].Seq
			if o := &changes[i].Object; o.Kind == clusterKind && !seen[o.ID] {
				if seen[o.ID] = true; after <= until {
					delete(known, o.ID)
				}
				s.engineMoved(ctx, o.ID, known)
			}
		}
	}
	return nil
}

// enginesNow are all clusters by their ids; none where they cannot be listed.
func (s *Service) enginesNow(ctx context.Context) map[string]Engine {
	known := map[string]Engine{}
	all, err := s.Engines.Engines(ctx)
	if err != nil {
		return known
	}
	for _, e := range all {
		known[e.ID] = e
	}
	return known
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// engineMoved compares a cluster with what was last known of it, and wakes what is
// there, waits for it, or may go there.
func (s *Service) engineMoved(ctx context.Context, id string, known map[string]Engine) {
	e, err := s.Engines.Engine(ctx, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return // the next look finds it
	}
	last, had := known[id]
	known[id] = e
	if had && last.Runtime == e.Runtime && last.Leaving == e.Leaving && last.Org == e.Org && last.Quiet == e.Quiet && (last.ID == "") == (e.ID == "") && maps.Equal(last.Labels, e.Labels) {
		return
	}
	wakes, err := s.wakesOfAll(ctx, map[string]any{"engine": id}, map[string]any{"selector": true})
	if err != nil || len(wakes) == 0 {
		return
	}
	_, _ = s.Store.Commit(ctx, ledger.Set{Actor: "system", Cause: ledger.BySchedule("cluster " + id), Wakes: wakes}) // a net is under it
}
