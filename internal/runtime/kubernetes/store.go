package kubernetes

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"github.com/droverhq/drover/internal/fault"
)

// Store keeps what the agent itself must remember in Secrets of the agent's
// namespace, so that whichever replica is at work finds it.
type Store struct {
	keep keeper
	mu   sync.Mutex
	made bool // the namespace was looked for
	r    *Runtime
}

// Store of the agent that runs on this cluster.
func (r *Runtime) Store() *Store { return &Store{keep: r.keep, r: r} }

func storeName(name string) string { return named("drover-agent-", name) }

// Load returns what was saved under a name; fs.ErrNotExist: nothing was.
func (s *Store) Load(name string) ([]byte, error) {
	k, there, err := s.keep.get(context.Background(), storeName(name))
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, fmt.Errorf("%s was never saved: %w", name, fs.ErrNotExist)
	}
	var all []byte
	for _, p := range k.parts {
		all = append(all, p...)
	}
	return all, nil
}

// Save replaces what a name holds, as a whole or not at all.
func (s *Store) Save(name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx := context.Background()
	if !s.made {
		if err := s.r.ensureNamespace(ctx); err != nil {
			return err
		}
		s.made = true
	}
	parts := [][]byte{}
	for rest := data; len(rest) > 0; {
		n := min(len(rest), partBytes)
		parts = append(parts, rest[:n])
		rest = rest[n:]
	}
	for attempt := 1; ; attempt++ {
		was, _, err := s.keep.get(ctx, storeName(name))
		if err != nil {
			return err
		}
		_, err = s.keep.put(ctx, "store", storeName(name), parts, was)
		if fault.Reason(err) != "written-meanwhile" || attempt == 3 {
			return err
		}
	}
}

// Delete removes a name; one that is not there is no error.
func (s *Store) Delete(name string) error {
	was, there, err := s.keep.get(context.Background(), storeName(name))
	if err != nil || !there {
		return err
	}
	return s.keep.drop(context.Background(), storeName(name), was)
}
