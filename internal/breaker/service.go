package breaker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Store is what the room needs of the ledger.
type Store interface {
	Commit(ctx context.Context, set ledger.Set) (ledger.Result, error)
	Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error)
	Counter(ctx context.Context, name string) (int64, error)
}

// Config of a Service.
type Config struct {
	Store Store
	Limit Limit            // the zero value lets nothing go without an approval
	Now   func() time.Time // default: time.Now
}

// Service is the Guard on the ledger, with the verbs of operators.
type Service struct {
	Config
	Waiters map[string]Waiters // by kind; what no one is here for is taken to wait
}

var _ Guard = (*Service)(nil)

// NewService makes the service.
func NewService(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{Config: c}
}

// tooMuch is what the log has as the cause where something is asked or measured.
const tooMuch = "a rule removes things"

// attempts at a commit that somebody else's commit came before.
const attempts = 20

// Take implements Guard.
func (s *Service) Take(ctx context.Context, r Removal) ([]ledger.Count, error) {
	var counts []ledger.Count
	err := again(func() (err error) {
		counts, err = s.take(ctx, r, s.Now().UTC())
		return err
	})
	return counts, err
}

func again(try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		reason := fault.Reason(err)
		if err == nil || attempt == attempts || !fault.Is(err, fault.Conflict) || reason != "version" && reason != "exists" {
			return err
		}
	}
}

func (s *Service) take(ctx context.Context, r Removal, now time.Time) ([]ledger.Count, error) {
	id := idOf(r.Scope, r.Rule)
	used, err := s.Store.Counter(ctx, approvedCounter+id)
	if err != nil {
		return nil, err
	}
	a, err := s.approval(ctx, id)
	if err != nil {
		return nil, err
	}
	switch a.judge(r, used, now) {
	case pass:
		return []ledger.Count{{Name: approvedCounter + id, Delta: r.count(), Max: a.Spec.Last}}, nil
	case wait:
		if a.sample(r.Object) {
			if err := s.commit(ctx, &a, "update", 0); err != nil {
				return nil, err
			}
		}
		return nil, a.waits()
	case measure:
		count, fits, err := s.measure(ctx, r, now)
		if err != nil {
			return nil, err
		}
		if fits {
			return []ledger.Count{count}, nil
		}
	}
	a.ask(r, s.Limit.Of(r.Total), now)
	if err := s.commit(ctx, &a, Open, countSoon); err != nil {
		return nil, err
	}
	return nil, a.waits()
}

// measure finds out whether the limit has room, and makes the mark that must be
// there before it is used. The counter is read before the marks: what it holds
// was then taken under marks that are read.
func (s *Service) measure(ctx context.Context, r Removal, now time.Time) (ledger.Count, bool, error) {
	name := takenCounter + r.Scope
	counted, err := s.Store.Counter(ctx, name)
	if err != nil {
		return ledger.Count{}, false, err
	}
	ref := ledger.Ref{Kind: KindWindow.Name, ID: idOf(r.Scope)}
	o, err := s.Store.Get(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		o = ledger.Object{Ref: ref, Name: r.Scope}
	} else if err != nil {
		return ledger.Count{}, false, err
	}
	var w window
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &w); err != nil {
			return ledger.Count{}, false, fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err)
		}
	}
	most := w.over(counted, now) + s.Limit.Of(r.Total)
	if counted+r.count() > most {
		return ledger.Count{}, false, nil
	}
	if w.due(now) {
		if o.Status, err = json.Marshal(w.marked(counted, now)); err != nil {
			return ledger.Count{}, false, err
		}
		put := ledger.Put{Object: o, Expect: o.Version, Op: "mark"}
		if _, err := s.Store.Commit(ctx, ledger.Set{Actor: "system", Cause: ledger.BySchedule(tooMuch), Puts: []ledger.Put{put}}); err != nil {
			return ledger.Count{}, false, err
		}
	}
	return ledger.Count{Name: name, Delta: r.count(), Max: most}, true, nil
}

// approval returns one of version 0 where there never was any.
func (s *Service) approval(ctx context.Context, id string) (Approval, error) {
	ref := ledger.Ref{Kind: KindApproval.Name, ID: id}
	o, err := s.Store.Get(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		return Approval{Object: ledger.Object{Ref: ref}}, nil
	}
	if err != nil {
		return Approval{}, err
	}
	return Decode(o)
}

func (s *Service) commit(ctx context.Context, a *Approval, op string, wake time.Duration) error {
	put, err := a.put(op)
	if err != nil {
		return err
	}
	set := ledger.Set{Actor: "system", Cause: ledger.BySchedule(tooMuch), Puts: []ledger.Put{put}}
	if who := access.From(ctx).Actor(); who != "" {
		set.Actor, set.Cause = who, ledger.CauseOf(ctx)
	}
	if op != "update" {
		set.Wakes = []ledger.Wake{{Ref: a.Ref, After: wake}}
	}
	done, err := s.Store.Commit(ctx, set)
	if err == nil {
		a.Object = done.Objects[0]
	}
	return err
}

// Allow is how much an operator approves.
type Allow struct {
	// Count is how many may go; 0: all that the rule, as it is now, takes, or as
	// many as wait now where the rule has no version: it may take others later.
	Count int64
	For   time.Duration // within this time; default an hour
}

// MaxFor bounds how long an approval can hold.
const MaxFor = 7 * 24 * time.Hour

// Approve lets removals go that wait. Faults: Denied (operators only), Invalid,
// NotFound, Conflict (reason "phase": nothing waits for it any more).
func (s *Service) Approve(ctx context.Context, id string, allow Allow) (ledger.Object, error) {
	if allow.For == 0 {
		allow.For = Window
	}
	if allow.Count < 0 || allow.For < time.Minute || allow.For > MaxFor {
		return ledger.Object{}, fault.New(fault.Invalid, "approve at least one removal, for a minute to seven days").Because("field")
	}
	return s.decide(ctx, id, func(a *Approval, used int64, now time.Time) error {
		count, how := allow.Count, "all that"
		if count == 0 && a.Spec.Version == 0 {
			if err := s.count(ctx, a); err != nil {
				return err
			}
			count = a.Status.Waiting
		}
		a.Phase, a.Spec.Until, a.Spec.Count, a.Spec.Last = Approved, now.Add(allow.For), count, -1
		if count > 0 {
			a.Spec.Last, how = used+count, fmt.Sprintf("%d of what", count)
		}
		a.Status.Message = a.approvedMessage(how)
		return nil
	})
}

// count finds out how many wait for an approval. Where nobody does, whoever asked
// has yet to write that down, and what was known before counts.
func (s *Service) count(ctx context.Context, a *Approval) error {
	if waiters, known := s.Waiters[a.Spec.Of]; known {
		n, err := waiters.CountAwaiting(ctx, a.ID)
		if err != nil {
			return err
		}
		if n > 0 {
			a.Status.Waiting = n
		}
	}
	a.Status.Waiting = max(a.Status.Waiting, 1)
	return nil
}

// Refuse keeps what waits until the rule changes. Faults as of Approve.
func (s *Service) Refuse(ctx context.Context, id string) (ledger.Object, error) {
	return s.decide(ctx, id, func(a *Approval, _ int64, _ time.Time) error {
		a.Phase, a.Spec.Until, a.Spec.Count, a.Spec.Last = Refused, time.Time{}, 0, 0
		a.Status.Message = a.refusedMessage()
		return nil
	})
}

func (s *Service) decide(ctx context.Context, id string, decision func(a *Approval, used int64, now time.Time) error) (ledger.Object, error) {
	who := access.From(ctx)
	if !who.Admin {
		return ledger.Object{}, fault.New(fault.Denied, "only an operator may decide about approvals")
	}
	var out ledger.Object
	err := again(func() error {
		used, err := s.Store.Counter(ctx, approvedCounter+id)
		if err != nil {
			return err
		}
		a, err := s.approval(ctx, id)
		if err != nil {
			return err
		}
		if a.Version == 0 {
			return fault.New(fault.NotFound, "there is no approval %.64q", id)
		}
		if a.Phase == Expired {
			return fault.New(fault.Conflict, "nothing waits for approval %s any more", id).Because("phase")
		}
		now := s.Now().UTC()
		a.Spec.By, a.Spec.At, a.Status.Told = who.Actor(), now, false
		if err := decision(&a, used, now); err != nil {
			return err
		}
		err = s.commit(ctx, &a, a.Phase, 0)
		out = a.Object
		return err
	})
	return out, err
}
