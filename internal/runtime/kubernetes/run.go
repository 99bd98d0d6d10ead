package kubernetes

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

const running = "Running"

// A sync run that fails is tried again after a second, then after twice that, as one of
// Argo CD is: somebody waits for its outcome, and those behind it do.
const (
	firstPause = time.Second
	maxPause   = 20 * time.Second
)

// attempt is the account of the sync run that a body asks for, as it was before its
// next attempt.
func (m *memory) attempt(doc document, began time.Time) runtime.SyncRun {
	d := doc.Deployment
	if m.Sync != nil && m.Sync.ID == d.Run {
		return *m.Sync
	}
	return runtime.SyncRun{ID: d.Run, Phase: running, Revision: d.Commit, Started: began.UTC().Truncate(time.Second)}
}

// succeeds notes that a sync run was carried out. It is over with that: how what it
// has applied is doing is told by the deployment.
func (m *memory) succeeds(doc document, began, now time.Time) {
	run := m.attempt(doc, began)
	run.Phase, run.Message, run.Finished = succeeded, "successfully synced", now.UTC().Truncate(time.Second)
	m.Run, m.Sync, m.Again = run.ID, &run, time.Time{}
}

// tries notes an attempt of a sync run that failed. It is tried again after a pause;
// 0: it was tried often enough, and is over.
func (m *memory) tries(doc document, message string, began, now time.Time) time.Duration {
	run := m.attempt(doc, began)
	run.Message = message
	if run.Retries >= doc.Deployment.Retries {
		run.Phase, run.Finished = failed, now.UTC().Truncate(time.Second)
		m.Run, m.Sync, m.Again = run.ID, &run, time.Time{}
		return 0
	}
	pause := min(firstPause<<min(run.Retries, 10), maxPause)
	run.Retries++
	m.Sync, m.Again = &run, now.Add(pause)
	return pause
}

// rests is how long a sync run that failed is left alone, whoever wakes it, and whatever
// the clock was when that was written.
func (m *memory) rests(doc document, now time.Time) time.Duration {
	if !doc.manual() || !m.asked(doc) || m.Sync == nil || m.Sync.ID != doc.Deployment.Run {
		return 0
	}
	return min(max(m.Again.Sub(now), 0), maxPause)
}

// ran tells how the sync run goes that a body asks for, with what it did; nil: it asks
// for none, or nothing was done yet.
func (m *memory) ran(doc document) *runtime.SyncRun {
	if !doc.manual() || m.Sync == nil || m.Sync.ID != doc.Deployment.Run {
		return nil
	}
	out := *m.Sync
	if o := m.Operation; o != nil && o.Operation.InitiatedBy.Username == userPrefix+out.ID {
		for _, r := range o.SyncResult.Resources {
			out.Resources = append(out.Resources, runtime.SyncedResource{Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Status: r.Status, Message: r.Message})
		}
	}
	return &out
}

// pause is how long an item is to be left alone.
func (s *shift) pause(e *keep.Entry) time.Duration {
	m := remember(e.Record.Own)
	if m.Again.IsZero() {
		return 0
	}
	doc, err := read(e.Record.Body)
	if err != nil {
		return 0
	}
	return m.rests(doc, s.r.cfg.Now())
}

// retry writes down that a sync run failed, before anybody is told: one that could not
// be written down does not count.
func (s *shift) retry(ctx context.Context, e *keep.Entry, doc document, message string, began time.Time) (time.Duration, error) {
	m := remember(e.Record.Own)
	if e.Record.Kind != runtime.KindDeployment || !doc.manual() || !m.asked(doc) {
		return 0, nil
	}
	pause := m.tries(doc, message, began, s.r.cfg.Now())
	return pause, s.memorize(ctx, e, m)
}
