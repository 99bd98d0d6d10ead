package gitops

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

// planStop has a sync run ended that is under way and is to end, where nothing is
// handed over that would: whatever holds the deployment does not hold that up.
func planStop(d Deployment, f Facts, actions []Action) []Action {
	s, next := &d.Status, f.Next
	if next == nil || next.ID != s.Run || !next.stops() || s.Sync == nil || s.Sync.ID != s.Run || s.Lost != nil && s.Lost.ID == s.Run {
		return actions
	}
	told := s.Sync.Terminate
	if s.Runtime == kubernetes {
		told = !strings.HasSuffix(s.Made, " "+s.Run)
	}
	if told || slices.ContainsFunc(actions, handsOver) {
		return actions
	}
	return append(actions, Stop{*next})
}

func handsOver(a Action) bool {
	switch a.(type) {
	case Render, Retreat:
		return true
	}
	return false
}

// stop hands over what was handed over last, with the word that its sync run is to end.
func (r *run) stop(ctx context.Context, run SyncRun) error {
	s := &r.d.Status
	r.begin(run)
	if s.Desired == "" || s.Remove { // nobody has it
		s.Lost = r.stopped()
		return nil
	}
	raw, err := r.Keeper.Blob(ctx, s.Desired)
	if err != nil {
		return fmt.Errorf("cannot read what was handed over: %w", err)
	}
	var next any
	if s.Runtime == kubernetes {
		last := struct {
			Metadata   placeOf         `json:"metadata"`
			Deployment runtimeOrigin   `json:"deployment"`
			Manifests  json.RawMessage `json:"manifests"` // as they are
		}{}
		err = json.Unmarshal(raw, &last)
		last.Deployment.Run, last.Deployment.Prune, last.Deployment.Retries = "", false, 0
		s.Made, s.Lost = strings.TrimSuffix(s.Made, s.Run)+comparing, r.stopped()
		next = last
	} else {
		var last runtime.Deployment
		err = json.Unmarshal(raw, &last)
		last.Sync = s.Sync
		next = last
	}
	if err != nil {
		return fault.New(fault.Internal, "what was handed over of %s cannot be read: %w", r.d.Ref, err)
	}
	body, err := encodeBody(next)
	if err != nil {
		return err
	}
	return r.issue(ctx, body)
}

// stopped is a sync run that is ended by taking it out of what is handed over.
func (r *run) stopped() *runtime.SyncRun {
	out := &runtime.SyncRun{ID: r.d.Status.Run, Phase: "Terminated", Message: "it was ended before it began", Finished: r.now}
	if seen := r.d.Status.deployed().Run; seen != nil && seen.ID == out.ID {
		out.Message = "it was ended: what it had applied by then stays"
		out.Revision, out.Retries, out.Started = seen.Revision, seen.Retries, seen.Started
	}
	return out
}
