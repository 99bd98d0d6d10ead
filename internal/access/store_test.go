package access_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// store is a ledger for signing keys, shared by the replicas of a test.
type store struct {
	mu      sync.Mutex
	objects map[ledger.Ref]ledger.Object
	order   []ledger.Ref
	secrets map[string][]byte
	lists   int
	away    error
	before  func() // runs once before the next commit, outside of the lock
}

func newStore() *store {
	return &store{objects: map[ledger.Ref]ledger.Object{}, secrets: map[string][]byte{}}
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
	if s.away != nil {
		return ledger.Result{}, s.away
	}
	for _, p := range set.Puts {
		if s.objects[p.Object.Ref].Version != p.Expect {
			return ledger.Result{}, fault.New(fault.Conflict, "it exists").Because("exists")
		}
	}
	for _, p := range set.Puts {
		p.Object.Version = p.Expect + 1
		s.objects[p.Object.Ref] = p.Object
		s.order = append(s.order, p.Object.Ref)
	}
	return ledger.Result{}, nil
}

func (s *store) Get(_ context.Context, ref ledger.Ref) (ledger.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[ref]
	if !ok {
		return o, fault.New(fault.NotFound, "no %s", ref)
	}
	return o, nil
}

func (s *store) List(_ context.Context, q ledger.Query) ([]ledger.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists++; s.away != nil {
		return nil, s.away
	}
	var out []ledger.Object
	for _, ref := range s.order {
		if ref.Kind == q.Kind {
			out = append(out, s.objects[ref])
		}
	}
	return out, nil
}

func (s *store) Total(context.Context, ledger.Query) (int64, error) { return 0, nil }
func (s *store) Counter(context.Context, string) (int64, error)     { return 0, nil }
func (s *store) PutBlob(context.Context, []byte) (string, error)    { return "", nil }
func (s *store) Blob(context.Context, string) ([]byte, error)       { return nil, nil }
func (s *store) Lookup(context.Context, ledger.Name) (ledger.Ref, error) {
	return ledger.Ref{}, fault.New(fault.NotFound, "free")
}

func (s *store) Seal(_ context.Context, plain []byte) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := "secret:" + rand.Text()
	s.secrets[ref] = append([]byte(nil), plain...)
	return ref, nil
}

func (s *store) Unseal(_ context.Context, ref string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	plain, ok := s.secrets[ref]
	if !ok {
		return nil, fault.New(fault.NotFound, "no such secret")
	}
	return plain, nil
}

func (s *store) Shred(_ context.Context, ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.secrets, ref)
	return nil
}

func (s *store) keys() (objects, secrets int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects), len(s.secrets)
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
