package environment

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/template"
)

// begin wakes those that wait for nobody, as many as may be worked on, and parks
// the others.
func (t *turn) begin(all map[string]*Resource, limit int, idle bool) {
	var free []ledger.Ref
	for _, r := range all {
		if r.Deleted.IsZero() && !r.settled() && mayGo(*r, func(id string) *Resource { return all[id] }) {
			free = append(free, r.Ref)
		}
	}
	slices.SortFunc(free, func(a, b ledger.Ref) int { return compare(a.ID, b.ID) })
	now := min(len(free), limit+wakeAtOnce)
	for _, ref := range free[:now] {
		t.set.Wakes = append(t.set.Wakes, ledger.Wake{Ref: ref, Org: t.e.Org, IfIdle: idle})
	}
	t.gates.park(t.e.ID, free[now:])
}

// settled: there is nothing to do about it in its turn.
func (r *Resource) settled() bool {
	return r.Status.Turn == r.Spec.Turn && (r.Phase == Ready || r.Phase == Failed) || r.Phase == Blocked
}

// untouched: nothing was ever made of it, nor begun: an executor remembers something
// before it begins. One that may be worked on before the next turn is not.
func (r *Resource) untouched() bool {
	s := r.Status
	return (r.Phase == Failed || r.Phase == Blocked) && s.Version == "" && s.State == "" && len(s.With) == 0 && s.Sealed == "" && len(s.Outputs)+len(s.Secrets)+len(s.Made) == 0
}

// mayGo reports whether a resource would do something now, be it to see that it is
// blocked.
func mayGo(r Resource, find func(id string) *Resource) bool {
	if r.Spec.Absent {
		return !slices.ContainsFunc(r.Spec.Needed, func(id string) bool { return goesFirst(r, find(id)) == later })
	}
	return !slices.ContainsFunc(r.Spec.Needs, func(id string) bool { return comesFirst(find(id)) == later })
}

// rouse wakes those who could go on. Their wakes were lost with a process, or with
// a write that somebody else's came before.
func (t *turn) rouse(ctx context.Context) error {
	sh, err := t.sheet(ctx, t.e.Spec.Version, t.e.Spec.Parameters, t.e.facts())
	limit := 10
	if err == nil {
		limit = sh.atOnce()
	}
	if due := t.gates.due(t.e.ID, limit, t.at); len(due) > 0 {
		for _, ref := range due {
			t.set.Wakes = append(t.set.Wakes, ledger.Wake{Ref: ref, Org: t.e.Org})
		}
		if t.seen.Still < 2 {
			return nil
		}
	}
	there, err := t.resources(ctx, t.e.ID, false)
	if err != nil {
		return err
	}
	all := make(map[string]*Resource, len(there))
	for i := range there {
		all[there[i].ID] = &there[i]
	}
	t.begin(all, limit, true)
	return nil
}

// known looks resources up by address, as their executors left them.
func (s *Service) known(ctx context.Context, sh *sheet, failed *error, loaded map[string]Resource) Known {
	return func(address string) (template.Known, bool) {
		i, ok := sh.index[address]
		if !ok {
			return template.Known{}, false
		}
		r, ok := loaded[sh.ids[i]]
		if !ok {
			o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindResource.Name, ID: sh.ids[i]})
			if err == nil {
				r, err = DecodeResource(o)
			}
			if err != nil {
				if !fault.Is(err, fault.NotFound) {
					*failed = err
				}
				return template.Known{}, false
			}
		}
		if !r.Deleted.IsZero() || r.Status.Turn == 0 {
			return template.Known{}, false
		}
		outputs, err := s.made(ctx, r)
		if err != nil {
			*failed = err
			return template.Known{}, false
		}
		return template.Known{Outputs: outputs}, true
	}
}

// outputs evaluates what the environment gives.
func (t *turn) outputs(ctx context.Context) error {
	sh, err := t.sheet(ctx, t.e.Spec.Version, t.e.Spec.Parameters, t.e.facts())
	if err != nil {
		return err
	}
	var failed error
	found, err := sh.Outputs(ctx, t.known(ctx, sh, &failed, nil))
	if failed != nil {
		return failed
	}
	s := &t.e.Status
	if err != nil {
		s.Outputs, s.Entries = nil, nil
		return fault.New(fault.Invalid, "its outputs cannot be told: %w", err)
	}
	values := map[string]any{}
	s.Entries = nil
	for _, o := range found {
		if !executor.Whole(o.Value) {
			continue
		}
		values[o.Name] = o.Value
		if url, ok := o.Value.(string); ok && o.Entry {
			s.Entries = append(s.Entries, Endpoint{Name: o.Name, URL: url})
		}
	}
	plain, sealed, stale, err := t.keep(ctx, values, s.Secrets)
	if err != nil {
		return err
	}
	s.Outputs, s.Secrets, t.stale = plain, sealed, append(t.stale, stale...)
	if raw, err := json.Marshal(s.Outputs); err == nil && len(raw) > maxOutputs {
		s.Outputs = nil
		return fault.New(fault.Invalid, "its outputs have %d bytes: at most %d are kept", len(raw), maxOutputs)
	}
	return nil
}

// maxOutputs is how much of outputs fits beside everything else of an object.
const maxOutputs = 128 << 10

// groups tells how each group stands.
func (t *turn) groups(ctx context.Context) error {
	if t.e.Spec.Destroy {
		return nil
	}
	sh, err := t.sheet(ctx, t.e.Spec.Version, t.e.Spec.Parameters, t.e.facts())
	if err != nil {
		return err
	}
	parts := sh.Groups()
	t.e.Status.Groups = nil
	if len(parts) == 0 {
		return nil
	}
	there, err := t.resources(ctx, t.e.ID, false)
	if err != nil {
		return err
	}
	phases := make(map[string]string, len(there))
	for _, r := range there {
		phases[r.Spec.Address] = r.Phase
	}
	for _, p := range parts {
		g := Group{Address: p.Address, Name: p.Name, Tags: p.Tags, Template: p.Template}
		for _, address := range p.Nodes {
			g.Counts.add(phases[address])
		}
		g.Status = g.Counts.phase()
		t.e.Status.Groups = append(t.e.Status.Groups, g)
	}
	return nil
}

func (c *Counts) add(phase string) {
	c.Total++
	switch phase {
	case Ready:
		c.Ready++
	case Applying:
		c.Applying++
	case Failed:
		c.Failed++
	case Blocked:
		c.Blocked++
	case ResourceLeaving:
		c.Leaving++
	default:
		c.Pending++
	}
}

// phase of a group, in the words of an environment.
func (c Counts) phase() string {
	switch {
	case c.Failed+c.Blocked > 0:
		return Fail
	case c.Ready == c.Total:
		return OK
	case c.Leaving == c.Total:
		return Destroying
	}
	return Deploying
}
