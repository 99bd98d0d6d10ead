package gitops

import (
	"context"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/queue"
	"github.com/droverhq/drover/internal/source"
)

// Historian is a Source that reads commits without their files.
type Historian interface {
	Commit(ctx context.Context, at source.Location, with source.Credential, limits source.Limits) (source.Tree, error)
}

// commits is what this process knows of commits: who made them, and their first
// lines. Losing it costs another look; whatever cannot be had is done without. A few
// are asked for at a time, and workspaces take turns.
type commits struct {
	mu     sync.Mutex
	by     map[string]commit
	asked  map[string]*question // that wait or are being asked
	line   *queue.Fair[string]
	asking int // goroutines
}

type commit struct {
	author, message string
	failed          time.Time // when it could not be had; zero: it could
}

// question is a commit that somebody wants to know of.
type question struct {
	workspace  string
	at         source.Location
	credential *Repository
	wakes      []ledger.Wake
}

const (
	maxCommits   = 20_000
	maxAsking    = 8     // commits that are being asked for, each by a goroutine
	maxAsked     = 2_000 // that wait; others are asked for by the next run
	askBytes     = 4 << 20
	askTimeout   = 20 * time.Second
	askAgain     = time.Hour // after it could not be had
	annotateLast = 3         // of the history
)

func (c *commits) get(key string, now time.Time) (commit, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.by[key]
	return found, ok && (found.failed.IsZero() || now.Sub(found.failed) < askAgain)
}

func (c *commits) put(key string, found commit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil || len(c.by) >= maxCommits {
		c.by = map[string]commit{}
	}
	c.by[key] = found
}

// want puts a question into the line, and reports whether it needs one more to ask.
func (c *commits) want(key string, q question) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting, asked := c.asked[key]; asked {
		waiting.wakes = append(waiting.wakes, q.wakes...)
		return false
	}
	if len(c.asked) >= maxAsked {
		return false
	}
	if c.asked == nil {
		c.asked = map[string]*question{}
		c.line = queue.NewFair(func(key string) string { return c.asked[key].workspace }, nil)
	}
	c.asked[key] = &q
	c.line.Push(key)
	if c.asking >= maxAsking {
		return false
	}
	c.asking++
	return true
}

// next takes a question out of the line; false: there is none, and one less asks.
func (c *commits) next() (string, question, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line.Len() == 0 {
		c.asking--
		return "", question{}, false
	}
	key := c.line.Pop()
	return key, *c.asked[key], true
}

// done ends a question, and returns who waits for it.
func (c *commits) done(key string, found commit) []ledger.Wake {
	c.put(key, found)
	c.mu.Lock()
	defer c.mu.Unlock()
	wakes := c.asked[key].wakes
	delete(c.asked, key)
	return wakes
}

func commitKey(d Deployment, revision string) string {
	return d.workspace() + " " + NormaliseRepository(d.Spec.Repository) + "@" + revision
}

// annotate adds what Git says of the last revisions. What is not known yet is asked
// for beside the run, which waits for nobody; the deployment is woken when it is.
func (s *Service) annotate(d *Deployment, credential *Repository) {
	for i := max(0, len(d.Status.History)-annotateLast); i < len(d.Status.History); i++ {
		r := &d.Status.History[i]
		if r.Author != "" || r.Message != "" || !fullHash.MatchString(r.Revision) {
			continue
		}
		key := commitKey(*d, r.Revision)
		if found, ok := s.commits.get(key, s.Now()); ok {
			r.Author, r.Message = found.author, found.message
			continue
		}
		if s.Source == nil {
			continue
		}
		at := source.Location{Repository: strings.TrimRight(d.Spec.Repository, "/"), Revision: r.Revision, Path: path.Clean(d.Spec.Path)}
		if at.Path == "." {
			at.Path = ""
		}
		if s.commits.want(key, question{d.workspace(), at, credential, []ledger.Wake{{Ref: d.Ref, Org: d.Org}}}) {
			go s.askAll() // at most maxAsking; each ends when there is nothing to ask
		}
	}
}

func (s *Service) askAll() {
	for {
		key, q, more := s.commits.next()
		if !more {
			return
		}
		s.ask(key, q)
	}
}

// ask reads a commit, and wakes who waits for it.
func (s *Service) ask(key string, q question) {
	ctx, stop := context.WithTimeout(context.Background(), askTimeout)
	defer stop()
	found := commit{failed: s.Now()}
	with, err := s.credential(ctx, q.credential)
	if err == nil {
		read := s.Source.Read
		if h, ok := s.Source.(Historian); ok {
			read = h.Commit
		}
		var tree source.Tree
		if tree, err = read(ctx, q.at, with, source.Limits{Bytes: askBytes, Timeout: askTimeout}); err == nil {
			found = commit{author: cut(tree.Author, maxMessage), message: cut(tree.Message, maxMessage)}
		}
	}
	wakes := s.commits.done(key, found)
	if err != nil {
		return
	}
	late, end := context.WithTimeout(context.Background(), askTimeout)
	defer end()
	_, _ = s.Store.Commit(late, ledger.Set{Actor: "system", Cause: ledger.BySchedule("history"), Wakes: wakes}) // the next run finds it, too
}
