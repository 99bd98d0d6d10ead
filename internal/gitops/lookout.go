package gitops

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/source"
)

// Lister is a Prober that hears of all branches and tags at once.
type Lister interface {
	// Refs asks a repository, and returns what tells the commit of a revision, with
	// the faults of Probe.
	Refs(ctx context.Context, at source.Location, with source.Credential) (func(revision string) (string, error), error)
}

// lookout asks repositories for many deployments: who comes while one is being asked
// shares the next question with all others who do, so that a push that wakes a
// hundred deployments, and a minute in which as many look by themselves, cost one or
// two. Losing it costs another look. It starts a goroutine for each repository that
// is being asked, which ends when nobody waits.
type lookout struct {
	mu sync.Mutex
	by map[string]*listing
}

type listing struct {
	at      time.Time // when the last question was asked
	heads   map[string]head
	asking  bool
	waiting []waiter
}

type head struct {
	commit string
	err    error
}

type waiter struct {
	revision string
	done     chan head // has room for the one answer
}

const (
	maxListings = 20_000
	maxHeads    = 200 // revisions of one repository that are remembered
	listTimeout = 30 * time.Second
	troubled    = 5 * time.Second // for which one answer that is trouble is enough
)

// lookKey is a repository with what it is opened by: what one credential is told is not
// for whoever has another.
func lookKey(repository string, c *Repository) string {
	parts := []string{repository}
	if c != nil && c.Status.Good != nil {
		g := c.Status.Good
		parts = append(parts, c.ID, g.Username, g.Password, g.SSHKey, g.KnownHosts)
	}
	return strings.Join(parts, "\x00")
}

// head is the commit of a revision as it was at a time or later.
func (l *lookout) head(ctx context.Context, key, revision string, since time.Time, now func() time.Time, ask func(context.Context) (func(string) (string, error), error)) (string, error) {
	l.mu.Lock()
	if l.by == nil || len(l.by) >= maxListings {
		l.by = map[string]*listing{}
	}
	of := l.by[key]
	if of == nil {
		of = &listing{}
		l.by[key] = of
	}
	found, ok := of.heads[revision]
	if ok && !of.at.Before(since) && (found.err == nil || now().Sub(of.at) < troubled) {
		l.mu.Unlock()
		return found.commit, found.err
	}
	me := waiter{revision, make(chan head, 1)}
	if of.waiting = append(of.waiting, me); !of.asking {
		of.asking = true
		go l.ask(of, now, ask)
	}
	l.mu.Unlock()
	select {
	case found := <-me.done:
		return found.commit, found.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// ask answers all who wait, until nobody does.
func (l *lookout) ask(of *listing, now func() time.Time, ask func(context.Context) (func(string) (string, error), error)) {
	for {
		l.mu.Lock()
		batch, before := of.waiting, of.heads
		of.waiting = nil
		if len(batch) == 0 {
			of.asking = false
			l.mu.Unlock()
			return
		}
		began := now()
		l.mu.Unlock()
		ctx, stop := context.WithTimeout(context.Background(), listTimeout)
		tell, err := ask(ctx)
		heads := map[string]head{}
		hear := func(revision string) {
			if _, ok := heads[revision]; ok || len(heads) >= maxHeads {
				return
			}
			found := head{err: err}
			if err == nil {
				found.commit, found.err = tell(revision)
			}
			heads[revision] = found
		}
		for _, w := range batch {
			hear(w.revision)
		}
		for revision := range before {
			hear(revision)
		}
		stop()
		l.mu.Lock()
		of.at, of.heads = began, heads
		l.mu.Unlock()
		for _, w := range batch {
			found, ok := heads[w.revision]
			if !ok { // more than are remembered
				if found.err = err; err == nil {
					found.commit, found.err = tell(w.revision)
				}
			}
			w.done <- found
		}
	}
}
