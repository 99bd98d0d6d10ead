package environment

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/template"
)

const (
	// maxChecks is how many endpoints an environment has room for.
	maxChecks = 500
	// probesAtOnce bounds the probes of one environment, probing those of one server
	// that are probed at a time: endpoints that hang must not stop everything else.
	probesAtOnce = 16
	probing      = 8
)

// vigil is what is remembered of the endpoints of one environment: only verdicts
// are written down.
type vigil struct {
	key     string
	probes  []probe
	tallies []Tally
	next    []time.Time
}

// rests is what is remembered of environments at rest.
type rests struct {
	mu     sync.Mutex
	vigils map[string]*vigil
	strays map[string]strayed
	room   chan struct{}
}

func (r *rests) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.vigils, id)
	delete(r.strays, id)
}

func (e *Environment) vigilKey() string {
	return fmt.Sprint(e.Spec.Version, e.Status.Laid, e.Status.Deployed.UnixNano())
}

// atEase sees what an environment at rest is decided on.
func (s *Service) atEase(ctx context.Context, e Environment, seen *Seen) error {
	c := seen.Counts
	if c.Pending+c.Leaving > 0 || e.Spec.Destroy {
		return nil
	}
	var err error
	if seen.Counts.Drifted, err = s.openDrift(ctx, e.ID); err != nil {
		return err
	}
	s.rests.mu.Lock()
	defer s.rests.mu.Unlock()
	if v := s.rests.vigils[e.ID]; v != nil && v.key == e.vigilKey() && len(v.next) > 0 {
		seen.ProbeAt = slices.MinFunc(v.next, time.Time.Compare)
	}
	if last := s.rests.strays[e.ID]; !last.none || last.laid != e.Status.Laid {
		seen.StrayAt = last.at.Add(strayEvery)
	}
	return nil
}

// endpoints fills in the status endpoints of what was just made: none of them is
// decided.
func (t *turn) endpoints(ctx context.Context) error {
	v, err := t.vigil(ctx, t.e)
	s := &t.e.Status
	s.Checks = nil
	if err != nil {
		return err
	}
	for _, p := range v.probes {
		if !p.entry {
			s.Checks = append(s.Checks, Endpoint{Name: p.name(), Of: p.of, URL: p.url()})
		}
	}
	return nil
}

// vigil evaluates the endpoints of an environment, and takes over what was decided.
func (s *Service) vigil(ctx context.Context, e Environment) (*vigil, error) {
	sh, err := s.sheet(ctx, e.Spec.Version, e.Spec.Parameters, e.facts())
	if err != nil {
		return nil, err
	}
	var failed error
	known := s.known(ctx, sh, &failed, nil)
	v := &vigil{key: e.vigilKey()}
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
	v.tallies, v.next = make([]Tally, len(v.probes)), make([]time.Time, len(v.probes))
	for i, p := range v.probes {
		if known := p.endpoint(&e.Status); known != nil {
			v.tallies[i] = Tally{OK: known.OK, Message: known.Message, At: known.At}
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

// probe probes what is due, and writes where a verdict has changed.
func (t *turn) probe(ctx context.Context) error {
	t.rests.mu.Lock()
	v := t.rests.vigils[t.e.ID]
	t.rests.mu.Unlock()
	if v == nil || v.key != t.e.vigilKey() {
		var err error
		if v, err = t.vigil(ctx, t.e); err != nil {
			return err
		}
		t.rests.mu.Lock()
		t.rests.vigils[t.e.ID] = v
		t.rests.mu.Unlock()
	}
	select {
	case t.rests.room <- struct{}{}:
		defer func() { <-t.rests.room }()
	default:
		t.next = &Come{After: time.Second, Why: "many are being probed"}
		return nil
	}
	if err := t.round(ctx, v); err != nil {
		return err
	}
	t.e.Status.Checks, t.e.Status.Entries = slices.Clone(t.e.Status.Checks), slices.Clone(t.e.Status.Entries)
	for i, p := range v.probes {
		at, now := p.endpoint(&t.e.Status), v.tallies[i]
		if at != nil && now.OK != nil && (at.OK == nil || *at.OK != *now.OK) {
			at.OK, at.Row, at.Message, at.At = now.OK, now.Row, now.Message, now.At
		}
	}
	phase, message := health(slices.Concat(t.e.Status.Checks, t.e.Status.Entries))
	if phase != t.e.Phase || phase == Fail && message != t.e.Status.Message {
		t.say(phase, message)
	}
	if len(v.probes) == 0 {
		t.next = &Come{After: time.Minute, Why: "there is nothing to probe"}
	}
	return nil
}

// round probes those that are due, many at once. It starts at most probesAtOnce
// goroutines and waits for them.
func (t *turn) round(ctx context.Context, v *vigil) error {
	due := make(chan int)
	var workers sync.WaitGroup
	for range min(probesAtOnce, len(v.probes)) {
		workers.Go(func() {
			for i := range due {
				good, message := t.do(ctx, t.e, v.probes[i])
				v.tallies[i] = Weigh(v.probes[i].Check, v.tallies[i], good, message, t.e.Status.Deployed, t.at)
				v.next[i] = t.at.Add(time.Duration(v.probes[i].Every))
			}
		})
	}
	for i := range v.probes {
		if !v.next[i].After(t.at) {
			due <- i
		}
	}
	close(due)
	workers.Wait()
	return ctx.Err()
}

// count tells what is there.
func (t *turn) count(ctx context.Context) error {
	t.e.Status.Counts = t.seen.Counts
	return t.groups(ctx)
}

// glanceOver wakes those that were not looked at yet, or ends the wish.
func (t *turn) glanceOver(ctx context.Context) error {
	there, err := t.resources(ctx, t.e.ID, false)
	if err != nil {
		return err
	}
	open := 0
	for _, r := range there {
		if r.Phase == Ready && !r.Spec.Absent && r.Spec.Drift != driftIgnore && r.Status.Looked < t.e.Spec.Look {
			open++
			if open <= layAtOnce {
				t.set.Wakes = append(t.set.Wakes, wakeOf(KindResource.Name, r.ID, r.Org))
			}
		}
	}
	if open > 0 {
		t.next = &Come{After: glanceEvery, Why: "its resources are looked at"}
		return nil
	}
	if err := t.stray(ctx); err != nil {
		return err
	}
	t.e.Status.Looked, t.e.Status.Observed, t.op = t.e.Spec.Look, t.at, "observe"
	return nil
}
