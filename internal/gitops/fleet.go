package gitops

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

const (
	fleetLook = 5 * time.Minute // how often the fleet is looked at for a selector, should nobody have told
	fleetSoon = 30 * time.Second
	fleetStep = 50 // deployments that one run makes or changes
)

// planFleet follows the fleet: one deployment per cluster that fits. One goes only
// when its cluster is there and fits no longer, is leaving, or is gone for sure.
func planFleet(d Deployment, f Facts) []Action {
	come := Come{fleetLook, "for clusters to come and go"}
	if d.Status.Operation != "" { // somebody waits
		come.After = fleetSoon
	}
	if f.Workspace == nil {
		return []Action{Hold{Why: "the workspace of this deployment is gone: delete it"}, come}
	}
	if !f.Known || len(f.Fleet) == 0 { // it is not known which there are
		return []Action{Hold{Why: "waiting for clusters to deploy to", Patient: true}, come}
	}
	there := map[string]Engine{}
	var fitting []Engine
	barred := false // by the namespace alone: of clusters that it has no part of it is told nothing
	for _, e := range f.Fleet {
		there[e.ID] = e
		barred = barred || d.suits(e) && deploys(e.Runtime) && len(f.Workspace.namespacesOn(e.ID)) > 0
		if d.suits(e) && deploys(e.Runtime) && (d.Spec.Operator || f.Workspace.reaches(e, d.Spec.To.Namespace)) {
			fitting = append(fitting, e)
		}
	}
	slices.SortFunc(fitting, func(a, b Engine) int { return strings.Compare(a.ID, b.ID) })
	var leave []string
	for id, c := range f.Children {
		e, ok := there[id]
		if c.Spec.Deleted || ok && d.suits(e) || !ok && !f.Missing[id] {
			continue
		}
		leave = append(leave, c.ID)
	}
	slices.Sort(leave)
	var actions []Action
	switch {
	case len(fitting) == 0 && barred:
		why := fmt.Sprintf("this workspace may not deploy into namespace %s of the clusters that fit the selector: ask your operator, or name another", d.Spec.To.Namespace)
		actions = append(actions, Hold{Why: why}, Conclude{operation.Failed, why})
	case len(fitting) == 0:
		actions = append(actions, Hold{Why: "no cluster fits the selector", Patient: true})
	}
	if len(leave) > 0 {
		actions = append(actions, Gather{leave})
	}
	actions = append(actions, Spread{fitting})
	behind := slices.ContainsFunc(fitting, func(e Engine) bool { // this run is the first that they hear of it
		c, known := f.Children[e.ID]
		return !known || c.Spec.Deleted || c.Spec.asks(d.on(e)) || c.Status.Refresh != d.Status.Refresh
	})
	if t := tallyOf(f.Children); d.Status.Operation != "" && len(fitting) > 0 && !behind && t.Busy == 0 {
		if t.Failed > 0 {
			actions = append(actions, Conclude{operation.Failed, "it has failed on some of its clusters"})
		} else {
			actions = append(actions, Conclude{operation.Succeeded, ""})
		}
	}
	return append(actions, come)
}

// on is what one with a selector asks for on a cluster.
func (d *Deployment) on(e Engine) Spec {
	spec := d.Spec
	spec.To = To{Cluster: e.ID, Namespace: d.Spec.To.Namespace}
	spec.Origin, spec.Deleted = nil, false
	return spec
}

// suits reports whether a cluster fits the selector.
func (d *Deployment) suits(e Engine) bool {
	if e.Leaving {
		return false
	}
	for k, v := range d.Spec.To.Selector {
		if e.Labels[k] != v {
			return false
		}
	}
	return true
}

// reaches reports whether deployments of a workspace may go to a namespace of a
// cluster: their own namespace, all of their organisation's clusters, and what
// operators have given them of the fleet.
func (w *Workspace) reaches(e Engine, namespace string) bool {
	switch {
	case w.Spec.Home != "" && e.ID == w.Spec.Engine && namespace == w.Spec.Namespace && namespace != system:
		return true
	case e.Org != "":
		return e.Org == w.Org
	}
	return slices.ContainsFunc(w.namespacesOn(e.ID), func(n string) bool { return fits(n, namespace) })
}

func tallyOf(children map[string]Deployment) Tally {
	var t Tally
	for _, c := range children {
		if c.Spec.Deleted {
			continue
		}
		t.Total++
		switch c.Phase {
		case Deployed, OutOfSync:
			t.Deployed++
		case Failed:
			t.Failed++
		}
		if c.Status.Operation != "" {
			t.Busy++
		}
	}
	return t
}

// fleet reads the engines that there are and the deployments that were made.
func (r *Deployments) fleet(ctx context.Context, d Deployment, f *Facts) error {
	f.Children = map[string]Deployment{}
	for after := ""; ; {
		found, err := r.Store.List(ctx, ledger.Query{Kind: KindDeployment.Name, Scope: map[string]any{"parent": d.ID}, AfterID: after, Limit: wakesPage})
		if err != nil {
			return err
		}
		for _, o := range found {
			c, err := sound(ctx, r.Service, o, Decode)
			if err != nil {
				return err
			}
			f.Children[c.Spec.To.Cluster], after = c, o.ID
		}
		if len(found) < wakesPage {
			break
		}
	}
	if d.Spec.Deleted {
		return nil
	}
	all, err := r.Engines.Engines(ctx)
	if err != nil {
		return nil //nolint:nilerr // it is not known which there are: nothing changes, and it is looked at again
	}
	f.Fleet, f.Known, f.Missing = all, true, map[string]bool{}
	for id := range f.Children {
		if slices.ContainsFunc(all, func(e Engine) bool { return e.ID == id }) {
			continue
		}
		if _, err := r.Engines.Engine(ctx, id); fault.Is(err, fault.NotFound) {
			f.Missing[id] = true
		}
	}
	return nil
}

// spread makes the deployments that are missing, and brings the others up to date.
func (r *run) spread(ctx context.Context, engines []Engine) error {
	s := &r.d.Status
	s.Children = map[string]string{}
	for id, c := range r.facts.Children {
		s.Children[id] = c.ID
	}
	steps := 0
	for _, e := range engines {
		child, known := r.facts.Children[e.ID]
		spec, verb := r.d.on(e), "update"
		if known && (child.Spec.Deleted || reflect.DeepEqual(child.Spec, spec) && child.Status.Refresh == s.Refresh) {
			continue // it is right, or another one is made once it is gone
		}
		if steps++; steps > fleetStep {
			r.come = &Come{0, "for the rest of its clusters"}
			break
		}
		if !known {
			verb = "create"
			child = Deployment{Object: ledger.Object{
				Ref: ledger.Ref{Kind: KindDeployment.Name, ID: ledger.NewID()}, Org: r.d.Org, Owner: r.d.Owner,
				Name: r.d.Name + "." + e.ID, Phase: Pending, Parent: r.d.ID, Fields: ledger.Fields{"workspace": r.d.workspace()},
			}}
			child.Status.Since = r.now
			r.set.Claims = append(r.set.Claims, ledger.Claim{Name: nameOf(r.d.workspace(), child.Name), Holder: child.Ref})
		}
		changed := !known || child.Spec.asks(spec)
		pushed := known && child.Status.Refresh != s.Refresh
		child.Spec, child.Status.Refresh = spec, s.Refresh
		if pushed {
			child.Status.Pushes = s.Pushes
		}
		if pushed && !changed && s.Operation != "" && s.Shown != nil && child.Status.Operation == "" {
			told := ledger.Set{Cause: ledger.Cause(s.Shown.Cause)}
			if err := r.Service.begin(ctx, &child, "push", &told); err != nil {
				return err
			}
			r.set.Puts = append(r.set.Puts, told.Puts...)
		}
		if changed {
			if err := r.Service.begin(ctx, &child, verb, &r.set); err != nil {
				return err
			}
		}
		put, err := child.put(verb)
		if err != nil {
			return err
		}
		r.set.Puts, r.set.Wakes = append(r.set.Puts, put), append(r.set.Wakes, ledger.Wake{Ref: child.Ref, Org: child.Org})
		s.Children[e.ID] = child.ID
	}
	t := tallyOf(r.facts.Children)
	t.Total = max(t.Total, len(s.Children))
	s.Tally = &t
	return nil
}

// gather wants deployments gone that were made for clusters.
func (r *run) gather(ctx context.Context, ids []string) error {
	for i, id := range ids {
		if i >= fleetStep {
			r.come = &Come{0, "for the rest of its clusters"}
			return nil
		}
		o, err := r.Store.Get(ctx, ledger.Ref{Kind: KindDeployment.Name, ID: id})
		if err != nil {
			return err
		}
		child, err := sound(ctx, r.Service, o, Decode)
		if err != nil {
			return err
		}
		keep := r.d.keeps(child)
		if child.Spec.Deleted && !keep || !o.Deleted.IsZero() {
			continue
		}
		set := ledger.Set{Cause: r.set.Cause}
		if child.Spec.Keep = child.Spec.Keep || keep; child.Spec.Deleted {
			err = r.dropAgain(&child, &set)
		} else {
			err = r.dropping(ctx, &child, &set)
		}
		if err != nil {
			return err
		}
		r.set.Puts, r.set.Wakes = append(r.set.Puts, set.Puts...), append(r.set.Wakes, set.Wakes...)
	}
	return nil
}

// keeps reports whether one that it has made is to be left as it is, and was not told.
func (d *Deployment) keeps(child Deployment) bool {
	return d.Spec.Deleted && d.Spec.Keep && !child.Spec.Keep
}
