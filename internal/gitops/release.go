package gitops

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// Forget deletes a deployment and leaves what was deployed as it is: for an agent that
// may not remove it, or users who want it there. It may be said of one that is being
// deleted already, whoever wanted that.
func (s *Service) Forget(ctx context.Context, ref string) (Deployment, string, error) {
	for attempt := 0; ; attempt++ {
		d, err := s.ours(ctx, ref, "delete")
		going := fault.Reason(err) == "deleting"
		if err != nil && !going || d.Spec.Keep && going {
			if going {
				err = nil
			}
			return d, d.Status.Operation, err
		}
		set := s.set(ctx)
		if d.Spec.Keep = true; going {
			err = s.dropAgain(&d, &set)
		} else {
			err = s.dropping(ctx, &d, &set)
		}
		if err != nil {
			return d, "", err
		}
		op := d.Status.Operation
		done, err := s.Store.Commit(ctx, set)
		if again(err, attempt) {
			continue
		}
		if err != nil {
			return d, "", err
		}
		d, err = Decode(done.Objects[0])
		return d, op, err
	}
}

// dropAgain adds to a set what makes a deployment that goes already go otherwise.
func (s *Service) dropAgain(d *Deployment, set *ledger.Set) error {
	d.Status.Since = s.Now().UTC()
	put, err := d.put("delete")
	if err != nil {
		return err
	}
	set.Puts = append([]ledger.Put{put}, set.Puts...)
	set.Wakes = append(set.Wakes, ledger.Wake{Ref: d.Ref, Org: d.Org})
	return nil
}

// release hands over what was handed over last, with the word that it is to be let go
// of. An agent that does not know that word does nothing from then on.
func (r *run) release(ctx context.Context) error {
	s := &r.d.Status
	raw, err := r.Keeper.Blob(ctx, s.Desired)
	if err != nil {
		return fmt.Errorf("cannot read what was handed over: %w", err)
	}
	body, detached, err := released(s.Runtime, raw)
	if err != nil {
		return fault.New(fault.Internal, "what was handed over of %s cannot be read: %w", r.d.Ref, err)
	}
	s.Released, s.Detached = true, detached
	return r.issue(ctx, body)
}

// released is a body with the word that it is to be let go of, without secrets, which
// may be gone before the agent asks, and without anything to be done: an agent that
// does not know the word must not follow Git, nor make again what it was removing.
// Without its target it is detached, or it would be for the engine's own cluster.
func released(kind string, raw []byte) (body []byte, detached bool, err error) {
	if kind == kubernetes {
		var last kubernetesBody
		if err := json.Unmarshal(raw, &last); err != nil {
			return nil, false, err
		}
		of := &last.Deployment
		of.Kept, of.Manual, of.Run, of.Prune = true, true, "", false
		body, err = encodeBody(last)
		return body, false, err
	}
	var last runtime.Deployment
	if err := json.Unmarshal(raw, &last); err != nil {
		return nil, false, err
	}
	last.Detached = last.Detached || last.Target != nil
	last.Kept = true
	unarm(&last)
	body, err = encodeBody(last)
	return body, last.Detached, err
}
