package cluster

import (
	"context"
	"encoding/json"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// A cluster belongs to one installation of an agent. That is written into the
// ledger once, where every replica sees it. Which process of the installation
// speaks is kept in memory, so that heartbeats write nothing: it protects
// against mix-ups, not the ledger's truth, which is guarded by versions and
// generations.

// session is an agent process that speaks for a cluster.
type session struct {
	agent        string
	installation string
	number       int64
	seen         time.Time
}

// takeover is how long a silent agent keeps its place before another process
// may speak for the cluster.
const takeover = 30 * time.Second

// attempts at a write that others get in the way of.
const attempts = 10

// Admit lets an agent speak for the cluster, before it is told anything, and
// refuses it while another one does: it would run everything a second time, and
// nobody would hear of it. An agent without an installation is admitted while
// the cluster belongs to none.
func (s *Service) Admit(ctx context.Context, id, agent, installation string) error {
	o, err := s.claim(ctx, id, agent, installation)
	if err != nil {
		return err
	}
	_, status, err := decode(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.taken(id, agent, status.Installation); err != nil {
		return err
	}
	known, ok := s.agents[id]
	if !ok || known.agent != agent {
		known = session{agent: agent, number: -1}
	}
	known.installation, known.seen = installation, s.now()
	s.agents[id] = known
	return nil
}

// Belongs refuses an installation that the cluster does not belong to (any
// more).
func (s *Service) Belongs(ctx context.Context, id, installation string) error {
	o, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	_, status, err := decode(o)
	if err != nil {
		return err
	}
	return status.admits(id, installation)
}

func (s Status) admits(id, installation string) error {
	if s.Installation == "" || s.Installation == installation {
		return nil
	}
	return fault.New(fault.Conflict, "cluster %s belongs to another agent installation; stop that one and hand the cluster over with `drover update cluster %s --set installation=%s`",
		id, id, installation).Because("agent")
}

// claim returns the cluster once it belongs to the installation. The first one
// that comes has it: the write is guarded by the version, so that of two that
// come at once, to whichever replicas, one is refused.
func (s *Service) claim(ctx context.Context, id, agent, installation string) (ledger.Object, error) {
	for range attempts {
		o, err := s.Get(ctx, id)
		if err != nil {
			return o, err
		}
		_, status, err := decode(o)
		if err == nil {
			err = status.admits(id, installation)
		}
		if err != nil || status.Installation == installation {
			return o, err
		}
		// It belongs to nobody, which may be because it was given up while its
		// agent still runs.
		s.mu.Lock()
		err = s.taken(id, agent, "")
		s.mu.Unlock()
		if err != nil {
			return o, err
		}
		status.Installation = installation
		o, err = s.write(ctx, o, status, ledger.Put{Op: "bind"})
		if fault.Reason(err) != "version" {
			return o, err
		}
	}
	return ledger.Object{}, fault.New(fault.Unavailable, "cluster %q changes all the time; try again", id)
}

// HandOver gives the cluster to an installation, or to the next one that
// connects if none is named. It stops nobody: the one that had it keeps running
// what it runs, but is no longer told anything nor listened to.
func (s *Service) HandOver(ctx context.Context, id, installation string) (ledger.Object, error) {
	for range attempts {
		o, err := s.Get(ctx, id)
		if err != nil {
			return o, err
		}
		_, status, err := decode(o)
		if err != nil || status.Installation == installation {
			return o, err
		}
		status.Installation = installation
		o, err = s.write(ctx, o, status, ledger.Put{Op: "hand over"})
		if fault.Reason(err) != "version" {
			return o, err
		}
	}
	return ledger.Object{}, fault.New(fault.Unavailable, "cluster %q changes all the time; try again", id)
}

// write commits a status, guarded by the version that it was made from.
func (s *Service) write(ctx context.Context, o ledger.Object, status Status, put ledger.Put) (ledger.Object, error) {
	body, err := json.Marshal(status)
	if err != nil {
		return o, err
	}
	actor := access.From(ctx).Actor()
	if actor == "" {
		actor = "agent:" + o.ID
	}
	put.Expect, o.Status = o.Version, body
	put.Object = o
	r, err := s.store.Commit(ctx, ledger.Set{Actor: actor, Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}})
	if err != nil {
		return o, err
	}
	return r.Objects[0], nil
}

// enter takes the number of a report.
func (s *Service) enter(id, owner string, r Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.agents[id]
	if err := s.taken(id, r.Agent, owner); err != nil {
		return err
	}
	if r.Unnumbered {
		// Counted here, under the lock: a number drawn earlier could be overtaken.
		r.Number = 0
		if ok && known.agent == r.Agent {
			r.Number = known.number + 1
		}
	}
	if ok && known.agent == r.Agent && r.Number <= known.number {
		return fault.New(fault.Conflict, "report %d of cluster %q came after report %d", r.Number, id, known.number).Because("late")
	}
	s.agents[id] = session{agent: r.Agent, installation: r.Installation, number: r.Number, seen: s.now()}
	return nil
}

// taken refuses an agent while another process speaks. One of an installation
// that the cluster no longer belongs to does not count.
func (s *Service) taken(id, agent, owner string) error {
	known, ok := s.agents[id]
	if ok && known.agent != agent && s.now().Sub(known.seen) < takeover && (owner == "" || known.installation == owner) {
		return fault.New(fault.Conflict, "another agent speaks for cluster %q; stop one of the two", id).Because("agent")
	}
	return nil
}

// Leave ends an agent's session, so that a restarted one need not wait.
func (s *Service) Leave(id, agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agents[id].agent == agent {
		delete(s.agents, id)
	}
}
