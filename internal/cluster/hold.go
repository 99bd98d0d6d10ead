package cluster

import (
	"context"
	"encoding/json"
	"fmt"
)

// awaitsNone is in Step.Awaits where the step itself is to go.
const awaitsNone = "none"

// awaited is what Step.Awaits is while the step waits to become as this one.
func (s Step) awaited() string {
	if s.State == StepRemoving {
		return awaitsNone
	}
	return s.Digest
}

// hold keeps steps as they are that an agent would take things off for, until
// that may be. All that a source takes off the cluster at once is one question,
// and is counted in the commit by which the agent is told.
func (r *run) hold(ctx context.Context, steps []Step) error {
	if r.Guard == nil {
		return nil
	}
	known := map[string]Step{}
	for _, s := range r.c.Status.Steps {
		known[s.Name] = s
	}
	var first []Step // of each source
	going, total := make([][]string, len(steps)), map[string]int{}
	for i, s := range steps {
		was, there := known[s.Name]
		if !there || was.State == StepRemoving || s.State != StepRemoving && s.Digest == was.Digest {
			continue // nothing goes that was not to go before
		}
		var err error
		if going[i], err = r.lost(ctx, was, s); err != nil {
			return err
		}
		if source := s.source(); len(going[i]) > 0 {
			if total[source] == 0 {
				first = append(first, s)
			}
			total[source] += len(going[i])
		}
	}
	for _, one := range first {
		source := one.source()
		counts, waits, err := r.permit(ctx, source, one.Name, total[source])
		if err != nil {
			return err
		}
		r.set.Counts = append(r.set.Counts, counts...)
		for i, s := range steps {
			if waits == nil || s.source() != source || len(going[i]) == 0 {
				continue
			}
			was := known[s.Name]
			was.Needs, was.Message, was.Awaits = s.Needs, keptFor(waits), s.awaited()
			was.Held, was.Approval, was.Cleared = going[i], waits.Approval, nil
			steps[i] = was
		}
	}
	return nil
}

// lost are the objects that an agent takes off the cluster when one body of a
// step takes the place of another. A body that is not made of objects is one, and
// one that cannot be read is taken to lack everything.
func (r *run) lost(ctx context.Context, was, now Step) ([]string, error) {
	old, err := r.body(ctx, was.Digest)
	if err != nil {
		return nil, err
	}
	before, known := objectNames(old)
	switch {
	case now.State == StepRemoving && len(before) == 0:
		return []string{was.Name}, nil
	case now.State == StepRemoving:
		return before, nil
	case !known:
		return nil, nil // nothing of it was ever applied
	}
	after, _ := objectNames(r.bodies[now.Name])
	return apart(before, after), nil
}

// objectNames lists what a body consists of, by group, kind, namespace and name:
// another version of the same group is the same object.
func objectNames(body json.RawMessage) (out []string, ok bool) {
	var document map[string]any
	if json.Unmarshal(body, &document) != nil {
		return nil, false
	}
	objects, err := objectsOf(Applied{Document: document})
	if err != nil {
		return nil, false
	}
	for _, o := range objects {
		var d struct {
			Metadata struct{ Name, Namespace string }
		}
		if into(o.object, &d) != nil {
			return nil, false
		}
		out = append(out, fmt.Sprintf("%s/%s/%s/%s", o.group, o.kind, d.Metadata.Namespace, d.Metadata.Name))
	}
	return union(out, nil), true
}
