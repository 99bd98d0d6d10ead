package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// StepItem is a step of making a cluster fit as its agent is told it.
type StepItem struct {
	ID         string // its name, with a dot in place of the slash
	Generation int64
	Token      int64
	// Digest is that of the body without its secrets, as agents compute it.
	Digest string
	Delete bool
	Body   json.RawMessage // with its secrets; it must not be stored
	// Adopt takes over objects that have no owner; Unwatched: whether it is well
	// is told elsewhere. Both are for the control plane's own hands.
	Adopt, Unwatched bool
}

// StepSeen is what an agent says of a step.
type StepSeen struct {
	ID         string
	Generation int64
	// State: installing, ready, error, rejected; deleted.
	State, Message string
	Objects        int
}

// stepID is the id of a step as an item. Names of offerings, profiles and steps
// have no dots but the one of a profile's source.
func stepID(name string) string { return strings.ReplaceAll(name, "/", ".") }

// StepItems are the steps that the agent of a cluster is to carry out: those
// whose needs are ready, and those that are to go. What is not listed is left
// alone by agents.
func (s *Service) StepItems(ctx context.Context, o ledger.Object) ([]StepItem, error) {
	c, steps, err := s.turn(o)
	if err != nil {
		return nil, err
	}
	var out []StepItem
	for _, step := range steps {
		item, err := s.item(ctx, c, step)
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}

// StepHeads are StepItems without their bodies. Nobody is asked for them, so they
// can be had whenever the cluster can.
func (s *Service) StepHeads(o ledger.Object) ([]StepItem, error) {
	_, steps, err := s.turn(o)
	if err != nil {
		return nil, err
	}
	var out []StepItem
	for _, step := range steps {
		out = append(out, head(step))
	}
	return out, nil
}

// StepItem is the one of StepItems with this id. Faults: NotFound.
func (s *Service) StepItem(ctx context.Context, o ledger.Object, id string) (StepItem, error) {
	c, steps, err := s.turn(o)
	if err != nil {
		return StepItem{}, err
	}
	for _, step := range steps {
		if stepID(step.Name) == id {
			return s.item(ctx, c, step)
		}
	}
	return StepItem{}, fault.New(fault.NotFound, "cluster %q has no step %.64q", o.ID, id)
}

// turn lists the steps of a cluster whose turn it is, where its agent is to carry
// them out.
func (s *Service) turn(o ledger.Object) (Cluster, []Step, error) {
	if !bytes.Contains(o.Status, []byte(`"steps":`)) {
		return Cluster{}, nil, nil // as nearly all agents hear, every few seconds
	}
	c, err := load(o)
	if err != nil || s.reaches(c) {
		return c, nil, err
	}
	ready, there, needed := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, step := range c.Status.Steps {
		ready[step.Name], there[step.Name] = step.State == StepReady, true
		for _, n := range step.Needs {
			needed[n] = true
		}
	}
	var out []Step
	for _, step := range c.Status.Steps {
		waits := slices.ContainsFunc(step.Needs, func(n string) bool { return there[n] && !ready[n] })
		if step.State == StepWaiting && waits || step.State == StepRemoving && (needed[step.Name] || step.Approval != "") {
			continue // its turn comes
		}
		out = append(out, step)
	}
	return c, out, nil
}

// head is a step as it is told apart from others, without its body.
func head(step Step) StepItem {
	own := step.source() == agentSource
	return StepItem{
		ID: stepID(step.Name), Generation: step.Generation, Token: step.Token, Digest: step.Digest,
		Delete: step.State == StepRemoving, Adopt: own, Unwatched: own,
	}
}

// maxBodies is how many bodies of steps are kept in memory.
const maxBodies = 256

// body of a step, without its secrets.
func (s *Service) body(ctx context.Context, digest string) (json.RawMessage, error) {
	s.mu.Lock()
	body, ok := s.bodies[digest]
	s.mu.Unlock()
	if ok {
		return body, nil
	}
	if s.Keeper == nil {
		return nil, fault.New(fault.Internal, "there is nobody to keep the steps of clusters")
	}
	body, err := s.Keeper.Blob(ctx, "sha256:"+digest)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bodies == nil || len(s.bodies) >= maxBodies {
		s.bodies = map[string]json.RawMessage{}
	}
	s.bodies[digest] = body
	return body, nil
}

// ReportSteps takes what an agent says of its cluster's steps. Only news are
// written, and what is said of another generation than the wanted one is none.
// Steps that are not mentioned are as they were.
func (s *Service) ReportSteps(ctx context.Context, clusterID string, seen []StepSeen) error {
	if len(seen) == 0 {
		return nil
	}
	for range attempts {
		o, err := s.Get(ctx, clusterID)
		if err != nil {
			return err
		}
		c, err := load(o)
		if err != nil || s.reaches(c) {
			return err
		}
		steps := told(c.Status.Steps, seen)
		if slices.EqualFunc(steps, c.Status.Steps, Step.equal) {
			return nil
		}
		was := c.Status.Steps
		c.Status.Steps = steps
		put, err := c.put("steps")
		if err != nil {
			return err
		}
		_, err = s.store.Commit(ctx, ledger.Set{
			Actor: "agent:" + clusterID, Cause: ledger.CauseOf(ctx),
			Puts: []ledger.Put{put}, Wakes: []ledger.Wake{{Ref: c.Ref, Org: c.Org}},
		})
		if err == nil && c.Phase == Ready && fitter(was, steps) {
			return s.offerRoom(ctx, clusterID, c.Spec)
		}
		if fault.Reason(err) != "version" {
			return err
		}
	}
	return fault.New(fault.Unavailable, "cluster %q changes all the time; try again", clusterID)
}

// fitter reports whether a step is ready that was not: what waited for it may be
// placed now.
func fitter(was, now []Step) bool {
	before := map[string]string{}
	for _, s := range was {
		before[s.Name] = s.State
	}
	return slices.ContainsFunc(now, func(s Step) bool { return s.State == StepReady && before[s.Name] != StepReady })
}

const maxSaid = 1024 // bytes of what an agent says of a step

// told brings what an agent says together with what is known.
func told(steps []Step, seen []StepSeen) []Step {
	said := map[string]StepSeen{}
	for _, one := range seen {
		said[one.ID] = one
	}
	var out []Step
	for _, s := range steps {
		one, ok := said[stepID(s.Name)]
		if !ok || one.Generation != s.Generation {
			out = append(out, s)
			continue
		}
		if s.State == StepRemoving {
			if one.State != "deleted" {
				s.Message = short(one.Message)
				out = append(out, s)
			}
			continue // it is gone, because that was wanted
		}
		if s.Objects = max(one.Objects, 0); one.State == "ready" {
			why := s.Message
			if s.take(StepResult{Ready: true}, nil); s.Awaits != "" {
				s.Message = why // of what is to come
			}
		} else {
			s.State, s.Message = StepApplying, short(one.Message)
			if one.State == "error" || one.State == "rejected" {
				s.State = StepError
			}
		}
		out = append(out, s)
	}
	return out
}

func short(message string) string {
	return strings.ToValidUTF8(message[:min(len(message), maxSaid)], "")
}
