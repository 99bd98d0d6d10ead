package command

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
)

// look is how often a command is looked at that nothing has woken.
const look = 5 * time.Minute

// Reconcile brings what is said of a command up to date. It implements
// reconcile.Reconciler.
func (s *Service) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := s.Store.Get(ctx, task.Ref)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	c, err := Decode(o)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	if c.Ended() {
		return reconcile.Result{}, nil
	}
	var seen Observed
	if id, _ := c.Fields["operation"].(string); id != "" {
		if seen.Operation, err = s.see(ctx, ledger.Ref{Kind: operation.Kind.Name, ID: id}); err != nil {
			return reconcile.Result{}, err
		}
	}
	if c.Status.Object != (ledger.Ref{}) {
		if seen.Subject, err = s.see(ctx, c.Status.Object); err != nil {
			return reconcile.Result{}, err
		}
	}
	next, op := Plan(c, seen, s.Now().UTC())
	var write ledger.Set
	if op != "" {
		put, err := next.put(op)
		if err != nil {
			return reconcile.Result{}, err
		}
		write = ledger.Set{Actor: "system", Cause: ledger.ByChange(c.Ref, c.Version), Puts: []ledger.Put{put}}
	}
	if next.Ended() {
		return reconcile.Done(write), nil
	}
	return reconcile.Wait(write, look, "waits for "+c.Status.Object.String()), nil
}

// see reads an object; nil if there is none.
func (s *Service) see(ctx context.Context, ref ledger.Ref) (*ledger.Object, error) {
	o, err := s.Store.Get(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return &o, err
}

// Follower gives the changes after a sequence, waiting until there is one.
type Follower interface {
	Next(ctx context.Context, after int64) ([]ledger.Change, error)
}

// index finds the open commands that a change is about.
type index struct {
	mu sync.Mutex
	by map[string]map[string]string // object → command's id → organisation
}

func newIndex() index { return index{by: map[string]map[string]string{}} }

// clear forgets all: the end of some may not have been heard.
func (x *index) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.by)
}

// note keeps a command in mind while it is open.
func (x *index) note(c *Command) {
	x.mu.Lock()
	defer x.mu.Unlock()
	refs := []string{c.Status.Object.String()}
	if id, _ := c.Fields["operation"].(string); id != "" {
		refs = append(refs, operation.Kind.Name+"/"+id)
	}
	for _, ref := range refs {
		if c.Ended() {
			if delete(x.by[ref], c.ID); len(x.by[ref]) == 0 {
				delete(x.by, ref)
			}
			continue
		}
		if x.by[ref] == nil {
			x.by[ref] = map[string]string{}
		}
		x.by[ref][c.ID] = c.Org
	}
}

// about adds the wakes of the commands that a change is about.
func (x *index) about(ref ledger.Ref, trace string, wakes map[string]ledger.Wake) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, org := range x.by[ref.String()] {
		wakes[id] = ledger.Wake{Ref: ledger.Ref{Kind: Kind.Name, ID: id}, Org: org, Trace: cmp.Or(trace, wakes[id].Trace)}
	}
}

// Follow wakes open commands when what they wait for changes, until ctx ends. It is
// one goroutine, the caller's. Any number of replicas may: what is woken twice is run
// once.
func (s *Service) Follow(ctx context.Context, log interface {
	Head(ctx context.Context) (ledger.Head, error)
}) error {
	var after int64 = -1
	for ctx.Err() == nil {
		if after < 0 {
			s.open.clear()
			head, err := log.Head(ctx)
			if err == nil {
				err = s.load(ctx)
			}
			if err != nil {
				pause(ctx, time.Second)
				continue
			}
			after = head.Seq
		}
		changes, err := s.Feed.Next(ctx, after)
		if err != nil {
			if fault.Reason(err) == "truncated" {
				after = -1 // all are looked at anew
			}
			pause(ctx, time.Second)
			continue
		}
		after = changes[len(changes)-1].Seq
		wakes := map[string]ledger.Wake{}
		for i := range changes {
			if o := &changes[i].Object; o.Kind != Kind.Name {
				s.open.about(o.Ref, changes[i].Trace, wakes)
			} else if c, err := Decode(*o); err == nil {
				s.open.note(&c)
			}
		}
		set := ledger.Set{Actor: "system", Cause: ledger.BySchedule("commands")}
		for _, w := range wakes {
			set.Wakes = append(set.Wakes, w)
		}
		if len(set.Wakes) > 0 {
			if _, err := s.Store.Commit(ctx, set); err != nil {
				after = -1 // all are looked at anew
				pause(ctx, time.Second)
			}
		}
	}
	return nil
}

// load finds the commands that are open, and wakes them: whoever followed before may have
// ended before it woke those whose work was done.
func (s *Service) load(ctx context.Context) error {
	const page = 1000
	for after := ""; ; {
		found, err := s.Store.List(ctx, ledger.Query{Kind: Kind.Name, Scope: map[string]any{"phase": Accepted}, AfterID: after, Limit: page})
		if err != nil {
			return err
		}
		set := ledger.Set{Actor: "system", Cause: ledger.BySchedule("commands")}
		for _, o := range found {
			after = o.ID
			if c, err := Decode(o); err == nil {
				s.open.note(&c)
				set.Wakes = append(set.Wakes, ledger.Wake{Ref: c.Ref, Org: c.Org})
			}
		}
		if len(set.Wakes) > 0 {
			if _, err := s.Store.Commit(ctx, set); err != nil {
				return err
			}
		}
		if len(found) < page {
			return nil
		}
	}
}
