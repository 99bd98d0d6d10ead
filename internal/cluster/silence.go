package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// A cluster whose agent has fallen silent takes no new orders. The replica that
// the agent was connected to notices: nothing is written as long as all is well.
// If that replica goes down together with the agent, its heir does.

const (
	// grace is how long an agent may be away before its cluster counts as silent.
	grace = 30 * time.Second
	// pollGrace is the same for agents that hold no connection: they ask several
	// times a minute, but not always the same replica.
	pollGrace = 3 * time.Minute
	// silenceRetry is when an attempt to write down a silence is made again.
	silenceRetry = 5 * time.Second
)

// listen makes it the cluster's session and watches it: with one timer, which
// ends itself once the session is over. The lock is held.
func (s *Service) listen(id string, ss *session) *session {
	ss.seen = s.now()
	s.agents[id] = ss
	time.AfterFunc(ss.grace(), func() { s.look(id, ss) })
	return ss
}

func (ss *session) grace() time.Duration {
	if ss.Polls {
		return pollGrace
	}
	return grace
}

// Alive says that an agent's connection is still there.
func (s *Service) Alive(id, agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.agents[id]; known != nil && known.Agent == agent {
		known.alive = s.now()
	}
}

// look ends the watch over a session if there is a newer one, and tells the
// ledger if the agent has been silent for too long.
func (s *Service) look(id string, ss *session) {
	s.mu.Lock()
	known, again := s.agents[id], time.Duration(0)
	last := ss.seen
	if ss.alive.After(last) {
		last = ss.alive
	}
	silent := s.now().Sub(last)
	switch {
	case known != nil && known != ss:
		s.mu.Unlock()
		return
	case silent < ss.grace():
		again = ss.grace() - silent
	}
	s.mu.Unlock()
	if again == 0 {
		if err := s.silence(id); err != nil {
			again = silenceRetry
		}
	}
	if again > 0 {
		time.AfterFunc(again, func() { s.look(id, ss) })
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agents[id] == ss {
		delete(s.agents, id) // the next word of it makes a new one
	}
}

// silence writes down that the agent of a cluster is silent, unless it has
// connected elsewhere.
func (s *Service) silence(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ctx = ledger.WithCause(ctx, ledger.BySchedule("its agent fell silent"))
	_, err := s.edit(ctx, id, note{"silent", "system"}, func(o *ledger.Object, status *Status) bool {
		if !s.mine(status.Session) {
			return false
		}
		status.Session = ""
		if o.Phase == Ready {
			o.Phase = Waiting
		}
		if o.Phase == Waiting {
			status.Message = fmt.Sprintf("its agent has been silent since %s: look whether it runs and reaches this server; what runs there goes on",
				s.now().UTC().Add(-grace).Format("2006-01-02 15:04 UTC"))
		}
		return true
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Refused writes down why the agent of a cluster for which nobody speaks is not
// listened to, once until it changes: whoever wonders about the silence looks there.
func (s *Service) Refused(ctx context.Context, id, why string) error {
	_, err := s.edit(ctx, id, note{op: "refused"}, func(o *ledger.Object, status *Status) bool {
		if o.Phase != Waiting || status.Session != "" || status.Message == why {
			return false
		}
		status.Message = why
		return true
	})
	return err
}

// edit changes a cluster's status and phase, again if somebody wrote meanwhile.
// A change that says false is none.
func (s *Service) edit(ctx context.Context, id string, n note, change func(o *ledger.Object, status *Status) bool) (ledger.Object, error) {
	for range attempts {
		o, err := s.Get(ctx, id)
		if err != nil {
			return o, err
		}
		_, status, err := Decode(o)
		if err != nil || !change(&o, &status) {
			return o, err
		}
		o, err = s.write(ctx, o, status, n)
		if fault.Reason(err) != "version" {
			return o, err
		}
	}
	return ledger.Object{}, fault.New(fault.Unavailable, "cluster %q changes all the time; try again", id)
}

// note is what the log says of a write.
type note struct {
	op    string
	actor string // default: the caller, or the cluster's agent
}

// write commits a status, guarded by the version that it was made from.
func (s *Service) write(ctx context.Context, o ledger.Object, status Status, n note) (ledger.Object, error) {
	body, err := json.Marshal(status)
	if err != nil {
		return o, err
	}
	version := o.Version
	o.Status = body
	set := ledger.Set{
		Actor: cmp.Or(n.actor, access.From(ctx).Actor(), "agent:"+o.ID), Cause: ledger.CauseOf(ctx),
		Puts: []ledger.Put{{Object: o, Expect: version, Op: n.op}},
	}
	if o.Phase == Ready && status.Operation != "" {
		set.Wakes = []ledger.Wake{{Ref: o.Ref, Org: o.Org}} // its making has succeeded
	}
	r, err := s.store.Commit(ctx, set)
	if err != nil {
		return o, err
	}
	return r.Objects[0], nil
}
