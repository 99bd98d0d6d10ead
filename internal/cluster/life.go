package cluster

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// A session names the replica that watches it. When that one is gone, another
// answers for all sessions that it had: this is written once, into the record of
// the dead one's life, and not into each of its clusters. Agents that come back
// to the heir write nothing. Those who do not come back at all are noticed by
// the heir.
//
// A replica that is alone writes nothing to show that it lives: nobody would
// read it. Beside others it moves a counter, which leaves no trace in the log.

// KindReplica is the kind of lives of replicas.
var KindReplica = ledger.Kind{Name: "replica"}

const (
	alive = "alive"
	ended = "ended"
	// unknown is the heir of this replica once it has ended: it will not hear of it.
	unknown = "?"

	// beatEvery is how often a replica shows others that it lives, and looks
	// whether they do.
	beatEvery = 5 * time.Second
	// beatGrace is how long another may show nothing before it counts as dead.
	beatGrace = 20 * time.Second
	// lifeRetry is when the ledger is asked again after it was away.
	lifeRetry = time.Second
)

// lives are those of all replicas, as this one knows them.
type lives struct {
	mu     sync.Mutex
	on     bool              // somebody follows them
	heirs  map[string]string // of those that have ended; empty: nobody's yet
	others map[string]*life  // that have not
	open   map[string]guest  // clusters with a session of one who may be dead, by id
	lost   *ledger.Object    // this one's life where another took it for ended; nil: none did
}

// guest is an agent that is connected here.
type guest struct{ agent, session string }

// life of another replica.
type life struct {
	object ledger.Object
	beat   int64
	moved  time.Time // when its counter did, as far as known
	proven bool      // it did since it is known
}

type lifeStatus struct {
	Heir string `json:"heir,omitempty"`
}

func beatOf(id string) string { return "replica/" + id }

// owner is the replica that answers for a session: the one that it names, or
// its heir, or the heir's.
func (v *lives) owner(session string) string {
	id, _, _ := strings.Cut(session, "/")
	v.mu.Lock()
	defer v.mu.Unlock()
	for range len(v.heirs) + 1 {
		heir, dead := v.heirs[id]
		if !dead || heir == "" {
			break
		}
		id = heir
	}
	return id
}

// mine reports whether this replica answers for a session.
func (s *Service) mine(session string) bool {
	return session != "" && s.lives.owner(session) == s.replica
}

// doubtful reports whether a session's replica may be dead, which is known
// before long: until then its clusters are left as they are.
func (v *lives) doubtful(id string, g guest) bool {
	if g.session == "" {
		return false
	}
	owner := v.owner(g.session)
	v.mu.Lock()
	defer v.mu.Unlock()
	other := v.others[owner] // one that has ended is among them until it has an heir
	if !v.on || other == nil || other.proven {
		return false
	}
	v.open[id] = g
	return true
}

// Live shows that this replica lives, and answers for those that do not any
// more, until ctx ends. It is one goroutine, the caller's.
func (s *Service) Live(ctx context.Context, feed *ledger.Feed) error {
	log, ok := s.store.(ledger.Log)
	if !ok {
		return nil
	}
	var after int64
	for !s.bear(ctx, log, &after) {
		if !rest(ctx, lifeRetry) {
			return nil
		}
	}
	defer s.die()
	news := make(chan []ledger.Change)
	go func() { // ends with ctx
		defer close(news)
		for ctx.Err() == nil {
			changes, err := feed.Next(ctx, after)
			if fault.Reason(err) == "truncated" { // it was away for days, and is long taken for dead
				if head, err := log.Head(ctx); err == nil {
					after = head.Seq
				}
			}
			if err != nil {
				rest(ctx, lifeRetry)
				continue
			}
			after = changes[len(changes)-1].Seq
			select {
			case news <- changes:
			case <-ctx.Done():
			}
		}
	}()
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case changes := <-news:
			if !s.hear(ctx, changes) {
				continue
			}
		case <-tick.C:
			if s.lives.alone() {
				continue
			}
			s.beat(ctx)
		}
		s.inherit(ctx)
		s.settle(ctx)
	}
}

// hear takes what the log says of lives, if it does.
func (s *Service) hear(ctx context.Context, changes []ledger.Change) (any bool) {
	for _, c := range changes {
		if c.Object.Kind != KindReplica.Name {
			continue
		}
		if any = true; s.lives.learn(c.Object, s.replica, s.now()) {
			s.beat(ctx) // a new one is to know at once that we live
		}
	}
	return any
}

func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// bear writes this replica's life down and reads those of the others.
func (s *Service) bear(ctx context.Context, log ledger.Log, after *int64) bool {
	head, err := log.Head(ctx)
	if err != nil {
		return false
	}
	*after = head.Seq
	_, err = s.store.Commit(ctx, ledger.Set{
		Actor: "system", Cause: ledger.BySchedule("start"), Counts: []ledger.Count{{Name: beatOf(s.replica), Delta: 1, Max: -1}},
		Puts: []ledger.Put{{Object: ledger.Object{Ref: ledger.Ref{Kind: KindReplica.Name, ID: s.replica}, Name: s.replica, Phase: alive}, Op: "start"}},
	})
	if err != nil {
		return false
	}
	s.lives.mu.Lock()
	s.lives.on, s.lives.heirs, s.lives.others, s.lives.open = true, map[string]string{}, map[string]*life{}, map[string]guest{}
	s.lives.mu.Unlock()
	for last := ""; ; {
		found, err := s.store.List(ctx, ledger.Query{Kind: KindReplica.Name, AfterID: last, Limit: followed})
		if err != nil {
			return false
		}
		for _, o := range found {
			s.lives.learn(o, s.replica, s.now())
			last = o.ID
		}
		if len(found) < followed {
			return true
		}
	}
}

// die writes down that this replica ends, for the others to take over at once.
func (s *Service) die() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	o, err := s.store.Get(ctx, ledger.Ref{Kind: KindReplica.Name, ID: s.replica})
	if err == nil && o.Phase == alive && s.end(ctx, o, "") == nil { // it is found out without that, too
		s.lives.mu.Lock()
		s.lives.heirs[s.replica] = unknown
		s.lives.mu.Unlock()
	}
}

func (s *Service) end(ctx context.Context, o ledger.Object, heir string) error {
	status, err := json.Marshal(lifeStatus{heir})
	if err != nil {
		return err
	}
	version := o.Version
	o.Phase, o.Status = ended, status
	_, err = s.store.Commit(ctx, ledger.Set{Actor: "system", Cause: ledger.BySchedule("a replica ended"), Puts: []ledger.Put{{Object: o, Expect: version, Op: "end"}}})
	return err
}

// learn takes a life as the ledger has it, and reports whether it is a new one,
// or this one's own which others take for ended.
func (v *lives) learn(o ledger.Object, self string, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if o.ID == self {
		if v.lost = nil; o.Phase == ended {
			v.lost = &o
		}
		return v.lost != nil
	}
	known := v.others[o.ID]
	if o.Phase == ended {
		var status lifeStatus
		_ = json.Unmarshal(o.Status, &status) // nobody's, then
		v.heirs[o.ID] = status.Heir
		if delete(v.others, o.ID); status.Heir == "" {
			v.others[o.ID] = &life{object: o} // somebody has to take it
		}
		return false
	}
	if known != nil && known.object.Phase == alive {
		return false
	}
	delete(v.heirs, o.ID) // one that was taken for ended says that it is not
	v.others[o.ID] = &life{object: o, beat: -1, moved: now}
	return true
}

func (v *lives) alone() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.others) == 0
}

// beat shows that this replica lives. Where it could not for long, and another
// answers for its sessions, it takes them back.
func (s *Service) beat(ctx context.Context) {
	set := ledger.Set{Actor: "system", Cause: ledger.BySchedule("beat"), Counts: []ledger.Count{{Name: beatOf(s.replica), Delta: 1, Max: -1}}}
	s.lives.mu.Lock()
	lost := s.lives.lost
	s.lives.mu.Unlock()
	if lost != nil {
		o := *lost
		o.Phase, o.Status = alive, nil
		set.Puts = []ledger.Put{{Object: o, Expect: lost.Version, Op: "start"}}
	}
	_, _ = s.store.Commit(ctx, set) // the next one does as well
}

// inherit looks who of the others lives, and answers for who does not.
func (s *Service) inherit(ctx context.Context) {
	v := &s.lives
	v.mu.Lock()
	others := make(map[string]*life, len(v.others))
	for id, other := range v.others {
		others[id] = other
	}
	v.mu.Unlock()
	for id, other := range others {
		n, err := s.store.Counter(ctx, beatOf(id))
		if err != nil {
			return
		}
		v.mu.Lock()
		if n != other.beat {
			other.proven = other.beat >= 0 && other.object.Phase == alive
			other.beat, other.moved = n, s.now()
		}
		dead := other.object.Phase == ended || s.now().Sub(other.moved) >= beatGrace
		v.mu.Unlock()
		if !dead || s.end(ctx, other.object, s.replica) != nil {
			continue // where another was faster, the log says so
		}
		v.mu.Lock()
		v.heirs[id] = s.replica
		delete(v.others, id)
		v.mu.Unlock()
		time.AfterFunc(grace, func() { s.missed(ctx) })
	}
}

// settle writes down the sessions of agents that are here and that another
// answers for after all.
func (s *Service) settle(ctx context.Context) {
	v := &s.lives
	v.mu.Lock()
	if len(v.open) == 0 {
		v.mu.Unlock()
		return
	}
	open := v.open
	v.open = map[string]guest{}
	v.mu.Unlock()
	for id, g := range open {
		if s.mine(g.session) || v.doubtful(id, g) || !s.Knows(id, g.agent) {
			continue
		}
		_, _ = s.edit(ctx, id, note{"connect", "agent:" + id}, func(_ *ledger.Object, status *Status) bool {
			if status.Session != g.session {
				return false
			}
			status.Session = s.session(g.agent)
			return true
		})
	}
}

// missed tells the ledger of the clusters whose agents have not come back since
// their replica ended.
func (s *Service) missed(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	all, err := s.view.look(ctx, s.store)
	if err == nil {
		for _, k := range all.sorted {
			if s.mine(k.Status.Session) && !s.hears(k.ID) {
				if err = s.silence(k.ID); err != nil {
					break
				}
			}
		}
	}
	if err != nil {
		time.AfterFunc(silenceRetry, func() { s.missed(ctx) })
	}
}

// hears reports whether an agent of the cluster is watched here.
func (s *Service) hears(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agents[id] != nil
}
