package gitops

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/trace"
)

// Observation is what an agent says of one deployment.
type Observation struct {
	ID         string
	Generation int64
	State      string // as package runtime names them
	Message    string
	Detail     []byte
	Leaf       uint64
	Trace      string // of what was done to it; empty: nobody follows that
}

// Outcome is what became of observations, as for instances.
type Outcome struct {
	Refused   []string
	Strangers []string
	Written   []Written
	// Known are deployments of which they were no news, as the ledger has them.
	Known []ledger.Object
}

// Written is a deployment as a report left it.
type Written struct {
	Object ledger.Object
	Seq    int64
}

const (
	reportWriters = 64       // sets of one report that share commits
	maxMessage    = 1024     // bytes of a message
	maxDetail     = 8 << 20  // bytes of a detail that is taken at all
	maxInline     = 48 << 10 // bytes of a detail beyond which it is kept aside
	stranger      = "stranger"
)

var states = []runtime.State{runtime.Installing, runtime.Ready, runtime.Suspended, runtime.Deleted, runtime.Error, runtime.Rejected}

func (o Observation) deleted() bool { return runtime.State(o.State) == runtime.Deleted }

// Observe writes what an agent observed, as far as it is news, and wakes what it
// is about. What makes no sense changes nothing and is returned as refused; the
// others are not harmed by it, nor by one that cannot be written now, for which
// the first error is returned.
func (s *Service) Observe(ctx context.Context, clusterID string, items []Observation) (Outcome, error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var group errgroup.Group
	group.SetLimit(reportWriters)
	fates, written := make([]error, len(items)), make([]Written, len(items))
	for i, item := range items {
		group.Go(func() error {
			var err error
			written[i], err = s.observe(ctx, clusterID, item)
			switch kind := fault.Of(err); {
			case err == nil:
			case kind == fault.Invalid, kind == fault.NotFound, kind == fault.Internal && ctx.Err() == nil:
				fates[i] = err
				return nil
			case kind == fault.Unavailable:
				giveUp() // the store is away for all of them
			}
			return err
		})
	}
	err := group.Wait()
	var out Outcome
	for i, item := range items {
		switch fate := fates[i]; {
		case fate != nil:
			out.Refused = append(out.Refused, item.ID)
			if fault.Is(fate, fault.NotFound) || fault.Reason(fate) == stranger {
				out.Strangers = append(out.Strangers, item.ID)
			}
		case written[i].Seq > 0:
			out.Written = append(out.Written, written[i])
		case written[i].Object.ID != "":
			out.Known = append(out.Known, written[i].Object)
		}
	}
	return out, err
}

func (s *Service) observe(ctx context.Context, clusterID string, item Observation) (Written, error) {
	if item.Trace == "" {
		return s.note(ctx, clusterID, item)
	}
	ctx, span := trace.From(ctx).Continue(ctx, item.Trace, "report deployment")
	out, err := s.note(span.Hold(ctx), clusterID, item)
	if span != nil && (err != nil || out.Seq > 0) { // what says nothing new is not told
		span.Set(trace.Text("drover.id", item.ID), trace.Text("drover.cluster", clusterID), trace.Text("drover.state", item.State))
		span.Done(err)
	}
	return out, err
}

// note writes one observation, after what is large of it.
func (s *Service) note(ctx context.Context, clusterID string, item Observation) (Written, error) {
	if !slices.Contains(states, runtime.State(item.State)) {
		return Written{}, fault.New(fault.Invalid, "unknown state")
	}
	seen := &Observed{Generation: item.Generation, State: item.State, Message: cut(item.Message, maxMessage), Leaf: item.Leaf, Engine: clusterID}
	// Before anything of it is kept: whoever reports may have no business with it.
	if len(item.Detail) > maxInline {
		if err := s.theirs(ctx, clusterID, item.ID); err != nil {
			return Written{}, err
		}
	}
	if err := s.detail(ctx, seen, item.Detail); err != nil {
		return Written{}, err
	}
	for attempt := 0; ; attempt++ {
		out, err := s.take(ctx, clusterID, item, seen)
		if fault.Reason(err) == "version" && attempt < maxConflicts {
			continue
		}
		return out, err
	}
}

// theirs refuses what a cluster says of a deployment that it has nothing of.
func (s *Service) theirs(ctx context.Context, clusterID, id string) error {
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindDeployment.Name, ID: id})
	if err != nil {
		return err
	}
	d, err := sound(ctx, s, o, Decode)
	if err != nil {
		return err
	}
	if d.Status.Engine != clusterID && (d.Status.Leaving == nil || d.Status.Leaving.Engine != clusterID) {
		return fault.New(fault.Invalid, "not of this cluster").Because(stranger)
	}
	return nil
}

// take writes one observation into the deployment as it is now.
func (s *Service) take(ctx context.Context, clusterID string, item Observation, seen *Observed) (none Written, _ error) {
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindDeployment.Name, ID: item.ID})
	if err != nil {
		return none, err
	}
	d, err := sound(ctx, s, o, Decode)
	if err != nil {
		return none, err
	}
	o = d.Object
	leaving := d.Status.Leaving
	elsewhere := d.Status.Engine != clusterID
	switch {
	case !o.Deleted.IsZero() && item.deleted():
		return Written{Object: o}, nil // a late word on what is gone
	case !o.Deleted.IsZero():
		return none, fault.New(fault.Invalid, "it is gone").Because(stranger)
	case elsewhere && (leaving == nil || leaving.Engine != clusterID):
		return none, fault.New(fault.Invalid, "not of this cluster").Because(stranger)
	case elsewhere:
		return s.takeLeaving(ctx, d, item)
	case item.Generation < 0 || item.Generation > d.Status.Issued:
		return none, fault.New(fault.Invalid, "not of this generation")
	}
	last := d.Status.Observed
	if last.equal(seen) || last != nil && last.Engine == seen.Engine && last.Generation > seen.Generation {
		return Written{Object: o}, nil
	}
	before, phase := d.Status.deployed().Run, d.Phase
	d.Status.Observed = seen
	d.settle(s.Now())
	set := ledger.Set{Actor: "agent:" + clusterID, Cause: ledger.CauseOf(ctx)}
	if !last.says(seen) { // the same in other words is nobody's work
		d.Status.Mirrored = "" // a run on what was seen before may have told what it cannot write down any more
		if !d.taken(last, seen) {
			set.Wakes = append(set.Wakes, ledger.Wake{Ref: d.Ref, Org: d.Org})
		}
	}
	if after := d.Status.deployed().Run; d.Status.Run != "" && !sameRun(before, after) {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: ledger.Ref{Kind: KindSyncRun.Name, ID: d.Status.Run}, Org: d.Org})
	}
	if d.child() && (phase != d.Phase || last == nil) {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: ledger.Ref{Kind: KindDeployment.Name, ID: d.Parent}, Org: d.Org})
	}
	return s.report(ctx, &d, set)
}

// taken reports whether an agent says no more than that it has what it was handed
// for the first time, of which it tells at once what became. There is nothing to do
// about it: whoever handed it over comes back to tell that it is under way.
func (d *Deployment) taken(last, seen *Observed) bool {
	s := &d.Status
	return last == nil && runtime.State(seen.State) == runtime.Installing && seen.Message == "" && len(seen.Detail) == 0 &&
		s.Runtime == argocd && !d.Spec.Deleted && !s.Remove && s.Leaving == nil && s.Run == ""
}

// takeLeaving hears of a copy that is to go.
func (s *Service) takeLeaving(ctx context.Context, d Deployment, item Observation) (Written, error) {
	l := *d.Status.Leaving
	gone := item.deleted()
	if !gone && l.Leaf == item.Leaf {
		return Written{Object: d.Object}, nil
	}
	set := ledger.Set{Actor: "agent:" + l.Engine, Cause: ledger.CauseOf(ctx)}
	l.Leaf = item.Leaf
	d.Status.Leaving = &l
	if gone {
		d.Status.Leaving = nil
		set.Wakes = []ledger.Wake{{Ref: d.Ref, Org: d.Org}}
	}
	return s.report(ctx, &d, set)
}

func (s *Service) report(ctx context.Context, d *Deployment, set ledger.Set) (Written, error) {
	put, err := d.put("report")
	if err != nil {
		return Written{}, err
	}
	set.Puts = []ledger.Put{put}
	r, err := s.Store.Commit(ctx, set)
	if err != nil {
		return Written{}, err
	}
	return Written{r.Objects[0], r.Seq}, nil
}

// detail takes over what is told in the runtime's words. What is large is kept
// aside, and only what decides stays with the deployment.
func (s *Service) detail(ctx context.Context, seen *Observed, raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	var d runtime.Deployed
	if len(raw) > maxDetail || json.Unmarshal(raw, &d) != nil {
		return fault.New(fault.Invalid, "what is told of it cannot be read")
	}
	whole, err := encodeBody(d)
	if err != nil {
		return err
	}
	if len(whole) <= maxInline {
		seen.Detail = whole
		return nil
	}
	if seen.Blob, err = s.Keeper.PutBlob(ctx, whole); err != nil {
		return err
	}
	d.Resources, d.Diff, d.Operation = nil, nil, nil
	if d.Run != nil {
		run := *d.Run
		run.Resources = runtime.Foremost(run.Resources, maxSynced)
		d.Run = &run
	}
	for i, c := range d.Conditions {
		d.Conditions[i].Message = cut(c.Message, 4*maxMessage)
	}
	d.Conditions = d.Conditions[:min(len(d.Conditions), maxConditions)]
	seen.Detail, err = encodeBody(d)
	return err
}

const maxSynced = 100 // resources of a sync run that are kept with it

func (o *Observed) equal(p *Observed) bool {
	return o.says(p) && o != nil && o.Leaf == p.Leaf
}

// says reports whether two observations tell the same.
func (o *Observed) says(p *Observed) bool {
	return o != nil && p != nil && o.Generation == p.Generation && o.State == p.State && o.Message == p.Message &&
		o.Engine == p.Engine && o.Blob == p.Blob && bytes.Equal(o.Detail, p.Detail)
}

func sameRun(a, b *runtime.SyncRun) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// child reports whether a deployment with a selector made it.
func (d *Deployment) child() bool { return d.Parent != "" && d.Parent != d.workspace() }
