package environment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// order is whether one resource stands in the way of another.
type order int

const (
	done  order = iota // it does not
	later              // it will be done
	never              // it has failed, or waits for one that has
)

// comesFirst judges what a resource needs before it is made.
func comesFirst(need *Resource) order {
	switch {
	case need == nil || !need.Deleted.IsZero() || need.Spec.Absent:
		return later // it is laid out with what needs it
	case need.Phase == Ready && need.Status.Turn == need.Spec.Turn:
		return done
	case need.Phase == Failed && need.Status.Turn == need.Spec.Turn, need.Phase == Blocked:
		return never
	}
	return later
}

// goesFirst judges what needed a resource before that is taken away: it is gone, or
// it has learned to do without.
func goesFirst(r Resource, user *Resource) order {
	switch {
	case user == nil || !user.Deleted.IsZero():
		return done
	case user.Phase == Failed && user.Status.Turn == user.Spec.Turn, user.Phase == Blocked:
		return never
	case user.Spec.Absent || slices.Contains(user.Spec.Needs, r.ID):
		return later
	case user.Phase == Ready && user.Status.Turn == user.Spec.Turn:
		return done
	}
	return later
}

// Around is what is decided on besides the resource.
type Around struct {
	Laid    int64     // the turn whose resources are all laid out
	Other   *Resource // the first that stands in its way; nil: none does
	Verdict order     // on that
	// Look is the newest wish to have everything looked at, Last when it was last
	// looked at by this process, and Leaving that the environment goes.
	Look    int64
	Last    time.Time
	Leaving bool
	Every   time.Duration
	Told    bool // who watches it has woken it
}

// Move is what is done next about a resource.
type Move interface{ move() }

// Moves of resources.
type (
	// Hold waits for another, which wakes it.
	Hold struct {
		On      string
		Blocked bool
		Behind  string // what the other says that it waits for itself
	}
	// Make has its executor make it.
	Make struct{}
	// Unmake has its executor take it away.
	Unmake struct{}
)

func (Hold) move()   {}
func (Make) move()   {}
func (Unmake) move() {}

// moves decide about a resource, in this order; the first that wants something
// decides. Each is pure. What is done to a resource that is settled (looks for
// drift, checks of its endpoints) is a move of its own, behind these.
var moves = []func(r Resource, around Around, now time.Time) Move{unlaid, held, walk, looks}

// DecideResource says what to do next. It is pure. Nothing: until it is woken.
func DecideResource(r Resource, around Around, now time.Time) Move {
	if !r.Deleted.IsZero() {
		return nil
	}
	for _, m := range moves {
		if move := m(r, around, now); move != nil {
			return move
		}
	}
	return nil
}

// unlaid keeps everybody from working before all of a turn is laid out: what it
// needs may be about to change.
func unlaid(r Resource, around Around, _ time.Time) Move {
	if around.Laid < r.Spec.Turn {
		return Hold{}
	}
	return nil
}

func held(r Resource, around Around, _ time.Time) Move {
	if r.settled() || around.Other == nil {
		return nil
	}
	hold := Hold{On: around.Other.Spec.Address, Blocked: around.Verdict == never}
	if hold.Blocked && around.Other.Phase == Blocked {
		hold.Behind = around.Other.Status.Message
	}
	return hold
}

func walk(r Resource, _ Around, _ time.Time) Move {
	switch {
	case r.settled():
		return nil
	case r.Spec.Absent:
		return Unmake{}
	}
	return Make{}
}

// Resources is the reconciler of resources: each waits for those that stand in its
// way, has its executor work, and wakes those that wait for it.
type Resources struct{ *Service }

// Reconcile may stop and start again anywhere: executors go on where they stopped.
func (s *Resources) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := s.Store.Get(ctx, task.Ref)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Done(ledger.Set{}), nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	r, err := DecodeResource(o)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	s.gates.come(r.Parent, r.ID)
	parent, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: r.Parent})
	if err != nil {
		return reconcile.Result{}, err
	}
	of, err := s.parent(parent)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	if of.Environment.Spec.Handed != nil {
		return reconcile.Done(ledger.Set{}), nil
	}
	n := &run{Service: s.Service, task: task, r: r, e: of.Environment, of: of, loaded: map[string]Resource{}}
	around, err := n.around(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch m := DecideResource(r, around, s.Now()).(type) {
	case Hold:
		return n.hold(ctx, m)
	case Make:
		return n.work(ctx, false)
	case Unmake:
		return n.work(ctx, true)
	case Look:
		return n.look(ctx)
	case Later:
		return reconcile.Wait(ledger.Set{}, m.After, "it was looked at a moment ago"), nil
	}
	return reconcile.Done(ledger.Set{}), nil
}

// mark is how many of those that stand before a resource are known to be done in
// a turn, so that one that waits for thousands does not look at all of them
// whenever one of them is.
type mark struct {
	turn int64
	n    int
	on   string // the id of the one that it waits for
}

// around looks at those that stand in the way, up to the first that does.
func (n *run) around(ctx context.Context) (Around, error) {
	a := Around{Laid: n.e.Status.Laid, Look: n.e.Spec.Look, Last: n.lastLook(n.r.ID), Leaving: n.e.Spec.Destroy, Told: n.task.Cause == byWatch}
	if a.Laid < n.r.Spec.Turn || n.r.settled() || !n.r.Deleted.IsZero() {
		a.Every = n.every() // of use to what is settled alone
		return a, nil
	}
	ids := n.r.Spec.Needs
	if n.r.Spec.Absent {
		ids = n.r.Spec.Needed
	}
	n.mu.Lock()
	from := n.marks[n.r.ID]
	n.mu.Unlock()
	if from.turn != n.r.Spec.Turn {
		from = mark{turn: n.r.Spec.Turn}
	}
	for size := 4; from.n < len(ids); size = min(4*size, 256) {
		chunk := ids[from.n:min(from.n+size, len(ids))]
		found, err := n.load(ctx, chunk)
		if err != nil {
			return a, err
		}
		for _, id := range chunk {
			other, verdict := found[id], done
			if n.r.Spec.Absent {
				verdict = goesFirst(n.r, other)
			} else {
				verdict = comesFirst(other)
			}
			if verdict != done {
				if other == nil {
					other = &Resource{Spec: ResourceSpec{Address: "another"}}
				}
				a.Other, a.Verdict, from.on = other, verdict, id
				n.remember(from)
				return a, nil
			}
			from.n++
			n.loaded[id] = *orEmpty(other)
		}
	}
	n.remember(from)
	return a, nil
}

func orEmpty(r *Resource) *Resource {
	if r == nil {
		return &Resource{}
	}
	return r
}

// worthMarking is how many must stand before a resource for them to be remembered.
const worthMarking = 16

func (n *run) remember(m mark) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.r.Spec.Needs)+len(n.r.Spec.Needed) >= worthMarking {
		n.marks[n.r.ID] = m
	}
}

// load reads resources by id; those that never were are left out. A few are had
// faster one by one.
func (n *run) load(ctx context.Context, ids []string) (map[string]*Resource, error) {
	var objects []ledger.Object
	if len(ids) <= 8 {
		for _, id := range ids {
			o, err := n.Store.Get(ctx, ledger.Ref{Kind: KindResource.Name, ID: id})
			if err == nil {
				objects = append(objects, o)
			} else if !fault.Is(err, fault.NotFound) {
				return nil, err
			}
		}
	} else {
		values := make([]any, len(ids))
		for i, id := range ids {
			values[i] = id
		}
		var err error
		if objects, err = n.Store.List(ctx, ledger.Query{Kind: KindResource.Name, Where: ledger.Compare{Column: "id", Op: ledger.In, Values: values}, Limit: len(ids), Deleted: true}); err != nil {
			return nil, err
		}
	}
	out := make(map[string]*Resource, len(objects))
	for _, o := range objects {
		r, err := DecodeResource(o)
		if err != nil {
			return nil, err
		}
		out[o.ID] = &r
	}
	return out, nil
}

// hold writes why it waits, where people look for it. Whoever it waits for wakes it.
func (n *run) hold(ctx context.Context, h Hold) (reconcile.Result, error) {
	if !h.Blocked {
		// All are woken once they are laid out, or by whom they wait for. That is not
		// written down: it would be for each of those in turn.
		return reconcile.Done(ledger.Set{}), nil
	}
	why := cmp.Or(h.Behind, fmt.Sprintf("waits for %s, which has failed", h.On))
	n.r.Phase, n.r.Status.Message, n.r.Status.Since = Blocked, why, n.Now().UTC()
	return n.finish(ctx, Blocked)
}

// soon is when one is woken that waits for another first, as far as is known here.
const soon = 100 * time.Millisecond

// wakes are those of whoever waits for this resource.
func (n *run) wakes(ctx context.Context) []ledger.Wake {
	ids := n.r.Spec.Needs
	if !n.r.Spec.Absent {
		ids = n.r.Spec.Frees
		sh, err := n.layout(ctx)
		if i, ok := -1, false; err == nil { // otherwise the environment finds them
			if i, ok = sh.byID[n.r.ID]; ok {
				ids = slices.Concat(ids, sh.needed[i])
			}
		}
	}
	out := make([]ledger.Wake, 0, len(ids)+1)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		w := wakeOf(KindResource.Name, id, n.r.Org)
		if m, ok := n.marks[id]; ok && m.on != n.r.ID {
			w.After = soon
		}
		out = append(out, w)
	}
	return out
}
