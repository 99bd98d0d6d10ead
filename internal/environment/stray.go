package environment

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
)

// strayEvery is how often it is looked for what nobody expects.
const strayEvery = 10 * time.Minute

// strayed is when it was last looked for what nobody expects.
type strayed struct {
	at   time.Time
	laid int64
	none bool // none of its executors can list
}

const (
	// maxStrays is how many new ones are told at a time.
	maxStrays = 200
	// maxListed is how many an executor lists at most: beyond, what it does not list may
	// be there all the same.
	maxListed = 1000
)

// stray asks every executor that can list what is there that nobody expects. It is
// only told: nothing of it is ever removed.
func (t *turn) stray(ctx context.Context) error {
	there, err := t.resources(ctx, t.e.ID, false)
	if err != nil {
		return err
	}
	by := map[[2]string][]Resource{}
	for _, r := range there {
		if _, ok := t.Executors[r.Spec.Executor].(executor.Lister); ok && r.Status.Turn > 0 && r.Spec.Drift != driftIgnore {
			key := [2]string{r.Spec.Executor, r.Spec.Connection}
			by[key] = append(by[key], r)
		}
	}
	t.rests.mu.Lock()
	t.rests.strays[t.e.ID] = strayed{at: t.at, laid: t.e.Status.Laid, none: len(by) == 0}
	t.rests.mu.Unlock()
	if len(by) == 0 {
		return nil
	}
	known, err := t.knownStrays(ctx)
	if err != nil {
		return err
	}
	whole, room, told := true, maxStrays, map[string]bool{}
	for _, all := range by {
		found, err := t.strays(ctx, all)
		if err != nil { // what could not be listed is not known: nothing of it is gone
			whole = false
			continue
		}
		whole = whole && len(found) < maxListed
		if room, err = t.tellStrays(slices.DeleteFunc(found, func(s executor.Stray) bool {
			twice := told[s.Name] // two connections may lead to the same place
			told[s.Name] = true
			return twice
		}), all, known, room); err != nil {
			return err
		}
	}
	if room == 0 { // there may be more: the next look comes soon
		t.rests.mu.Lock()
		t.rests.strays[t.e.ID] = strayed{at: t.at.Add(glanceEvery - strayEvery), laid: t.e.Status.Laid}
		t.rests.mu.Unlock()
	}
	if !whole {
		return nil
	}
	for _, d := range slices.SortedFunc(maps.Values(known), func(a, b Drift) int { return compare(a.Name, b.Name) })[:min(len(known), maxStrays)] {
		d.ended(DriftGone, t.at)
		put, err := d.put(DriftGone)
		if err != nil {
			return err
		}
		t.set.Puts = append(t.set.Puts, put)
	}
	return nil
}

// knownStrays are those that are told already, by name.
func (t *turn) knownStrays(ctx context.Context) (map[string]Drift, error) {
	known := map[string]Drift{}
	for after := ""; ; {
		open, err := t.Store.List(ctx, ledger.Query{Kind: KindDrift.Name, Limit: page, AfterID: after,
			Where: ledger.And{equals("environment", t.e.ID), equals("phase", DriftOpen)}})
		if err != nil {
			return nil, err
		}
		for _, o := range open {
			d, err := DecodeDrift(o)
			if err != nil {
				return nil, err
			}
			if d.Spec.What == driftStray {
				known[o.Name] = d
			}
		}
		if len(open) < page {
			return known, nil
		}
		after = open[len(open)-1].ID
	}
}

// tellStrays writes records of what is new, as many as there is room for, and takes
// those that are known off the list. It returns the room that is left.
func (t *turn) tellStrays(found []executor.Stray, all []Resource, known map[string]Drift, room int) (int, error) {
	for _, s := range found {
		if _, is := known[s.Name]; is {
			delete(known, s.Name)
			continue
		}
		if room == 0 {
			continue
		}
		room--
		beside := Resource{Object: ledger.Object{Ref: t.e.Ref}}
		for _, r := range all {
			if r.Spec.Address == s.Where {
				beside = r
			}
		}
		d := record(t.e, beside, Sight{Seen: driftStray, Fields: []executor.Field{{Path: s.Name, After: "is there, and nobody expects it"}}}, t.at)
		d.Name, d.Spec.Address, d.Fields["address"] = s.Name, s.Where, s.Where
		put, err := d.put(DriftOpen)
		if err != nil {
			return room, err
		}
		t.set.Puts = append(t.set.Puts, put)
	}
	return room, nil
}

// strays lists what is beside resources of one executor and connection.
func (t *turn) strays(ctx context.Context, all []Resource) (found []executor.Stray, err error) {
	given := make([]executor.Resource, 0, len(all))
	var c *call
	for i := range all {
		inputs, err := t.keptInputs(ctx, all[i].Status)
		if err != nil {
			return nil, err
		}
		s := all[i].Spec
		if c, err = t.call(ctx, subject{id: all[i].ID, address: s.Address, name: s.Executor, connection: s.Connection, tags: s.Tags,
			environment: t.e.Name, org: t.e.Org, owner: t.e.Owner, template: t.e.Spec.Template, operator: t.e.Spec.Operator, there: &all[i], inputs: inputs}); err != nil {
			return nil, err
		}
		given = append(given, c.resource)
	}
	err = c.do(ctx, true, func(ctx context.Context, _ executor.Resource) (err error) {
		found, err = c.Executor.(executor.Lister).List(ctx, given)
		return err
	})
	return found[:min(len(found), maxListed)], err
}

// forgives ends the records of an environment that is gone.
func (t *turn) forgives(ctx context.Context) error {
	open, err := t.Store.List(ctx, ledger.Query{Kind: KindDrift.Name, Limit: maxStrays,
		Where: ledger.And{equals("environment", t.e.ID), equals("phase", DriftOpen)}})
	if err != nil {
		return err
	}
	for _, o := range open {
		d, err := DecodeDrift(o)
		if err != nil {
			return err
		}
		d.ended(DriftGone, t.at)
		put, err := d.put(DriftGone)
		if err != nil {
			return err
		}
		t.set.Puts = append(t.set.Puts, put)
	}
	return nil
}
