package environment

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/template"
)

const (
	// maxChecks is how many endpoints an environment has room for.
	maxChecks = 500
	// probesAtOnce bounds the probes of one environment, probing those of one server
	// that are probed at a time: endpoints that hang must not stop everything else.
	probesAtOnce = 16
	probing      = 8
	// patrolEvery is how often it is looked which endpoints are due.
	patrolEvery = 250 * time.Millisecond
	// vigilFor is how long the replica that has worked on an environment probes it
	// before the work is due again, and may go to another; vigilUndecided the same of
	// one that is being validated. After that it goes on for vigilSlack, unless it is
	// the one that works on it again.
	vigilFor       = 5 * time.Minute
	vigilUndecided = 30 * time.Second
	vigilSlack     = 10 * time.Second
)

// byProbe is the cause of what probes find out.
var byProbe = ledger.BySchedule("probe")

// vigil is what one replica remembers of the endpoints of one environment. Probes
// write nothing: only verdicts that change are written down, by whoever finds out.
type vigil struct {
	id  string
	key string // of what it was made for; empty: the environment is yet to be looked at

	whose    Whose
	deployed time.Time
	probes   []probe
	tallies  []Tally
	told     []*bool // verdicts as this one has read or written them
	next     []time.Time

	// Under the lock of rests, as the key is: when it is due, until when it is this
	// replica's, and that somebody is at it, whose all of the above is then.
	due, until time.Time
	busy       bool
}

// rests is what is remembered of environments at rest.
type rests struct {
	mu     sync.Mutex
	vigils map[string]*vigil
	strays map[string]strayed
}

func (r *rests) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.vigils, id)
	delete(r.strays, id)
}

// take hands out the vigils that are due, and lets go of those whose time is over.
// The time until the next one is negative where there is none.
func (r *rests) take(now time.Time, most int) (due []*vigil, next time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next = -1
	for id, v := range r.vigils {
		switch {
		case v.busy:
		case !v.until.After(now):
			delete(r.vigils, id)
		case !v.due.After(now) && len(due) < most:
			v.busy = true
			due = append(due, v)
		default:
			if wait := max(v.due.Sub(now), 0); next < 0 || wait < next {
				next = wait
			}
		}
	}
	return due, next
}

// put takes a vigil back; gone: there is nothing to keep watch over.
func (r *rests) put(v *vigil, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.busy = false
	if gone && r.vigils[v.id] == v {
		delete(r.vigils, v.id)
	}
	if len(v.next) > 0 {
		v.due = slices.MinFunc(v.next, time.Time.Compare)
	}
}

// Probe probes the endpoints of the environments that this replica has worked on
// last, until ctx ends. A server that has just been started begins with all of them:
// their work is due only minutes later. There are a handful of goroutines, which all
// end with it.
func (s *Service) Probe(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	due := make(chan *vigil)
	defer close(due)
	for range probing {
		workers.Go(func() {
			for v := range due {
				s.visit(ctx, v)
			}
		})
	}
	ticker := time.NewTicker(patrolEvery)
	defer ticker.Stop()
	adopted := false
	for {
		if !adopted {
			adopted = s.adopt(ctx) == nil
		}
		all, _ := s.rests.take(s.Now(), probing)
		for _, v := range all {
			select {
			case due <- v:
			case <-ctx.Done():
				return nil
			}
		}
		if len(all) == probing {
			continue // there may be more
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// adopt keeps watch over every environment that has endpoints.
func (s *Service) adopt(ctx context.Context) error {
	for after := ""; ; {
		found, err := s.Store.List(ctx, ledger.Query{Kind: Kind.Name, AfterID: after, Limit: page})
		if err != nil {
			return err
		}
		now := s.Now().UTC()
		s.rests.mu.Lock()
		for _, o := range found {
			e, err := Decode(o)
			if err == nil && s.rests.vigils[o.ID] == nil && len(e.Status.Checks)+len(e.Status.Entries) > 0 {
				s.rests.vigils[o.ID] = &vigil{id: o.ID, due: now.Add(spread(o.ID, checkEvery)), until: now.Add(vigilFor + vigilSlack)}
			}
		}
		s.rests.mu.Unlock()
		if len(found) < page {
			return nil
		}
		after = found[len(found)-1].ID
	}
}

// visit probes what is due of an environment, and writes where a verdict changes.
func (s *Service) visit(ctx context.Context, v *vigil) {
	gone, err := false, error(nil)
	defer func() { s.rests.put(v, gone) }()
	if v.key == "" {
		if gone, err = s.begins(ctx, v); gone || err != nil {
			v.next = []time.Time{s.Now().UTC().Add(checkEvery)} // whoever works on it says what is wrong
			return
		}
	}
	s.round(ctx, v)
	if ctx.Err() != nil || !v.news() {
		return
	}
	// What cannot be written is still news at the next round.
	gone, _ = s.verdict(ctx, v)
}

// begins evaluates the endpoints of an environment that was there before this replica.
func (s *Service) begins(ctx context.Context, v *vigil) (gone bool, err error) {
	e, seen, err := s.seen(ctx, v.id)
	if err != nil || !atRest(e, seen) {
		return err == nil, err
	}
	made, err := s.vigil(ctx, e)
	if err != nil {
		return false, err
	}
	v.whose, v.deployed, v.probes, v.tallies, v.told, v.next = made.whose, made.deployed, made.probes, made.tallies, made.told, made.next
	s.rests.mu.Lock()
	v.key = made.key
	s.rests.mu.Unlock()
	return len(v.probes) == 0, nil
}

// seen reads an environment with what is decided on; one that is gone is not at rest.
func (s *Service) seen(ctx context.Context, id string) (Environment, Seen, error) {
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: id})
	if err != nil || !o.Deleted.IsZero() {
		return Environment{}, Seen{}, err
	}
	e, err := Decode(o)
	if err != nil {
		return e, Seen{}, err
	}
	seen, err := s.see(ctx, e)
	return e, seen, err
}

// news: a verdict is not what it was.
func (v *vigil) news() bool {
	for i, t := range v.tallies {
		if t.OK != nil && (v.told[i] == nil || *v.told[i] != *t.OK) {
			return true
		}
	}
	return false
}

// verdict writes what has changed, in place of the version that was read: whoever
// writes meanwhile comes first. Where the environment is not at rest any more, or is
// another deployment, the vigil has ended.
func (s *Service) verdict(ctx context.Context, v *vigil) (gone bool, err error) {
	e, seen, err := s.seen(ctx, v.id)
	if err != nil {
		return false, err
	}
	if !atRest(e, seen) || e.vigilKey() != v.key {
		return true, nil
	}
	before := e.Phase
	if v.tell(&e, s.Now().UTC()) {
		op := "update"
		if e.Phase != before {
			op = e.Phase
		}
		put, err := e.put(op)
		if err != nil {
			return false, err
		}
		set := ledger.Set{Actor: "system", Cause: byProbe, Puts: []ledger.Put{put}}
		for i, p := range v.probes { // what the resource says of itself is looked at again
			if t := v.tallies[i]; p.resource != "" && t.OK != nil && (v.told[i] == nil || *v.told[i] != *t.OK) {
				set.Wakes = append(set.Wakes, wakeOf(KindResource.Name, p.resource, e.Org))
			}
		}
		if _, err := s.Store.Commit(ctx, set); err != nil {
			return false, err
		}
	}
	for i, t := range v.tallies {
		v.told[i] = t.OK
	}
	return false, nil
}

// tell puts verdicts that have changed into the status, and what they make of the
// environment. One that another replica has found out otherwise stays until this one
// changes its mind.
func (v *vigil) tell(e *Environment, now time.Time) (changed bool) {
	e.Status.Checks, e.Status.Entries = slices.Clone(e.Status.Checks), slices.Clone(e.Status.Entries)
	for i, p := range v.probes {
		at, t := p.endpoint(&e.Status), v.tallies[i]
		if at == nil || t.OK == nil || v.told[i] != nil && *v.told[i] == *t.OK || at.OK != nil && *at.OK == *t.OK {
			continue
		}
		at.OK, at.Row, at.Message, at.At, changed = t.OK, t.Row, t.Message, t.At, true
	}
	phase, message := health(slices.Concat(e.Status.Checks, e.Status.Entries))
	if phase != e.Phase {
		e.Phase, e.Status.Since, e.Status.Message, changed = phase, now, message, true
	}
	if phase == Fail && message != e.Status.Message {
		e.Status.Message, changed = message, true
	}
	return changed
}

func (e *Environment) vigilKey() string {
	return fmt.Sprint(e.Spec.Version, e.Status.Laid, e.Status.Deployed.UnixNano())
}

// vigil evaluates the endpoints of an environment, and takes over what was decided.
func (s *Service) vigil(ctx context.Context, e Environment) (*vigil, error) {
	sh, err := s.sheet(ctx, e.Spec.Version, e.Spec.Parameters, e.facts())
	if err != nil {
		return nil, err
	}
	var failed error
	known := s.known(ctx, sh, &failed, nil)
	v := &vigil{id: e.ID, key: e.vigilKey(), deployed: e.Status.Deployed, whose: Whose{Org: e.Org, Template: e.Spec.Template, Operator: e.Spec.Operator}}
	add := func(address string) error {
		checks, err := sh.Checks(ctx, address, known)
		if failed != nil {
			return failed
		}
		for _, c := range checks {
			v.probes = append(v.probes, probe{Check: filled(c), of: address})
		}
		return err
	}
	err = add("")
	for _, n := range sh.nodes {
		if err == nil && len(n.Checks) > 0 {
			err = add(n.Address)
		}
	}
	for _, g := range sh.Groups() {
		if err == nil && g.Address != "" {
			err = add(g.Address)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range e.Status.Entries {
		v.probes = append(v.probes, probe{Check: filled(template.Check{Name: entry.Name, HTTP: entry.URL}), entry: true})
	}
	if len(v.probes) > maxChecks {
		return nil, fault.New(fault.Invalid, "it has %d status endpoints: at most %d are looked after", len(v.probes), maxChecks)
	}
	if v.follows(s, sh, known); failed != nil {
		return nil, failed
	}
	v.tallies, v.told, v.next = make([]Tally, len(v.probes)), make([]*bool, len(v.probes)), make([]time.Time, len(v.probes))
	for i, p := range v.probes {
		if known := p.endpoint(&e.Status); known != nil {
			v.tallies[i], v.told[i] = Tally{OK: known.OK, Message: known.Message, At: known.At}, known.OK
		}
	}
	return v, nil
}

// endpoint is where the status tells of a probe.
func (p probe) endpoint(s *Status) *Endpoint {
	all := s.Checks
	if p.entry {
		all = s.Entries
	}
	for i := range all {
		if all[i].Name == p.name() && all[i].Of == p.of && all[i].URL == p.url() {
			return &all[i]
		}
	}
	return nil
}

// round probes those that are due, many at once. It starts at most probesAtOnce
// goroutines and waits for them.
func (s *Service) round(ctx context.Context, v *vigil) {
	at := s.Now().UTC()
	due := make(chan int)
	var workers sync.WaitGroup
	for range min(probesAtOnce, len(v.probes)) {
		workers.Go(func() {
			for i := range due {
				good, message, known := s.do(ctx, v.whose, v.probes[i])
				if ctx.Err() == nil && known { // a server that stops has seen nothing
					v.tallies[i] = Weigh(v.probes[i].Check, v.tallies[i], good, message, v.deployed, at)
				}
				v.next[i] = at.Add(time.Duration(v.probes[i].Every))
			}
		})
	}
	for i := range v.probes {
		if !v.next[i].After(at) {
			due <- i
		}
	}
	close(due)
	workers.Wait()
}
