package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/runtime"
)

// receive follows the desired state over one connection after another.
func (a *Agent) receive(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		got, err := a.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if got {
			failures = 0
		}
		if failures++; failures == 1 {
			a.cfg.Logger.Warn("lost the control plane; everything keeps running", "cluster", a.cfg.Cluster, "error", err)
		}
		if !wait(ctx, pause(failures)) {
			return
		}
	}
}

// follow takes the messages of one connection; got says whether any was good.
func (a *Agent) follow(ctx context.Context) (got bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for d, err := range a.cfg.Client.Desired(ctx, a.cfg.Cluster, a.id, a.home) {
		if err != nil {
			return got, err
		}
		// A message that cannot be followed is ignored. The connection is given
		// up with it, because bodies come once in each.
		if err := a.take(d, !got); err != nil {
			return got, fmt.Errorf("ignored a desired state: %w", err)
		}
		got = true
	}
	return got, errors.New("the stream ended")
}

// take checks a desired state as a whole and leaves what is new to the workers.
func (a *Agent) take(d v1.Desired, first bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	bodies, err := a.check(d)
	if err != nil {
		return err
	}
	if why := a.mark.refuses(d); why != "" {
		a.freeze(why)
		return nil
	}
	if next := (mark{Ledger: d.Ledger, Epoch: d.Epoch}); next != a.mark {
		if err := writeMark(a.cfg.Dir, next); err != nil {
			return fmt.Errorf("cannot write down the epoch: %w", err)
		}
		a.mark, a.seq = next, 0
	}
	if d.Seq < a.seq {
		a.cfg.Logger.Debug("ignored a desired state that is older than the present one", "seq", d.Seq, "present", a.seq)
		return nil
	}
	first = first || a.frozen != ""
	a.frozen = ""
	if first {
		a.full = true
		a.cfg.Logger.Info("follows the control plane", "cluster", a.cfg.Cluster, "epoch", d.Epoch, "seq", d.Seq, "items", len(d.Items))
	}
	changed := first || !a.told
	a.seq, a.told, a.bodies = d.Seq, true, bodies
	listed := make(map[string]key, len(d.Items))
	for _, it := range d.Items {
		k := keyOf(it)
		listed[it.ID] = k
		if a.listed[it.ID] != k {
			a.work.put(entry{key: k, item: runtime.Item{ID: it.ID, Generation: it.Generation, Token: it.Token,
				Delete: it.Delete, Body: bodies[bodyOf(it)]}})
		}
	}
	for id := range a.listed {
		if _, ok := listed[id]; !ok {
			changed = true // what was removed may be forgotten now
			delete(a.failed, id)
		}
	}
	a.listed = listed
	if changed {
		a.nudge()
	}
	return nil
}

// bodyOf names a body: two items may have the same digest and other secrets.
func bodyOf(it v1.Item) string { return it.ID + "/" + it.Digest }

// check verifies digests, order and bodies, and returns the bodies by item and
// digest. Bodies may hold secrets: they are kept in memory and given to the
// runtime, and to nobody else.
func (a *Agent) check(d v1.Desired) (map[string]json.RawMessage, error) {
	if d.Ledger == "" {
		return nil, errors.New("it names no ledger")
	}
	if d.Digest != d.ComputeDigest() {
		return nil, errors.New("its digest is not that of its items")
	}
	bodies := make(map[string]json.RawMessage, len(d.Items))
	last := ""
	for _, it := range d.Items {
		if it.ID <= last {
			return nil, errors.New("its items are not in order")
		}
		last = it.ID
		if len(it.Body) == 0 {
			if body, ok := a.bodies[bodyOf(it)]; ok {
				bodies[bodyOf(it)] = body
			} else if !it.Delete {
				return nil, fmt.Errorf("the body of %s was never sent", it.ID)
			}
			continue
		}
		if !it.Filled && v1.BodyDigest(it.Body) != it.Digest {
			return nil, fmt.Errorf("the body of %s is not the one of its digest", it.ID)
		}
		bodies[bodyOf(it)] = it.Body
	}
	return bodies, nil
}

// refuses says why the desired state must not be followed, "" if it may.
func (m mark) refuses(d v1.Desired) string {
	switch {
	case m.Ledger == "":
	case d.Ledger != m.Ledger:
		return fmt.Sprintf("the control plane has ledger %s, this agent follows %s", d.Ledger, m.Ledger)
	case d.Epoch < m.Epoch:
		return fmt.Sprintf("the control plane is in epoch %d, this agent has followed %d: it may be an old copy", d.Epoch, m.Epoch)
	}
	return ""
}

// freeze stops applying. All is put anew once a desired state can be followed.
func (a *Agent) freeze(why string) {
	if a.frozen != why {
		a.cfg.Logger.Error("applies nothing any more; everything keeps running", "cluster", a.cfg.Cluster, "why", why)
		a.nudge()
	}
	a.frozen, a.told = why, true
	a.listed = map[string]key{}
	a.work.clear()
}
