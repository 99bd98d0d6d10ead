package environment

import (
	"context"
	"encoding/json"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/template"
)

// Runs is the reconciler of runs of actions. Each is begun once: what a command had
// done when it was cut short nobody knows, so it is not run again.
type Runs struct{ *Service }

// runsAtOnce bounds the commands that one server runs at a time.
const runsAtOnce = 8

// interrupted is how a run ends whose server stopped.
const interrupted = "the server stopped while it ran: see its log for how far it came, and run it again if that does no harm"

// Reconcile begins a run, or ends one that was cut short.
func (s *Runs) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := s.Store.Get(ctx, task.Ref)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Done(ledger.Set{}), nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	r, err := DecodeRun(o)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	switch r.Phase {
	case RunRunning:
		return s.ended(ctx, r, fault.New(fault.Unavailable, "%s", interrupted))
	case RunEnded:
		return s.over(ctx, r)
	}
	select {
	case s.runs <- struct{}{}:
		defer func() { <-s.runs }()
	default:
		return reconcile.Wait(ledger.Set{}, time.Second, "other actions run"), nil
	}
	command, files, err := s.prepare(ctx, r)
	if fault.Is(err, fault.Unavailable) && task.Attempts < planTries {
		return reconcile.Result{}, err
	}
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	if err != nil {
		return s.ended(ctx, r, err)
	}
	if r, err = s.begun(ctx, task, r); err != nil {
		return reconcile.Result{}, err
	}
	return s.run(ctx, task, r, command, files)
}

// over shreds what was handed over to a run that has ended, and removes what is
// beyond what is kept.
func (s *Runs) over(ctx context.Context, r Run) (reconcile.Result, error) {
	if err := s.shred(ctx, r.Spec.Arguments); err != nil {
		return reconcile.Result{}, err
	}
	set, err := s.leaves(ctx, r.Object)
	if err == nil && len(set.Puts) == 0 {
		set, err = s.surplus(ctx, r)
	}
	return reconcile.Done(set), err
}

func (s *Runs) prepare(ctx context.Context, r Run) (c template.Command, files map[string][]byte, err error) {
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: r.Parent})
	if err != nil {
		return c, nil, err
	}
	e, err := Decode(o)
	if err != nil {
		return c, nil, err
	}
	if !e.Deleted.IsZero() || e.Spec.Destroy {
		return c, nil, fault.New(fault.Conflict, "environment %s is being destroyed, or is gone", e.Name)
	}
	if e.Spec.Version != r.Spec.Version { // another version may do something else under the same name
		return c, nil, fault.New(fault.Conflict, "environment %s has another version of its template by now: run it again", e.Name)
	}
	raw, err := s.Keeper.Unseal(ctx, r.Spec.Arguments)
	if err != nil {
		return c, nil, err
	}
	var args map[string]any
	if err := json.Unmarshal(raw, &args); err != nil {
		return c, nil, fault.New(fault.Internal, "cannot read the arguments: %w", err)
	}
	return s.command(ctx, e, r.Spec.Action, args)
}

// begun writes that it runs before it does.
func (s *Runs) begun(ctx context.Context, task reconcile.Task, r Run) (Run, error) {
	r.Phase = RunRunning
	return s.keepRun(ctx, task, r, RunRunning)
}

func (s *Runs) keepRun(ctx context.Context, task reconcile.Task, r Run, op string) (Run, error) {
	put, err := r.put(op)
	if err != nil {
		return r, err
	}
	set := ledger.Set{Actor: "system", Cause: ledger.ByChange(r.Ref, r.Version), Puts: []ledger.Put{put}}
	if task.Token != 0 {
		set.Lease = &ledger.Lease{Ref: r.Ref, Token: task.Token}
	}
	done, err := s.Store.Commit(ctx, set)
	if err != nil {
		return r, err
	}
	return DecodeRun(done.Objects[0])
}

// run runs the command to its end. It starts one goroutine that keeps its log
// meanwhile, and ends it.
func (s *Runs) run(ctx context.Context, task reconcile.Task, r Run, c template.Command, files map[string][]byte) (reconcile.Result, error) {
	hidden := make([]any, len(c.Secrets))
	for i, text := range c.Secrets {
		hidden[i] = text
	}
	v := veilOf(executor.NewSecret(hidden))
	log := s.logs.begin(r.ID, &lines{veil: v}, s.Now())
	defer s.logs.end(r.ID)
	ended, kept := make(chan struct{}), make(chan Run, 1)
	go func() {
		at := r
		defer func() { kept <- at }()
		ticker := time.NewTicker(keepEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
			}
			if text, from, news := log.flush(false); news {
				if digest, err := s.Keeper.PutBlob(ctx, text); err == nil {
					next := at
					next.Status.Log, next.Status.LogFrom = digest, from
					if next, err = s.keepRun(ctx, task, next, "log"); err == nil {
						at = next
					}
				}
			}
		}
	}()
	err := s.Runner.Run(ctx, c, files, log)
	close(ended)
	r = <-kept
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err() // whoever comes next says that it was cut short
	}
	text, from, _ := log.flush(true)
	digest, wrong := s.Keeper.PutBlob(ctx, text)
	if wrong != nil {
		return reconcile.Result{}, wrong
	}
	r.Status.Log, r.Status.LogFrom = digest, from
	if err != nil {
		err = seemly{error: err, text: v.text(err.Error())}
	}
	return s.ended(ctx, r, err)
}

// ended writes how it went, in the run and in its operation.
func (s *Runs) ended(ctx context.Context, r Run, err error) (reconcile.Result, error) {
	phase, reason := operation.Succeeded, ""
	if err != nil {
		phase, reason = operation.Failed, clip(err.Error())
	}
	puts, failed := s.end(ctx, r.ID, phase, reason)
	if failed != nil {
		return reconcile.Result{}, failed
	}
	r.Phase = RunEnded
	put, failed := r.put(RunEnded)
	if failed != nil {
		return reconcile.Result{}, reconcile.Terminal(failed)
	}
	// Again: the arguments are shredded once that is written, and not before.
	return reconcile.Again(ledger.Set{Actor: "system", Cause: ledger.ByChange(r.Ref, r.Version), Puts: append([]ledger.Put{put}, puts...)}), nil
}
