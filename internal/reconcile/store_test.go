package reconcile_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// store keeps a ledger in memory: the contract's own decision, and the claims
// written down as simply as can be.
type store struct {
	mu      sync.Mutex
	state   ledger.State
	lanes   ledger.Lanes
	token   int64
	hints   map[chan struct{}]bool
	commits int // that wrote something
	claims  []ledger.ClaimRequest
	skew    time.Duration // of the store's clock against everybody else's
}

var kinds = map[string]ledger.Kind{"thing": {Name: "thing"}}

func newStore() *store {
	return &store{hints: map[chan struct{}]bool{}, state: ledger.State{
		Objects: map[ledger.Ref]ledger.Object{}, Names: map[ledger.Name]ledger.Ref{},
		Counters: map[string]int64{}, Work: map[ledger.Ref]ledger.WorkRow{},
	}}
}

func (s *store) now() time.Time { return time.Now().Add(s.skew) }

func (s *store) Commit(_ context.Context, set ledger.Set) (ledger.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Now = s.now()
	s.state.Tokens = nil
	for range ledger.Takes([]ledger.Set{set}) {
		s.token++
		s.state.Tokens = append(s.state.Tokens, s.token)
	}
	d := ledger.Decide(kinds, &s.lanes, s.state, []ledger.Set{set})
	for ref, w := range d.Objects {
		s.state.Objects[ref] = w.Object
	}
	maps.Copy(s.state.Work, d.Work)
	for ref := range d.Done {
		delete(s.state.Work, ref)
	}
	if !d.Empty() {
		s.commits++
	}
	due := func(w ledger.WorkRow) bool { return !w.Due.After(s.state.Now) }
	if len(d.Changes) > 0 || slices.ContainsFunc(slices.Collect(maps.Values(d.Work)), due) {
		s.hint() // not for work that is due later: the contract does not promise it
	}
	return d.Outcomes[0].Result, d.Outcomes[0].Err
}

func (s *store) Claim(_ context.Context, q ledger.ClaimRequest) (ledger.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = append(s.claims, q)
	now := s.now()
	var due []ledger.WorkRow
	next := time.Duration(-1)
	for _, w := range s.state.Work {
		at := w.Due
		if w.Token != 0 && w.Until.After(at) {
			at = w.Until
		}
		switch wait := at.Sub(now); {
		case !slices.Contains(q.Kinds, w.Kind):
		case wait <= 0:
			due = append(due, w)
		case next < 0 || wait < next:
			next = wait
		}
	}
	slices.SortFunc(due, func(a, b ledger.WorkRow) int { return a.Turn.Compare(b.Turn) })
	if len(due) > q.Limit {
		due, next = due[:q.Limit], 0
	}
	var work []ledger.Work
	for _, w := range due {
		s.token++
		w.Token, w.Until = s.token, now.Add(q.Lease)
		s.state.Work[w.Ref] = w
		work = append(work, ledger.Work{
			Lease: ledger.Lease{Ref: w.Ref, Token: w.Token}, Org: w.Org, Dirty: w.Dirty,
			Attempts: w.Attempts, Cause: w.Cause, Trace: w.Trace, Due: w.Due,
		})
	}
	return ledger.Claimed{Work: work, Next: next}, nil
}

func (s *store) Renew(_ context.Context, leases []ledger.Lease, d time.Duration) (lost []ledger.Lease, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range leases {
		w, ok := s.state.Work[l.Ref]
		if !ok || w.Token != l.Token {
			lost = append(lost, l)
			continue
		}
		w.Until = s.now().Add(d)
		s.state.Work[l.Ref] = w
	}
	return lost, nil
}

func (s *store) Release(_ context.Context, leases []ledger.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range leases {
		if w, ok := s.state.Work[l.Ref]; ok && w.Token == l.Token {
			w.Token, w.Until, w.Due = 0, time.Time{}, s.now()
			s.state.Work[l.Ref] = w
		}
	}
	s.hint()
	return nil
}

func (s *store) Hints(ctx context.Context) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	s.hints[c] = true
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.hints, c)
		close(c)
	})
	return c
}

func (s *store) hint() {
	for c := range s.hints {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (s *store) Get(_ context.Context, ref ledger.Ref) (ledger.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.state.Objects[ref]
	if !ok {
		return o, fault.New(fault.NotFound, "no %s", ref)
	}
	return o, nil
}

// wake leaves work for things, as a request would.
func (s *store) wake(ids ...string) {
	set := ledger.Set{Actor: "alice", Cause: "request:1"}
	for _, id := range ids {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: thing(id), Org: "acme"})
	}
	if _, err := s.Commit(context.Background(), set); err != nil {
		panic(err)
	}
}

// steal gives an object's lease to another replica.
func (s *store) steal(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.state.Work[thing(id)]
	s.token++
	w.Token, w.Until = s.token, s.now().Add(time.Hour)
	s.state.Work[w.Ref] = w
}

func (s *store) object(id string) ledger.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Objects[thing(id)]
}

func (s *store) row(id string) (ledger.WorkRow, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.state.Work[thing(id)]
	return w, ok
}

func (s *store) count() (commits, claims int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commits, len(s.claims)
}

func thing(id string) ledger.Ref { return ledger.Ref{Kind: "thing", ID: id} }

// put is a write of the object's next phase, from the version that was read.
func put(o ledger.Object, id, phase string) ledger.Set {
	expect := o.Version
	o.Ref, o.Phase = thing(id), phase
	return ledger.Set{Puts: []ledger.Put{{Object: o, Expect: expect, Op: phase}}}
}

// faulty is one replica's way to the store. before can fail a call that then
// has no effect, after one that had.
type faulty struct {
	reconcile.Ledger
	before, after func(op string) error
}

var errAway = fault.New(fault.Unavailable, "the store is away")

func (f *faulty) fail(when func(string) error, op string) error {
	if when == nil {
		return nil
	}
	return when(op)
}

func (f *faulty) Commit(ctx context.Context, set ledger.Set) (r ledger.Result, err error) {
	if err = f.fail(f.before, "commit"); err != nil {
		return r, err
	}
	if r, err = f.Ledger.Commit(ctx, set); err != nil {
		return r, err
	}
	return r, f.fail(f.after, "commit")
}

func (f *faulty) Claim(ctx context.Context, q ledger.ClaimRequest) (c ledger.Claimed, err error) {
	if err = f.fail(f.before, "claim"); err != nil {
		return c, err
	}
	if c, err = f.Ledger.Claim(ctx, q); err != nil {
		return c, err
	}
	return c, f.fail(f.after, "claim")
}

func (f *faulty) Renew(ctx context.Context, leases []ledger.Lease, d time.Duration) (lost []ledger.Lease, err error) {
	if err = f.fail(f.before, "renew"); err != nil {
		return nil, err
	}
	if lost, err = f.Ledger.Renew(ctx, leases, d); err != nil {
		return nil, err
	}
	return lost, f.fail(f.after, "renew")
}

func (f *faulty) Release(ctx context.Context, leases []ledger.Lease) error {
	if err := f.fail(f.before, "release"); err != nil {
		return err
	}
	return f.Ledger.Release(ctx, leases)
}
