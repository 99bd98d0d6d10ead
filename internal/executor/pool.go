package executor

import (
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"

	"github.com/droverhq/drover/internal/fault"
)

// pooled is how many connections are kept open. Files of connections hold a few;
// a secret that is renewed makes a new one, and the old one goes.
const pooled = 64

// Pool keeps what was opened for connections, so that all calls through the same
// one share a client, its session and its policy of resilience. It is safe for
// concurrent use, and has no goroutines.
type Pool[C any] struct {
	open func(Connection) (C, error)

	mu    sync.Mutex
	known map[[sha256.Size]byte]*list.Element
	used  list.List // the one that was used last is in front
}

type opened[C any] struct {
	key [sha256.Size]byte
	c   C
}

// NewPool makes a pool. To open must not call anybody: it is done under a lock.
func NewPool[C any](open func(Connection) (C, error)) *Pool[C] {
	return &Pool[C]{open: open, known: map[[sha256.Size]byte]*list.Element{}}
}

// Get returns what stands for a connection, and opens it if there is none.
func (p *Pool[C]) Get(c Connection) (C, error) {
	var none C
	data, err := json.Marshal(c) // keys are sorted
	if err != nil {
		return none, err
	}
	key := sha256.Sum256(data)
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := p.known[key]; ok {
		p.used.MoveToFront(e)
		return e.Value.(opened[C]).c, nil
	}
	client, err := p.open(c)
	if err != nil {
		return none, err
	}
	p.known[key] = p.used.PushFront(opened[C]{key, client})
	if p.used.Len() > pooled {
		last := p.used.Back()
		delete(p.known, p.used.Remove(last).(opened[C]).key)
	}
	return client, nil
}

// Check refuses options that an executor does not know: a misspelt one would go
// unheard.
func (c Connection) Check(options ...string) error {
	for name := range c {
		if !slices.Contains(options, name) {
			slices.Sort(options)
			return fault.New(fault.Invalid, "the connection has an option %q that nobody knows; there are %q", name, options)
		}
	}
	return nil
}
