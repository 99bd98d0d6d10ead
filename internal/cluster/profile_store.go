package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// compiled is a profile in force.
type compiled struct {
	Profile
	name    string
	version int64
	steps   *offering.Steps
}

// profile returns the profile of a name. Faults: NotFound.
func (s *Service) profile(ctx context.Context, name string) (*compiled, error) {
	o, err := s.GetProfile(ctx, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	known := s.profiles[name]
	s.mu.Unlock()
	if known != nil && known.version == o.Version {
		return known, nil
	}
	made := &compiled{name: name, version: o.Version}
	if err := json.Unmarshal(o.Spec, &made.Profile); err != nil {
		return nil, fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err)
	}
	var wrong error
	made.steps = offering.CompileSteps(made.Steps, func(_ []any, _ int, message string) {
		wrong = fault.New(fault.Internal, "cannot use the steps of profile %s: %s", name, message)
	})
	if wrong != nil {
		return nil, wrong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.profiles == nil {
		s.profiles = map[string]*compiled{}
	}
	s.profiles[name] = made
	return made, nil
}

// GetProfile returns a profile's object. Faults: NotFound.
func (s *Service) GetProfile(ctx context.Context, name string) (ledger.Object, error) {
	missing := fault.New(fault.NotFound, "there is no profile %.64q", name)
	if !profileForm.MatchString(name) {
		return ledger.Object{}, missing
	}
	o, err := s.store.Get(ctx, ledger.Ref{Kind: KindProfile.Name, ID: name})
	if fault.Is(err, fault.NotFound) || err == nil && !o.Deleted.IsZero() {
		return ledger.Object{}, missing
	}
	return o, err
}

// ApplyProfile brings a profile into force, in place of the one of its name, and
// tells whether that changed anything. A broken file changes nothing. Faults:
// Invalid, with all mistakes and their lines.
func (s *Service) ApplyProfile(ctx context.Context, source string, data []byte) (ledger.Object, bool, error) {
	file, _, err := ParseProfile(source, data, slices.Sorted(maps.Keys(s.Makers)))
	if err != nil {
		return ledger.Object{}, false, err
	}
	spec, err := json.Marshal(file.Spec)
	if err != nil {
		return ledger.Object{}, false, err
	}
	name := file.Metadata.Name
	for range attempts {
		before, err := s.store.Get(ctx, ledger.Ref{Kind: KindProfile.Name, ID: name})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return ledger.Object{}, false, err
		}
		o := ledger.Object{Ref: ledger.Ref{Kind: KindProfile.Name, ID: name}, Name: name, Labels: file.Metadata.Labels, Spec: spec}
		if before.Deleted.IsZero() {
			o.Status = before.Status // what scaling remembers is not the file's
		}
		op := "create"
		if before.Version > 0 {
			op = "update"
		}
		made, err := s.putProfile(ctx, ledger.Put{Object: o, Expect: before.Version, Op: op})
		if err == nil {
			return made, made.Version != before.Version, nil
		}
		if reason := fault.Reason(err); reason != "version" && reason != "exists" {
			return ledger.Object{}, false, fmt.Errorf("cannot store profile %s: %w", name, err)
		}
	}
	return ledger.Object{}, false, fault.New(fault.Unavailable, "profile %q changes all the time; try again", name)
}

// DeleteProfile takes a profile out of force. No cluster goes: those that were
// made from it keep what they have. Faults: NotFound.
func (s *Service) DeleteProfile(ctx context.Context, name string) (ledger.Object, error) {
	o, err := s.GetProfile(ctx, name)
	if err != nil {
		return o, err
	}
	expect := o.Version
	o.Deleted = s.now().UTC()
	return s.putProfile(ctx, ledger.Put{Object: o, Expect: expect, Op: "delete"})
}

// putProfile writes a profile, and wakes the clusters that were made from it.
func (s *Service) putProfile(ctx context.Context, put ledger.Put) (ledger.Object, error) {
	set := ledger.Set{Actor: cmp.Or(access.From(ctx).Actor(), "system"), Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}}
	var err error
	set.Wakes, err = s.wakes(ctx, func(c Cluster) bool { return c.Spec.Profile == put.Object.ID })
	if err != nil {
		return ledger.Object{}, err
	}
	set.Wakes = append(set.Wakes, ledger.Wake{Ref: put.Object.Ref}) // for its scaling
	r, err := s.store.Commit(ctx, set)
	if err != nil {
		return ledger.Object{}, err
	}
	return r.Objects[0], nil
}

// wakes are those of the clusters that have something to do with a change.
func (s *Service) wakes(ctx context.Context, concerned func(Cluster) bool) ([]ledger.Wake, error) {
	var out []ledger.Wake
	query := ledger.Query{Kind: Kind.Name, Limit: 1000}
	for {
		found, err := s.store.List(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			query.AfterID = o.ID
			if c, err := load(o); err == nil && concerned(c) {
				out = append(out, ledger.Wake{Ref: o.Ref, Org: o.Org})
			}
		}
		if len(found) < query.Limit {
			return out, nil
		}
	}
}
