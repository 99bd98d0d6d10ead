package offering_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// store is a ledger in memory that decides as the real ones do.
type store struct {
	mu      sync.Mutex
	state   ledger.State
	lanes   ledger.Lanes
	log     []ledger.Change
	fail    error              // the next commits fail with this
	before  func()             // runs once before the next commit
	commits chan ledger.Object // every object that a commit has changed
	hints   map[chan struct{}]bool
}

func newStore() *store {
	return &store{
		state:   ledger.State{Objects: map[ledger.Ref]ledger.Object{}, Names: map[ledger.Name]ledger.Ref{}, Counters: map[string]int64{}, Work: map[ledger.Ref]ledger.WorkRow{}},
		commits: make(chan ledger.Object, 1000), hints: map[chan struct{}]bool{},
	}
}

func (s *store) Commit(_ context.Context, set ledger.Set) (ledger.Result, error) {
	s.mu.Lock()
	before := s.before
	s.before = nil
	s.mu.Unlock()
	if before != nil {
		before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return ledger.Result{}, s.fail
	}
	s.state.Now = time.Unix(1_800_000_000+int64(len(s.log)), 0)
	d := ledger.Decide(map[string]ledger.Kind{offering.Kind.Name: offering.Kind}, &s.lanes, s.state, []ledger.Set{set})
	if err := d.Outcomes[0].Err; err != nil {
		return ledger.Result{}, err
	}
	for ref, w := range d.Objects {
		s.state.Objects[ref] = w.Object
	}
	for n, ref := range d.Claims {
		s.state.Names[n] = ref
	}
	for n := range d.Frees {
		delete(s.state.Names, n)
	}
	for _, c := range d.Changes {
		c.Seq = int64(len(s.log)) + 1
		s.log = append(s.log, c)
		s.commits <- c.Object
	}
	for hint := range s.hints {
		select {
		case hint <- struct{}{}:
		default:
		}
	}
	return d.Outcomes[0].Result, nil
}

func (s *store) Get(_ context.Context, ref ledger.Ref) (ledger.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.state.Objects[ref]
	if !ok {
		return o, fault.New(fault.NotFound, "%s does not exist", ref)
	}
	return o, nil
}

func (s *store) List(_ context.Context, q ledger.Query) ([]ledger.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []ledger.Object
	for ref, o := range s.state.Objects {
		if ref.Kind == q.Kind && ref.ID > q.AfterID && (q.Deleted || o.Deleted.IsZero()) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b ledger.Object) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out[:min(len(out), q.Limit)], nil
}

func (s *store) Head(context.Context) (ledger.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ledger.Head{Seq: int64(len(s.log))}, nil
}

func (s *store) Changes(_ context.Context, q ledger.ChangeQuery) ([]ledger.Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log[min(q.After, int64(len(s.log))):]), nil
}

func (s *store) At(context.Context, ledger.Ref, ledger.Moment) (ledger.Change, error) {
	return ledger.Change{}, fault.New(fault.NotFound, "this store keeps no past")
}

func (s *store) Hints(context.Context) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	hint := make(chan struct{}, 1)
	s.hints[hint] = true
	return hint
}

// users counts instances.
type users map[string]int64

func (u users) Live(_ context.Context, name string) (int64, error) { return u[name], nil }
