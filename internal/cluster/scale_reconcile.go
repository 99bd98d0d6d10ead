package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// Fleet makes and takes away clusters.
type Fleet interface {
	// Make begins a cluster under the id; one that is there already is fine.
	Make(ctx context.Context, id string, spec Spec) error
	// Remove begins the end of a cluster on which nothing runs; one that goes
	// already is fine. Faults: Conflict where something runs there.
	Remove(ctx context.Context, id string) error
}

// scaleEvery is how often places are looked at when nobody asks for it.
const scaleEvery = time.Minute

// ScaleReconciler lets the fleet grow and shrink as profiles say. One decision
// is first written down with the cluster's id, then carried out, so that
// whoever goes on after a crash does the same thing and not another.
type ScaleReconciler struct {
	Clusters *Service
	Sold     Sold
	Demand   Demand        // nil: nobody waits, and regions have no limits
	Fleet    Fleet         // nil: it is only said what would be done
	Guard    breaker.Guard // nil: clusters may go
	Now      func() time.Time
}

// Reconcile looks at all places of one profile.
func (r *ScaleReconciler) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := r.Clusters.store.Get(ctx, task.Ref)
	if err != nil || !o.Deleted.IsZero() {
		return reconcile.Done(ledger.Set{}), err
	}
	var profile Profile
	if err := json.Unmarshal(o.Spec, &profile); err != nil {
		return reconcile.Result{}, reconcile.Terminal(fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err))
	}
	if profile.Scaling.Mode == "" || profile.Scaling.Mode == ScalingOff {
		set, err := dropPending(o)
		return reconcile.Done(set), err
	}
	before := map[string]ScaleState{}
	for _, s := range Scalings(o) {
		before[s.Place] = s
	}
	run := scaling{ScaleReconciler: r, ref: o.Ref, profile: &profile, now: r.now(), dry: profile.Scaling.Mode != ScalingOn || r.Fleet == nil}
	var states []ScaleState
	changed, again := false, false
	for _, at := range profile.spots(o.ID) {
		was, known := before[at.key]
		state, err := run.at(ctx, at, was)
		if err != nil {
			return reconcile.Result{}, err
		}
		changed = changed || !known || !state.same(&was)
		again = again || state.Pending
		states = append(states, state)
	}
	if !changed && len(states) == len(before) {
		return reconcile.Wait(ledger.Set{}, scaleEvery, "the fleet is looked at again"), nil
	}
	version := o.Version
	if o.Status, err = withScalings(o.Status, states); err != nil {
		return reconcile.Result{}, err
	}
	set := ledger.Set{
		Actor: "system", Cause: ledger.BySchedule("scaling"), Counts: run.counts, Claims: run.claims, Frees: run.given(before, states),
		Puts: []ledger.Put{{Object: o, Expect: version, Op: "scale"}},
	}
	if again {
		return reconcile.Again(set), nil
	}
	return reconcile.Wait(set, scaleEvery, "the fleet is looked at again"), nil
}

func (r *ScaleReconciler) now() time.Time {
	if r.Now != nil {
		return r.Now().UTC()
	}
	return time.Now().UTC()
}

// Unsettled lists, for the slow resync, the profiles that scale.
func (r *ScaleReconciler) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	found, err := r.Clusters.store.List(ctx, ledger.Query{Kind: KindProfile.Name, AfterID: after, Limit: limit})
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	return scalers(found), found[len(found)-1].ID, nil
}

func scalers(profiles []ledger.Object) []ledger.Wake {
	var wakes []ledger.Wake
	for _, o := range profiles {
		var p Profile
		if json.Unmarshal(o.Spec, &p) == nil && p.Scaling.Mode != "" && p.Scaling.Mode != ScalingOff {
			wakes = append(wakes, ledger.Wake{Ref: o.Ref})
		}
	}
	return wakes
}

const maxProfiles = 1000

// Scalers returns the wakes of the profiles that may make clusters, for whoever
// found no room.
func (s *Service) Scalers(ctx context.Context) ([]ledger.Wake, error) {
	found, err := s.Profiles(ctx)
	return scalers(found), err
}

// Profiles lists the profiles that there are.
func (s *Service) Profiles(ctx context.Context) ([]ledger.Object, error) {
	found, err := s.store.List(ctx, ledger.Query{Kind: KindProfile.Name, Limit: maxProfiles})
	if fault.Is(err, fault.Invalid) { // a ledger that knows of none
		return nil, nil
	}
	return found, err
}

// scaling is one run over the places of a profile.
type scaling struct {
	*ScaleReconciler
	ref     ledger.Ref
	profile *Profile
	now     time.Time
	dry     bool
	counts  []ledger.Count
	claims  []ledger.Claim // turns that are taken
	removed bool
}

// at decides about one place, or carries out what was decided.
func (r *scaling) at(ctx context.Context, at spot, was ScaleState) (ScaleState, error) {
	if was.Pending && !r.dry {
		return r.carryOut(ctx, at, was)
	}
	p, _, err := r.gather(ctx, at, was)
	if err != nil {
		return was, err
	}
	d := Scale(p, r.profile.Scaling, r.now)
	state := ScaleState{Place: at.key, Do: d.Do, Code: d.Code, Reason: d.Reason, Cluster: d.Cluster, DryRun: r.dry, At: was.At, Spare: d.Spare}
	if r.dry || d.Do == Stay {
		if was.same(&state) {
			state.Reason = was.Reason
		}
		return state, nil
	}
	if d.Do == Up {
		turn, held, err := r.mayCome(ctx, at)
		if err != nil || held != "" {
			state.Do, state.Code, state.Reason = Stay, "turn", d.Reason+"; "+held
			return state, err
		}
		state.Cluster, state.Turn = name(at.spec), turn
	} else if held, approval, err := r.mayGo(ctx, at, d.Cluster); err != nil || held != "" {
		state.Do, state.Code, state.Reason, state.Approval = Stay, "held", held, approval
		return state, err
	}
	state.At, state.Pending = r.now, true
	delete(state.Spare, d.Cluster)
	return state, nil
}

// name makes up the id of a new cluster.
func name(spec Spec) string {
	id := strings.ToLower(ledger.NewID())
	head := spec.Profile
	if len(head) > 40 {
		head = strings.TrimRight(head[:40], "-")
	}
	return head + "-" + id[max(len(id)-12, 0):]
}

// mayGo asks the breaker; the answer is why not, and the approval that it waits for. One run removes one cluster,
// so that what is counted is what was asked for.
func (r *scaling) mayGo(ctx context.Context, at spot, id string) (held, approval string, err error) {
	if r.removed {
		return "another cluster of this profile goes first", "", nil
	}
	r.removed = true
	if r.Guard == nil {
		return "", "", nil
	}
	known, err := r.Clusters.view.look(ctx, r.Clusters.store)
	if err != nil {
		return "", "", err
	}
	counts, err := r.Guard.Take(ctx, breaker.Removal{
		Scope: "clusters", Total: int64(len(known.sorted)), Rule: fmt.Sprintf("scaling of profile %s in %s", at.spec.Profile, at.key),
		Object: ledger.Ref{Kind: Kind.Name, ID: id},
	})
	if fault.Reason(err) == "breaker" {
		var waits *breaker.Waiting
		if errors.As(err, &waits) {
			approval = waits.Approval
		}
		return err.Error(), approval, nil
	}
	r.counts = append(r.counts, counts...)
	return "", "", err
}

// Awaiting implements breaker.Waiters for clusters that are to go: the profiles
// that wait look again.
func (r *ScaleReconciler) Awaiting(ctx context.Context, approval, _ string, _ int) ([]ledger.Wake, string, error) {
	profiles, err := r.Clusters.Profiles(ctx)
	var wakes []ledger.Wake
	for _, o := range profiles {
		if awaited(o, approval) > 0 {
			wakes = append(wakes, ledger.Wake{Ref: o.Ref})
		}
	}
	return wakes, "", err
}

// CountAwaiting implements breaker.Waiters: each place lets one cluster go at a time.
func (r *ScaleReconciler) CountAwaiting(ctx context.Context, approval string) (n int64, err error) {
	profiles, err := r.Clusters.Profiles(ctx)
	for _, o := range profiles {
		n += awaited(o, approval)
	}
	return n, err
}

func awaited(profile ledger.Object, approval string) (n int64) {
	for _, s := range Scalings(profile) {
		if s.Approval == approval {
			n++
		}
	}
	return n
}

// carryOut does what was written down. A cluster that is needed after all stays.
func (r *scaling) carryOut(ctx context.Context, at spot, state ScaleState) (ScaleState, error) {
	state.Spare = maps.Clone(state.Spare)
	var err error
	switch state.Do {
	case Up:
		needed, why, failed := r.still(ctx, at, state)
		if err = failed; err == nil && needed {
			err = r.Fleet.Make(ctx, state.Cluster, at.spec)
		} else if err == nil {
			state.Do, state.Code, state.Reason = Stay, "enough", why
		}
	case Down:
		err = r.Fleet.Remove(ctx, state.Cluster)
	}
	switch fault.Of(err) {
	case fault.Unavailable, fault.Internal:
		if err != nil {
			return state, fmt.Errorf("cannot scale %s: %w", at.key, err)
		}
	default:
		if err != nil {
			state.Do, state.Code, state.Reason = Stay, "refused", err.Error()
		}
	}
	state.Pending, state.Turn = false, ""
	return state, nil
}

// gather reads everything that is decided by.
func (r *scaling) gather(ctx context.Context, at spot, was ScaleState) (Place, []want, error) {
	known, err := r.Clusters.view.look(ctx, r.Clusters.store)
	if err != nil {
		return Place{}, nil, err
	}
	here := known.at[place{at.spec.Provider, at.spec.Region}]
	var demanded []Demanded
	if r.Demand != nil {
		if demanded, err = r.Demand.Demand(ctx, at.spec.Provider, at.spec.Region); err != nil {
			return Place{}, nil, err
		}
	}
	wanted := needsOf(r.Sold.List(), &at.spec, demanded)
	counters, err := r.Clusters.all(ctx, here, wanted)
	if err != nil {
		return Place{}, nil, err
	}
	p := placeOf(at, r.profile.Units, wanted, here, counters, r.now)
	p.Last = was.At
	for i := range p.Hosts {
		p.Hosts[i].Spare = was.Spare[p.Hosts[i].ID]
	}
	return p, wanted, nil
}

// all reads the counters of clusters for many types.
func (s *Service) all(ctx context.Context, clusters []*Known, wanted []want) (map[string]int64, error) {
	out := map[string]int64{}
	for i := range max(len(wanted), 1) {
		w := Wanted{}
		if len(wanted) > 0 {
			w = wanted[i].Wanted
			w.Rules.Strategy = "" // nothing is spread here
		}
		some, err := s.counters(ctx, &w, clusters)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, some)
	}
	return out, nil
}
