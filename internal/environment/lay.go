package environment

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/template"
)

const (
	layAtOnce = 250 // resources in one commit
	// wakeAtOnce is how many are woken at the beginning besides those that fit the
	// bound: others are parked until one of them ends.
	wakeAtOnce = 32
)

// lay writes what there should be of each resource. Nothing works on any of them
// before the last is written, so it may stop and start again between two commits.
func (t *turn) lay(ctx context.Context) error {
	for range attempts {
		all, limit, err := t.layOnce(ctx)
		if reason := fault.Reason(err); fault.Is(err, fault.Conflict) && (reason == "version" || reason == "exists") {
			continue // one that was at work has ended meanwhile
		}
		if err != nil {
			return err
		}
		t.e.Status.Laid, t.op = t.e.Spec.Turn, "laid"
		live := int64(0)
		for _, r := range all {
			if r.Deleted.IsZero() {
				live++
			}
		}
		t.e.Status.Counts = Counts{Total: live}
		t.begin(all, limit, false)
		return nil
	}
	return busy(t.e.Name)
}

// layOnce returns all resources as they are laid out.
func (t *turn) layOnce(ctx context.Context) (map[string]*Resource, int, error) {
	there, err := t.resources(ctx, t.e.ID, true)
	if err != nil {
		return nil, 0, err
	}
	all := make(map[string]*Resource, len(there))
	for i := range there {
		all[there[i].ID] = &there[i]
	}
	var sh *sheet
	limit := 10
	if sh, err = t.sheet(ctx, t.e.Spec.Version, t.e.Spec.Parameters, t.e.facts()); err != nil && !t.e.Spec.Destroy {
		return nil, 0, err
	} else if err == nil {
		limit = sh.atOnce()
	}
	changes, err := t.changes(ctx)
	if err != nil {
		return nil, 0, err
	}
	var puts []ledger.Put
	for _, want := range t.wanted(sh, all, changes) {
		before := all[want.ID]
		if before != nil && before.Deleted.Equal(want.Deleted) && reflect.DeepEqual(before.Spec, want.Spec) && before.Phase == want.Phase {
			continue
		}
		put, err := want.put(layOp(before, want))
		if err != nil {
			return nil, 0, err
		}
		puts = append(puts, put)
	}
	for chunk := range slices.Chunk(puts, layAtOnce) {
		set := ledger.Set{Actor: "system", Cause: ledger.ByChange(t.e.Ref, t.e.Version), Puts: chunk}
		if t.task.Token != 0 {
			set.Lease = &ledger.Lease{Ref: t.e.Ref, Token: t.task.Token}
		}
		done, err := t.Store.Commit(ctx, set)
		if err != nil {
			return nil, 0, err
		}
		for _, o := range done.Objects {
			r, err := DecodeResource(o)
			if err != nil {
				return nil, 0, err
			}
			all[o.ID] = &r
		}
	}
	return all, limit, nil
}

func layOp(before *Resource, want Resource) string {
	switch {
	case before == nil || !before.Deleted.IsZero():
		return "create"
	case want.Phase != before.Phase:
		return want.Phase
	}
	return "update"
}

// changes are those of the plan that this turn begins with, by resource; nil: it
// only goes on with an earlier one.
func (t *turn) changes(ctx context.Context) (map[string]PlannedChange, error) {
	if t.e.Status.Laid >= t.e.Spec.Planned {
		return nil, nil
	}
	o, err := t.Store.Get(ctx, ledger.Ref{Kind: KindPlan.Name, ID: t.e.Spec.Plan})
	if err != nil {
		return nil, err
	}
	list, err := t.Changes(ctx, o)
	if err != nil {
		return nil, err
	}
	out := make(map[string]PlannedChange, len(list))
	for _, c := range list {
		out[c.ID] = c
	}
	return out, nil
}

// wanted is pure: every resource that there should be or that is to go, the latter
// first, since they are told who needs them before those are told otherwise.
func (t *turn) wanted(sh *sheet, all map[string]*Resource, changes map[string]PlannedChange) []Resource {
	stays := func(id string) bool {
		if sh == nil || t.e.Spec.Destroy {
			return false
		}
		_, ok := sh.byID[id]
		return ok
	}
	var going []*Resource
	users := map[string][]string{} // by id, of those that go: who needs it as yet
	for _, r := range all {
		if !r.Deleted.IsZero() {
			continue
		}
		for _, need := range r.Spec.Needs {
			if !stays(need) {
				users[need] = append(users[need], r.ID)
			}
		}
		if !stays(r.ID) {
			going = append(going, r)
		}
	}
	slices.SortFunc(going, func(a, b *Resource) int { return compare(a.ID, b.ID) })
	var out []Resource
	frees := map[string][]string{} // by id: those that go once it does without them
	for _, r := range going {
		goes := t.goes(*r, users[r.ID])
		for _, id := range goes.Spec.Needed {
			frees[id] = append(frees[id], r.ID)
		}
		out = append(out, goes)
	}
	if sh == nil || t.e.Spec.Destroy {
		return out
	}
	for i, n := range sh.nodes {
		id := sh.ids[i]
		c, planned := changes[id]
		spec := t.specOf(sh, n)
		spec.Frees = frees[id]
		out = append(out, t.stays(all[id], id, spec, c, planned))
	}
	return out
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// union of ids, sorted.
func union(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

func (t *turn) specOf(sh *sheet, n template.Node) ResourceSpec {
	spec := ResourceSpec{
		Address: n.Address, Description: n.Description, Tags: n.Tags, Executor: n.Executor, Connection: connection(n), Template: n.Template,
		Group: n.Group, Needs: sh.needs(n), Drift: n.Drift, Protect: n.Protect,
	}
	for _, x := range n.External {
		spec.External = append(spec.External, x.Name)
	}
	return spec
}

// stays is a resource that there should be. One that is as it should be keeps its
// turn: nothing is done about it.
func (t *turn) stays(there *Resource, id string, spec ResourceSpec, c PlannedChange, planned bool) Resource {
	r := Resource{Object: ledger.Object{Ref: ledger.Ref{Kind: KindResource.Name, ID: id}, Org: t.e.Org, Owner: t.e.Owner, Name: spec.Address,
		Parent: t.e.ID, Fields: ledger.Fields{"environment": t.e.Name}}}
	if there != nil {
		r.Object = there.Object
		if there.Deleted.IsZero() {
			r.Status = there.Status
		}
	}
	settled := there != nil && there.Deleted.IsZero() && there.Phase == Ready && !there.Spec.Absent && there.Status.Turn == there.Spec.Turn
	switch {
	case there != nil && there.Deleted.IsZero() && there.Spec.Turn == t.e.Spec.Turn:
		spec.Turn, spec.Action, spec.Mark = there.Spec.Turn, there.Spec.Action, there.Spec.Mark // laid out before a crash
	case settled && (!planned || c.Action == executor.None):
		spec.Turn, spec.Action, spec.Mark = there.Spec.Turn, there.Spec.Action, there.Spec.Mark
	default:
		if spec.Action, spec.Mark = string(c.Action), c.Mark; !planned && there != nil {
			// What was half done may have moved what the plan saw; what has moved by
			// somebody else's hand needs another plan.
			spec.Action = there.Spec.Action
			if there.Status.Moved {
				spec.Mark = there.Spec.Mark
			}
		}
		spec.Turn = t.e.Spec.Turn
		r.Phase, r.Deleted = Pending, time.Time{}
		r.Status.again(t.at)
	}
	r.Spec = normal(spec)
	return r
}

// again begins a turn.
func (s *ResourceStatus) again(now time.Time) {
	s.Attempts, s.Message, s.Moved, s.Since, s.Resting = 0, "", false, now, time.Time{}
}

// goes is a resource that is to go.
func (t *turn) goes(r Resource, users []string) Resource {
	spec := r.Spec
	spec.Needed, spec.Frees = union(spec.Needed, users), nil
	if !spec.Absent || spec.Turn != t.e.Spec.Turn {
		spec.Absent, spec.Action, spec.Mark, spec.Turn = true, string(executor.Remove), "", t.e.Spec.Turn
		r.Phase = ResourceLeaving
		r.Status.again(t.at)
	}
	r.Spec = normal(spec)
	return r
}

// normal gives a spec the form that it has when it is read again, so that two can
// be compared.
func normal(spec ResourceSpec) (out ResourceSpec) {
	raw, err := json.Marshal(spec)
	if err != nil || json.Unmarshal(raw, &out) != nil {
		return spec
	}
	return out
}
