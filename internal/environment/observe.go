package environment

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// every is how often the resource is looked at.
func (n *run) every() time.Duration {
	x := n.Executors[n.r.Spec.Executor]
	if x == nil {
		return lookEvery
	}
	return everyOf(x.Describe())
}

// looked remembers when a resource was looked at, and tells when that was before.
func (s *Service) looked(id string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sights[id] = at
}

func (s *Service) lastLook(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sights[id]
}

// look has the executor look, and writes what is news. One that is as it was costs
// no write.
func (n *run) look(ctx context.Context) (reconcile.Result, error) {
	saw, err := n.sight(ctx)
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	if rest, ok := resumes(err); ok && fault.Reason(err) != "breaker-open" {
		return reconcile.Wait(ledger.Set{}, rest, err.Error()), nil
	}
	now := n.Now().UTC()
	n.looked(n.r.ID, now)
	before := n.r.Status.DriftRecord
	f := Judge(n.r, saw, now)
	var puts []ledger.Put
	switch {
	case f.Open:
		d := record(n.e, n.r, saw, now)
		put, err := d.put(DriftOpen)
		if err != nil {
			return reconcile.Result{}, reconcile.Terminal(err)
		}
		f.Status.DriftRecord, puts = d.ID, append(puts, put)
	case f.Change, f.Close:
		if puts, err = n.amend(ctx, before, func(d *Drift) string {
			if f.Close {
				d.ended(DriftGone, now)
				return DriftGone
			}
			d.sees(saw, now)
			return "update"
		}); err != nil {
			return reconcile.Result{}, err
		}
	}
	asked := n.e.Spec.Look > n.r.Status.Looked
	f.Status.Looked = n.e.Spec.Look
	n.r, n.more = f.Resource, puts
	wait := func(set ledger.Set) reconcile.Result {
		return reconcile.Wait(set, n.every(), "it is looked at again then")
	}
	var wakes []ledger.Wake
	if asked || f.Open || f.Close {
		wakes = append(wakes, wakeOf(Kind.Name, n.e.ID, n.e.Org))
		if asked {
			wakes[0].After = soon
		}
	}
	switch {
	case f.Correct:
		return n.write(ctx, "correct", wakes, reconcile.Again)
	case f.News || asked:
		return n.write(ctx, "observe", wakes, wait)
	}
	return wait(ledger.Set{}), nil
}

// sight asks the executor. Whatever goes wrong is a reason for not knowing.
func (n *run) sight(ctx context.Context) (Sight, error) {
	fail := func(err error) (Sight, error) { return sight(executor.Observation{}, err, veil{}), err }
	kept, err := n.keptInputs(ctx, n.r.Status)
	if err != nil {
		return fail(err)
	}
	sh, err := n.sheet(ctx, n.e.Spec.Version, n.e.Spec.Parameters, n.e.facts())
	if err != nil {
		return fail(err)
	}
	node, _ := n.node(sh)
	c, err := n.prepare(ctx, sh, node, kept)
	if err != nil {
		return fail(err)
	}
	c.resource.Save, c.resource.Mark = nil, ""
	var saw executor.Observation
	err = c.do(ctx, true, func(ctx context.Context, r executor.Resource) (err error) {
		saw, err = c.Observe(ctx, r)
		return err
	})
	return sight(saw, err, c.veil), err
}

// amend changes a record; one that is not there, or has ended, is left alone.
func (s *Service) amend(ctx context.Context, id string, change func(d *Drift) (op string)) ([]ledger.Put, error) {
	if id == "" {
		return nil, nil
	}
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindDrift.Name, ID: id})
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil || o.Phase != DriftOpen {
		return nil, err
	}
	d, err := DecodeDrift(o)
	if err != nil {
		return nil, err
	}
	op := change(&d)
	put, err := d.put(op)
	if err != nil {
		return nil, err
	}
	return []ledger.Put{put}, nil
}

// mended ends the record of a resource that was made anew, or is gone.
func (n *run) mended(ctx context.Context, phase string) error {
	puts, err := n.amend(ctx, n.r.Status.DriftRecord, func(d *Drift) string {
		d.ended(phase, n.Now().UTC())
		return phase
	})
	n.r.Status.DriftRecord = ""
	n.more = append(n.more, puts...)
	return err
}

// openDrift counts the records of an environment that are open.
func (s *Service) openDrift(ctx context.Context, environment string) (int64, error) {
	return s.Store.Total(ctx, ledger.Query{Kind: KindDrift.Name, Where: ledger.And{equals("environment", environment), equals("phase", DriftOpen)}})
}
