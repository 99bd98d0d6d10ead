package environment

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/template"
)

// run is one run on one resource.
type run struct {
	*Service
	task   reconcile.Task
	e      Environment
	of     *parent             // e, with what others know of it
	loaded map[string]Resource // those that were looked at, by id

	lock   sync.Mutex // over the two below, while a call is under way
	r      Resource   // as it was last written, and what is to be written at the end
	stale  bool       // somebody else wrote meanwhile: what was decided may be wrong
	cancel context.CancelCauseFunc

	log *lines
	old []string // secrets to shred once nothing refers to them
	// more is written beside the resource at the end.
	more []ledger.Put
}

const (
	slowAfter  = 300 * time.Millisecond // a call that takes longer is told as under way
	keepEvery  = time.Second            // the log of one that does is kept
	askAgain   = 2 * time.Second        // where an executor does not say when
	maxBackoff = time.Minute
)

// errUnwanted ends a call whose resource is wanted otherwise by now.
var errUnwanted = errors.New("something else is wanted by now")

// work has the executor make the resource or take it away, within the bound of the
// environment.
func (n *run) work(ctx context.Context, away bool) (reconcile.Result, error) {
	sh, err := n.layout(ctx)
	limit := 10
	if err == nil {
		limit = sh.atOnce()
	} else if !away {
		return n.failed(ctx, err, nil, false)
	}
	elsewhere, err := n.elsewhere(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !n.gates.enter(n.e.ID, n.r.Ref, limit, elsewhere) {
		return reconcile.Done(ledger.Set{}), nil // whoever leaves wakes it
	}
	left := false
	leave := func() []ledger.Ref {
		left = true
		return n.gates.leave(n.e.ID, limit, n.Now())
	}
	defer func() { // a panic is the loop's
		if !left {
			leave()
		}
	}()
	result, err := n.effect(ctx, sh, away)
	if n.r.Phase == Applying {
		n.gates.lasting(n.e.ID, n.Now())
	}
	for _, ref := range leave() {
		result.Write.Wakes = append(result.Write.Wakes, ledger.Wake{Ref: ref, Org: n.r.Org})
	}
	return result, err
}

// elsewhere counts what is worked on by nobody in this process: calls that are
// asked about again later, and those of other replicas that take long.
func (n *run) elsewhere(ctx context.Context) (int, error) {
	if n.r.Phase == Applying {
		return 0, nil // it has its place already
	}
	now := n.Now()
	if n.gates.calm(n.e.ID, now) {
		return 0, nil
	}
	applying, err := n.Store.Total(ctx, ledger.Query{Kind: KindResource.Name, Scope: map[string]any{"parent": n.e.ID, "phase": Applying}})
	if err != nil {
		applying = 1
	}
	n.gates.counted(n.e.ID, applying, now)
	return max(0, int(applying)-n.gates.told(n.e.ID)), err
}

// node is the resource's place in the layout; false: it is in none any more.
func (n *run) node(sh *sheet) (template.Node, bool) {
	if sh == nil {
		return template.Node{}, false
	}
	i, ok := sh.byID[n.r.ID]
	if !ok {
		return template.Node{}, false
	}
	return sh.nodes[i], true
}

// effect calls the executor and writes what came of it.
func (n *run) effect(ctx context.Context, sh *sheet, away bool) (reconcile.Result, error) {
	node, _ := n.node(sh)
	if err := n.cyclic(ctx, n.r.Status.Links); err != nil {
		return n.failed(ctx, err, &node, away)
	}
	inputs, err := n.inputs(ctx, sh, away)
	if err != nil {
		return n.failed(ctx, err, &node, away)
	}
	c, err := n.prepare(ctx, sh, node, inputs)
	if err != nil {
		return n.failed(ctx, err, &node, away)
	}
	if err := n.begin(ctx, c.veil); err != nil {
		return reconcile.Result{}, err
	}
	defer n.logs.leave(n.r.ID, n.Now())
	c.resource.Log = n.log
	result, err := n.attend(ctx, c, away)
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.stale {
		return reconcile.Again(ledger.Set{}), nil
	}
	if err != nil {
		n.log.say("%s", err)
		return n.failed(ctx, err, &node, away)
	}
	return n.came(ctx, sh, node, c, inputs, result, away)
}

// inputs of the call: what the template says, and for what is to go what it was
// made with.
func (n *run) inputs(ctx context.Context, sh *sheet, away bool) (map[string]any, error) {
	if away {
		kept, err := n.keptInputs(ctx, n.r.Status)
		if kept != nil || err != nil {
			return kept, err
		}
		if _, known := n.node(sh); !known && n.e.Spec.Previous != nil {
			sh, _ = n.sheet(ctx, n.e.Spec.Previous.Version, n.e.Spec.Previous.Parameters, n.e.facts())
		}
		if _, known := n.node(sh); !known {
			return map[string]any{}, nil // it was never begun, or its executor remembers
		}
	}
	var failed error
	inputs, err := sh.Inputs(ctx, n.r.Spec.Address, n.known(ctx, sh, &failed, n.loaded))
	switch {
	case failed != nil:
		return nil, failed
	case away && (err != nil || !executor.Whole(inputs)):
		return map[string]any{}, nil
	case err != nil:
		return nil, err
	case !executor.Whole(inputs):
		return nil, fault.New(fault.Invalid, "its inputs depend on outputs that are not there")
	}
	return inputs, nil
}

func (n *run) prepare(ctx context.Context, sh *sheet, node template.Node, inputs map[string]any) (*call, error) {
	s := n.r.Spec
	on := subject{id: n.r.ID, address: s.Address, name: s.Executor, connection: s.Connection, tags: s.Tags, timeout: time.Duration(node.Timeout),
		environment: n.e.Name, org: n.e.Org, owner: n.e.Owner, template: n.e.Spec.Template, operator: n.e.Spec.Operator, there: &n.r, inputs: inputs}
	c, err := n.call(ctx, on)
	if err != nil {
		return nil, err
	}
	if n.r.Status.Turn == 0 && len(c.resource.Outputs) == 0 {
		c.resource.Outputs = nil // it was never made
	}
	c.resource.Mark, c.resource.Save, c.resource.Fence = s.Mark, n.save, n.task.Fence(n.r.Generation)
	c.resource.Files = n.files(n.version(sh), s.Template)
	return c, nil
}

// version of the template whose files the resource is worked on with: what is taken
// away is so with those that it was made with.
func (n *run) version(sh *sheet) string {
	if !n.r.Spec.Absent {
		return n.e.Spec.Version
	}
	if n.r.Status.Version != "" {
		return n.r.Status.Version
	}
	if _, known := n.node(sh); !known && n.e.Spec.Previous != nil { // it was begun, and never ended
		return n.e.Spec.Previous.Version
	}
	return n.e.Spec.Version
}

// attend makes the call. While it takes long, people see that it is under way and
// read its log, and it ends where something else is wanted. It starts at most one
// goroutine, which ends with the call.
func (n *run) attend(ctx context.Context, c *call, away bool) (executor.Result, error) {
	ctx, span := n.follow(ctx, away)
	ctx, n.cancel = context.WithCancelCause(ctx)
	ended := make(chan struct{})
	slow := time.AfterFunc(n.slow, func() {
		defer close(ended)
		n.watch(ctx, away)
	})
	var result executor.Result
	err := c.do(ctx, false, func(ctx context.Context, r executor.Resource) (err error) {
		switch {
		case away:
			result, err = c.Destroy(ctx, r)
		case n.r.Spec.Action == driftCorrect:
			if err = mendable(ctx, c, r); err == nil {
				result, err = c.Apply(ctx, r)
			}
		default:
			result, err = c.Apply(ctx, r)
		}
		return err
	})
	span.Done(err)
	unwanted := errors.Is(context.Cause(ctx), errUnwanted)
	n.cancel(nil)
	if !slow.Stop() {
		<-ended
	}
	n.lock.Lock()
	n.stale = n.stale || unwanted
	n.lock.Unlock()
	return result, err
}

// watch looks after a call that takes long.
func (n *run) watch(ctx context.Context, away bool) {
	n.gates.tell(n.e.ID, 1)
	defer n.gates.tell(n.e.ID, -1)
	if !away {
		_ = n.record(ctx, Applying, func(r *Resource) {
			if r.Phase != Applying {
				r.Phase, r.Status.Since, r.Status.Message = Applying, n.Now().UTC(), ""
			}
		})
	}
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	looked := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if text, from, news := n.log.flush(false); news {
			if digest, err := n.Keeper.PutBlob(ctx, text); err == nil {
				n.log.keptAs(digest)
				_ = n.record(ctx, "log", func(r *Resource) { r.Status.keepsLog(digest, from, r.Spec.Turn) })
			}
		}
		if time.Since(looked) < n.glance {
			continue
		}
		looked = time.Now()
		if o, err := n.Store.Get(ctx, n.r.Ref); err == nil { // what cannot be asked is no reason to stop
			if now, err := DecodeResource(o); err == nil && (now.Spec.Turn != n.r.Spec.Turn || now.Spec.Absent != n.r.Spec.Absent) {
				n.cancel(errUnwanted)
				return
			}
		}
	}
}

// save keeps what the executor must remember. Where the lease was lost nothing is
// kept, and the executor must not begin.
func (n *run) save(ctx context.Context, state []byte) error {
	ref, err := "", error(nil)
	if len(state) > 0 { // what has nothing to remember has none: see untouched
		if ref, err = n.Keeper.Seal(ctx, state); err != nil {
			return err
		}
	}
	var before string
	err = n.record(ctx, "state", func(r *Resource) { before, r.Status.State = r.Status.State, ref })
	if err == nil {
		_ = n.shred(ctx, before) // it is nowhere any more; what is left of it opens nothing
	}
	ledger.Discard(ctx, n.Keeper, err, ref)
	return err
}

// record writes something of the status at once, under the lease. It is written
// whatever others want of the resource meanwhile; what was decided is then stale.
func (n *run) record(ctx context.Context, op string, change func(*Resource)) error {
	n.lock.Lock()
	defer n.lock.Unlock()
	for range attempts {
		r, err := DecodeResource(n.r.Object)
		if err != nil {
			return err
		}
		if op != Applying || !n.stale {
			change(&r)
		}
		put, err := r.put(op)
		if err != nil {
			return err
		}
		set := ledger.Set{Actor: "system", Cause: ledger.ByChange(r.Ref, r.Version), Puts: []ledger.Put{put}, Lease: n.lease()}
		written, err := n.Store.Commit(ctx, set)
		if err == nil {
			n.r, err = DecodeResource(written.Objects[0])
			return err
		}
		if fault.Reason(err) != "version" {
			return err
		}
		o, err := n.Store.Get(ctx, n.r.Ref)
		if err != nil {
			return err
		}
		now, err := DecodeResource(o)
		if err != nil {
			return err
		}
		n.stale = true // what it uses has perhaps changed meanwhile
		if !reflect.DeepEqual(now.Spec, n.r.Spec) || !now.Deleted.IsZero() {
			n.cancel(errUnwanted)
		}
		n.r = now
	}
	return fault.New(fault.Unavailable, "%s changes all the time", n.r.Ref)
}

func (n *run) lease() *ledger.Lease {
	if n.task.Token == 0 {
		return nil
	}
	return &ledger.Lease{Ref: n.r.Ref, Token: n.task.Token}
}

// cyclic refuses a resource that would need itself, through whatever is between.
func (n *run) cyclic(ctx context.Context, links []executor.Link) error {
	if n.Finder == nil {
		return nil
	}
	self := []string{n.r.Ref.String(), n.e.Ref.String()}
	for _, end := range objects(links) {
		found, err := n.Finder.Reach(ctx, ledger.Reach{From: end, Limit: 10_000})
		if err != nil {
			return err
		}
		if slices.Contains(self, end) || slices.ContainsFunc(found, func(r ledger.Reached) bool { return slices.Contains(self, r.End) }) {
			return fault.New(fault.Invalid, "%s stands for %s, which needs this environment itself: take one of the two out of the circle", n.r.Spec.Address, end).Because("cycle")
		}
	}
	return nil
}

// next is what whoever reads a failure can do about it.
func (n *run) advice(err error) string {
	name := n.e.Name
	switch {
	case fault.Is(err, fault.Conflict) && fault.Reason(err) == "moved":
		return fmt.Sprintf("Plan again (drover env plan %s) and apply that.", name)
	case fault.Is(err, fault.Invalid):
		return fmt.Sprintf("Mend the template or its parameters and plan again (drover env plan %s).", name)
	case fault.Is(err, fault.Denied):
		return fmt.Sprintf("See to what connection %s may do, then `drover env retry %s`.", n.r.Spec.Connection, name)
	}
	return fmt.Sprintf("See its log (drover env logs %s/%s), then `drover env retry %s`.", name, n.r.Spec.Address, name)
}
