package environment

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/template"
)

// came writes what an executor said.
func (n *run) came(ctx context.Context, sh *sheet, node template.Node, c *call, inputs map[string]any, result executor.Result, away bool) (reconcile.Result, error) {
	s := &n.r.Status
	if !result.Done {
		if !away {
			if err := n.keepsInputs(ctx, inputs); err != nil {
				return reconcile.Result{}, err
			}
			n.phase(Applying)
		}
		s.Message, s.Resting = c.veil.text(result.Message), time.Time{}
		after := cmp.Or(result.After, askAgain)
		if err := n.keepLog(ctx, false); err != nil {
			return reconcile.Result{}, err
		}
		return n.write(ctx, n.r.Phase, nil, func(set ledger.Set) reconcile.Result {
			return reconcile.Wait(set, after, cmp.Or(s.Message, "its executor is at work"))
		})
	}
	if away {
		return n.gone(ctx)
	}
	outputs := hide(result.Outputs, c.about, node.Secret)
	v := veilOf(append(c.known, outputs)...)
	plain, sealed, stale, err := n.keep(ctx, outputs, s.Secrets)
	if err == nil {
		if raw, _ := json.Marshal(plain); len(raw) > maxOutputs {
			err = fault.New(fault.Invalid, "its outputs have %d bytes: at most %d are kept", len(raw), maxOutputs)
		}
	}
	if err == nil {
		err = n.cyclic(ctx, result.Links)
	}
	if err != nil {
		return n.failed(ctx, err, &node, away)
	}
	if err := n.keepsInputs(ctx, inputs); err != nil {
		return reconcile.Result{}, err
	}
	n.old = append(n.old, stale...)
	if n.r.Spec.Action == driftCorrect && !(reflect.DeepEqual(s.Outputs, plain) && maps.Equal(s.Secrets, sealed)) {
		if err := n.onward(ctx, sh); err != nil {
			return reconcile.Result{}, err
		}
	}
	s.Outputs, s.Secrets, s.Made, s.Links = plain, sealed, nil, nil
	for _, made := range result.Made[:min(len(result.Made), maxMade)] {
		s.Made = append(s.Made, v.text(made))
	}
	for _, l := range result.Links[:min(len(result.Links), maxMade)] {
		s.Links = append(s.Links, executor.Link{Rel: v.text(l.Rel), URL: v.text(l.URL)})
	}
	s.Turn, s.Attempts, s.Message, s.Moved, s.Version, s.Resting = n.r.Spec.Turn, 0, "", false, n.e.Spec.Version, time.Time{}
	s.Seen, s.Why, s.Drift, s.Observed = "", "", nil, time.Time{}
	if err := n.mended(ctx, DriftCorrected); err != nil {
		return reconcile.Result{}, err
	}
	n.phase(Ready)
	n.links(ctx, sh, node)
	return n.finish(ctx, Ready)
}

// maxMade is how many names and links of a resource are kept.
const maxMade = 200

// links adds those that the template says.
func (n *run) links(ctx context.Context, sh *sheet, node template.Node) {
	if len(node.Links) == 0 {
		return
	}
	n.loaded[n.r.ID] = n.r
	var failed error
	found, err := sh.Links(ctx, n.r.Spec.Address, n.known(ctx, sh, &failed, n.loaded))
	if err != nil || failed != nil {
		return // they only lead people on
	}
	n.r.Status.Links = append(n.r.Status.Links, found...)
}

func (n *run) keepsInputs(ctx context.Context, inputs map[string]any) error {
	stale, err := n.keepInputs(ctx, inputs, &n.r.Status)
	n.old = append(n.old, stale...)
	return err
}

func (n *run) phase(to string) {
	if n.r.Phase != to {
		n.r.Phase, n.r.Status.Since = to, n.Now().UTC()
	}
}

// gone ends a resource of which nothing is left.
func (n *run) gone(ctx context.Context) (reconcile.Result, error) {
	s := &n.r.Status
	n.old = append(n.old, s.State, s.Sealed)
	for _, ref := range s.Secrets {
		n.old = append(n.old, ref)
	}
	now := n.Now().UTC()
	if err := n.mended(ctx, DriftGone); err != nil {
		return reconcile.Result{}, err
	}
	n.r.Status = ResourceStatus{Since: now, Turn: n.r.Spec.Turn, Version: s.Version, Log: s.Log, LogFrom: s.LogFrom}
	n.r.Phase, n.r.Deleted = ResourceGone, now
	return n.finish(ctx, "delete")
}

// failed writes what comes of a failure.
func (n *run) failed(ctx context.Context, err error, node *template.Node, away bool) (reconcile.Result, error) {
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	s, verb := &n.r.Status, "made"
	if away {
		verb = "destroyed"
	}
	if err := n.keepLog(ctx, false); err != nil {
		return reconcile.Result{}, err
	}
	retries := tryAgain
	if node != nil && node.Retries != nil {
		retries = *node.Retries
	}
	v := reckon(*s, err, retries, n.Now().UTC())
	s.Attempts, s.Resting, s.Moved = v.attempts, v.resting, v.counts && movedOn(err)
	if !v.final {
		op := "update"
		if s.Message = clip(err.Error()); v.counts {
			if !away {
				n.phase(Applying)
			}
			op = n.r.Phase
			s.Message = clip(fmt.Sprintf("try %d of %d failed, the next one comes by itself: %s", s.Attempts, retries+1, err))
		}
		return n.write(ctx, op, nil, func(set ledger.Set) reconcile.Result { return reconcile.Wait(set, v.wait, s.Message) })
	}
	n.phase(Failed)
	s.Turn = n.r.Spec.Turn
	s.Message = fmt.Sprintf("it could not be %s: %s. %s", verb, clip(err.Error()), n.advice(err))
	return n.finish(ctx, Failed)
}

// clip keeps a message short enough to be read.
func clip(text string) string {
	const most = 2000
	if len(text) <= most {
		return text
	}
	for i := range text {
		if i > most {
			return text[:i] + "..."
		}
	}
	return text
}

// keepLog keeps what was said so far.
func (n *run) keepLog(ctx context.Context, last bool) error {
	if n.log == nil {
		return nil
	}
	text, from, news := n.log.flush(last)
	if !news {
		return nil
	}
	digest, err := n.Keeper.PutBlob(ctx, text)
	if err == nil {
		n.log.keptAs(digest)
		n.r.Status.keepsLog(digest, from, n.r.Spec.Turn)
	}
	return err
}

// fewLeft is how many of an environment's resources may be left for its
// reconciler to be woken at once: before, it only counts.
const fewLeft = 8

// finish ends the resource's turn, and wakes whoever waits for that.
func (n *run) finish(ctx context.Context, op string) (reconcile.Result, error) {
	if err := n.keepLog(ctx, true); err != nil {
		return reconcile.Result{}, err
	}
	n.logs.end(n.r.ID)
	n.mu.Lock()
	delete(n.marks, n.r.ID)
	delete(n.sights, n.r.ID)
	n.mu.Unlock()
	phase := Pending
	if n.r.Spec.Absent {
		phase = ResourceLeaving
	}
	left, err := n.left(ctx, phase)
	if err != nil {
		return reconcile.Result{}, err
	}
	wake := wakeOf(Kind.Name, n.e.ID, n.e.Org)
	if left > fewLeft {
		wake.After = glanceEvery / 4
	}
	wakes := append(n.wakes(ctx), wake)
	if !n.r.Deleted.IsZero() {
		n.r.Spec.Needs, n.r.Spec.Needed = nil, nil // others look at it to see that it is gone
	}
	if n.r.Phase != Ready || n.r.Spec.Drift == driftIgnore {
		return n.write(ctx, op, wakes, reconcile.Done)
	}
	return n.write(ctx, op, wakes, func(set ledger.Set) reconcile.Result {
		return reconcile.Wait(set, spread(n.r.ID, n.every()), "it is looked at then")
	})
}

// write ends the run. Secrets that nothing refers to any more are shredded after
// that was written, and not before.
func (n *run) write(ctx context.Context, op string, wakes []ledger.Wake, next func(ledger.Set) reconcile.Result) (reconcile.Result, error) {
	put, err := n.r.put(op)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	set := ledger.Set{Actor: "system", Cause: ledger.ByChange(n.r.Ref, n.r.Version), Puts: append([]ledger.Put{put}, n.more...), Wakes: wakes}
	if len(n.old) == 0 {
		return next(set), nil
	}
	set.Lease = n.lease()
	if _, err := n.Store.Commit(ctx, set); err != nil {
		return reconcile.Result{}, err
	}
	if err := n.shred(ctx, n.old...); err != nil {
		return reconcile.Result{}, err
	}
	return next(ledger.Set{}), nil
}
