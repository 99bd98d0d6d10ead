package cluster

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// A cluster belongs to one installation of an agent. That is written into the
// ledger once, where every replica sees it, and so is the session: which replica
// the agent is connected to, or whose heir it is connected to. Which process of the installation speaks, and when
// it last did, is kept in memory, so that heartbeats write nothing: it protects
// against mix-ups, not the ledger's truth, which is guarded by versions and
// generations.

// session is an agent process that speaks for a cluster.
type session struct {
	Caller
	number int64
	seen   time.Time // it said something
	alive  time.Time // its connection was there
	left   bool      // its connection has ended: another process need not wait

	said    *Report // its last report, nil before the first ...
	version int64   // ... and the cluster's version that this led to
}

// takeover is how long a silent agent keeps its place before another process
// may speak for the cluster.
const takeover = 30 * time.Second

// attempts at a write that others get in the way of.
const attempts = 10

// Caller is an agent process.
type Caller struct {
	Agent        string // random per process
	Installation string // kept over its restarts; empty: it has none to tell
	// Polls: it holds no connection, so only time can tell that it is gone.
	Polls bool
}

// session is how the ledger names an agent's presence at this replica.
func (s *Service) session(agent string) string { return s.replica + "/" + agent }

// Admit lets an agent speak for the cluster, before it is told anything, and
// refuses it while another one does: it would run everything a second time, and
// nobody would hear of it. An agent without an installation is admitted while
// the cluster belongs to none.
func (s *Service) Admit(ctx context.Context, id string, c Caller) error {
	connected := ""
	if !c.Polls {
		connected = s.session(c.Agent)
	}
	o, err := s.claim(ctx, id, c.Agent, c.Installation, connected)
	if err != nil {
		return err
	}
	spec, status, err := Decode(o)
	if err != nil {
		return err
	}
	if c.Polls && spec.Abandoned != "" { // what it is not told of it would remove
		return Returned(id, spec.Abandoned)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.taken(id, c.Agent, status.Installation); err != nil {
		return err
	}
	known, ok := s.agents[id]
	if !ok || known.Agent != c.Agent {
		known = s.listen(id, &session{number: -1})
	}
	known.Caller, known.seen, known.left = c, s.now(), false
	return nil
}

// Belongs refuses an installation that the cluster does not belong to (any
// more).
func (s *Service) Belongs(ctx context.Context, id, installation string) error {
	o, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	_, status, err := Decode(o)
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

// claim returns the cluster once it belongs to the installation, and knows the
// session if one is named. The first installation that comes has it: the write
// is guarded by the version, so that of two that come at once, to whichever
// replicas, one is refused.
func (s *Service) claim(ctx context.Context, id, agent, installation, connected string) (ledger.Object, error) {
	for range attempts {
		o, err := s.Get(ctx, id)
		if err != nil {
			return o, err
		}
		_, status, err := Decode(o)
		if err == nil {
			err = status.admits(id, installation)
		}
		if err != nil {
			return o, err
		}
		op := "connect"
		if status.Installation != installation {
			op = "bind"
		}
		if op == "connect" && (connected == "" || s.mine(status.Session) || s.lives.doubtful(id, guest{agent, status.Session})) {
			return o, nil
		}
		// It may belong to nobody because it was given up while its agent still runs.
		s.mu.Lock()
		err = s.taken(id, agent, status.Installation)
		s.mu.Unlock()
		if err != nil {
			return o, err
		}
		if status.Installation = installation; status.Message == neverJoined(id) {
			status.Message = ""
		}
		if connected != "" {
			status.Session = connected
		}
		o, err = s.write(ctx, o, status, note{op: op})
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
	return s.edit(ctx, id, note{op: "hand over"}, func(_ *ledger.Object, status *Status) bool {
		changed := status.Installation != installation
		status.Installation = installation
		return changed
	})
}

// Knows reports whether an agent process speaks for the cluster at this replica.
func (s *Service) Knows(id, agent string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.agents[id]
	return known != nil && known.Agent == agent && !known.left
}

// Heartbeat takes a report that says nothing but what the agent has said before,
// about a cluster that nobody has changed since: neither reads nor writes are
// needed. version is the newest that the caller knows of. False: it has to go
// through Report.
func (s *Service) Heartbeat(id string, r Report, version int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.agents[id]
	if known == nil || known.left || known.Agent != r.Agent || known.Installation != r.Installation || r.Number <= known.number ||
		known.said == nil || known.version != version || !known.said.repeats(&r) {
		return false
	}
	known.number, known.seen = r.Number, s.now()
	return true
}

// repeats reports whether two reports say the same.
func (r *Report) repeats(o *Report) bool {
	return r.Ready == o.Ready && r.Capacity == o.Capacity && r.Told.equal(o.Told) &&
		r.Offering == "" && o.Offering == "" // what is told of one offering says nothing of others
}

// remember keeps what an agent said, for the next one that says the same.
func (s *Service) remember(id string, r Report, version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.agents[id]; known != nil && known.Agent == r.Agent && known.number == r.Number {
		known.said, known.version = &r, version
	}
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
		if ok && known.Agent == r.Agent {
			r.Number = known.number + 1
		}
	}
	if !ok || known.Agent != r.Agent {
		known = s.listen(id, &session{Caller: Caller{Agent: r.Agent, Polls: r.Unnumbered}, number: -1})
	}
	if r.Number <= known.number {
		return fault.New(fault.Conflict, "report %d of cluster %q came after report %d", r.Number, id, known.number).Because("late")
	}
	known.Installation, known.number, known.seen, known.left = r.Installation, r.Number, s.now(), false
	return nil
}

// taken refuses an agent while another process speaks. One of an installation
// that the cluster no longer belongs to does not count.
func (s *Service) taken(id, agent, owner string) error {
	known, ok := s.agents[id]
	if ok && known.Agent != agent && !known.left && s.now().Sub(known.seen) < takeover && (owner == "" || known.Installation == owner) {
		return fault.New(fault.Conflict, "another agent speaks for cluster %q; stop one of the two", id).Because("agent")
	}
	return nil
}

// Leave says that an agent's connection has ended, so that a restarted one need
// not wait. Its numbers are remembered: what it sent before may still be on its
// way.
func (s *Service) Leave(id, agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.agents[id]; known != nil && known.Agent == agent {
		known.alive, known.left = s.now(), true
	}
}
