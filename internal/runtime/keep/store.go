package keep

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
	d    *Desk
	was  map[string]kept // what was last read or written, without its content: another replica may have since
}

// Store of the agent that runs on this cluster.
func (d *Desk) Store() *Store { return &Store{keep: d.keep, d: d, was: map[string]kept{}} }

func storeName(name string) string { return Named("drover-agent-", name) }

// Load returns what was saved under a name; fs.ErrNotExist: nothing was.
func (s *Store) Load(name string) ([]byte, error) {
	k, there, err := s.keep.get(context.Background(), storeName(name))
	if err != nil {
		return nil, err
	}
	// Whoever saves it need not ask again, also where there is none.
	s.mu.Lock()
	s.was[name] = kept{names: k.names, version: k.version}
	s.mu.Unlock()
	if !there {
		return nil, fmt.Errorf("%s was never saved: %w", name, fs.ErrNotExist)
	}
	if k.damaged {
		return nil, fault.New(fault.Internal, "what was kept of %s is damaged: somebody has changed or deleted a part of it", name).Because("damaged")
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
		if err := s.d.ensureNamespace(ctx); err != nil {
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
	was, known := s.was[name]
	delete(s.was, name)
	for attempt := 1; ; attempt++ {
		var err error
		if !known {
			if was, _, err = s.keep.get(ctx, storeName(name)); err != nil {
				return err
			}
		}
		now, err := s.keep.put(ctx, "store", storeName(name), parts, was)
		if err == nil {
			s.was[name] = kept{names: now.names, version: now.version}
		}
		if known = false; fault.Reason(err) != "written-meanwhile" || attempt == 4 {
			return err
		}
	}
}

// Delete removes a name; one that is not there is no error.
func (s *Store) Delete(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.was, name)
	was, there, err := s.keep.get(context.Background(), storeName(name))
	if err != nil || !there {
		return err
	}
	return s.keep.drop(context.Background(), storeName(name), was)
}
