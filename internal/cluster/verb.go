package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/provider"
)

// Hosted tells what runs on clusters.
type Hosted interface {
	// On names some of what runs on a cluster, for people, and counts all of it.
	On(ctx context.Context, clusterID string, limit int) (names []string, total int64, err error)
}

// Request is a cluster that is to be there.
type Request struct {
	ID       string
	Profile  string // what makes it; empty: it is there already
	Provider string // default: the first that the profile serves
	Region   string // likewise
	Domain   string
	// Kubeconfig to reach it with; nil: only its agent does, or its maker tells.
	Kubeconfig []byte
	Labels     map[string]string // besides those of the profile
	Taints     []string          // likewise
	Limit      *int64
	Fleet      bool // the fleet wants it, for lack of room
}

// Create makes a cluster, or makes one known that is there. It leaves an
// operation, which ends when the cluster is ready. Faults: Invalid, reasons
// "profile", "field"; Conflict, reason "cluster-taken".
func (s *Service) Create(ctx context.Context, want Request) (ledger.Object, error) {
	spec, err := s.draw(ctx, want)
	if err != nil {
		return ledger.Object{}, err
	}
	if err := s.readable(want); err != nil {
		return ledger.Object{}, err
	}
	before, err := s.store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: want.ID})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return ledger.Object{}, err
	}
	if err == nil && before.Deleted.IsZero() {
		return ledger.Object{}, taken(want.ID)
	}
	counts, err := s.opening(ctx, want.ID, before.Version)
	if err != nil {
		return ledger.Object{}, err
	}
	if want.Kubeconfig != nil {
		if s.Keeper == nil {
			return ledger.Object{}, fault.New(fault.Invalid, "this server cannot keep a kubeconfig")
		}
		if spec.Kubeconfig, err = s.Keeper.Seal(ctx, want.Kubeconfig); err != nil {
			return ledger.Object{}, err
		}
	}
	c := s.fresh(ctx, want.ID, spec)
	c.Version, c.Status.Since = before.Version, s.now().UTC()
	if before.Version > 0 {
		c.Status.Anew = s.anew()
	}
	start := operation.Start("create", c.Object, ledger.CauseOf(ctx))
	c.Status.Operation = start.Object.ID
	put, err := c.put("create")
	if err != nil {
		return ledger.Object{}, err
	}
	r, err := s.store.Commit(ctx, ledger.Set{
		Actor: cmp.Or(access.From(ctx).Actor(), "system"), Cause: ledger.CauseOf(ctx),
		Puts: []ledger.Put{put, start}, Claims: spec.names(c.Ref), Counts: counts, Wakes: []ledger.Wake{{Ref: c.Ref}},
	})
	if err != nil {
		ledger.Discard(ctx, s.Keeper, err, spec.Kubeconfig)
		switch fault.Reason(err) {
		case "exists", "version", "name-taken":
			return ledger.Object{}, taken(want.ID)
		}
		return ledger.Object{}, err
	}
	return r.Objects[0], nil
}

// readable refuses a kubeconfig that nobody could use, before it is kept.
func (s *Service) readable(want Request) error {
	checker, ok := s.Makers[standalone].(provider.Checker)
	if !ok || want.Kubeconfig == nil {
		return nil
	}
	err := checker.Check(provider.Cluster{ID: want.ID, Kubeconfig: want.Kubeconfig})
	if fault.Is(err, fault.Invalid) {
		return fault.New(fault.Invalid, "%w", err).Because("field")
	}
	return err
}

// Enlist makes a cluster known that is there and that only its agent reaches;
// an existing one is left as it is. Faults: Invalid, reason "field".
func (s *Service) Enlist(ctx context.Context, want Request) (ledger.Object, error) {
	spec, err := s.draw(ctx, want)
	if err != nil {
		return ledger.Object{}, err
	}
	o, err := s.Register(ctx, want.ID, spec)
	if err != nil {
		return o, err
	}
	if have, _, err := Decode(o); err == nil && have.Abandoned != "" {
		return o, fault.New(fault.Conflict, "cluster %s was given up as lost: delete it first (drover cluster delete %s), or take another name", want.ID, want.ID).Because("cluster-taken")
	}
	return o, nil
}

// draw turns a request into what is wanted of a cluster.
func (s *Service) draw(ctx context.Context, want Request) (Spec, error) {
	spec := Spec{Provider: want.Provider, Region: want.Region, Domain: want.Domain, Profile: want.Profile,
		Labels: maps.Clone(want.Labels), Taints: slices.Clone(want.Taints), Limit: want.Limit, Fleet: want.Fleet}
	if want.Profile != "" {
		p, err := s.profile(ctx, want.Profile)
		if fault.Is(err, fault.NotFound) {
			return spec, fault.New(fault.Invalid, "there is no profile %.64q: apply one first (drover apply -f FILE)", want.Profile).Because("profile")
		}
		if err != nil {
			return spec, err
		}
		serves, region, ok := p.place(want.Provider, want.Region)
		if !ok {
			return spec, fault.New(fault.Invalid, "profile %s makes no clusters at provider %q in region %q: it serves %s", want.Profile, want.Provider, want.Region, p.places()).Because("field")
		}
		spec.Provider, spec.Region = serves.Provider, region
		spec.MultiAZ, spec.Offering, spec.Types, spec.Nodes = serves.MultiAZ, serves.Offering, serves.Types, p.Nodes
		for key, value := range p.Labels {
			if spec.Labels == nil {
				spec.Labels = map[string]string{}
			}
			if _, said := spec.Labels[key]; !said {
				spec.Labels[key] = value
			}
		}
		spec.Taints = union(spec.Taints, p.Taints)
	}
	if spec.Provider == "" || spec.Region == "" {
		return spec, fault.New(fault.Invalid, "a cluster needs a provider and a region: instances are placed by them").Because("field")
	}
	if want.Domain != "" && (len(want.Domain) > 253 || !dnsName.MatchString(want.Domain)) {
		return spec, fault.New(fault.Invalid, "the domain must be a DNS name in lower case").Because("dns-name")
	}
	return spec, spec.check()
}

// places tells people where a profile's clusters may stand.
func (p *Profile) places() string {
	var out []string
	for _, s := range p.Serves {
		out = append(out, s.Provider+" ("+strings.Join(s.Regions, ", ")+")")
	}
	if len(out) == 0 {
		return "any place, which has to be named"
	}
	return strings.Join(out, ", ")
}

// check refuses labels, taints and limits that nothing could match.
func (s Spec) check() error {
	var wrong error
	say := func(message string) {
		if wrong == nil {
			wrong = fault.New(fault.Invalid, "%s", message).Because("field")
		}
	}
	checkLabels(s.Labels, func(message, key string) { say(fmt.Sprintf("label %.64q: %s", key, message)) })
	checkTaints(s.Taints, func(message string, i int) { say(fmt.Sprintf("taint %.64q: %s", s.Taints[i], message)) })
	if s.Limit != nil && (*s.Limit < 0 || *s.Limit > maxUnits) {
		say("the limit must not be negative")
	}
	return wrong
}

// Edit is what is to change about a cluster; nil stays.
type Edit struct {
	Labels      map[string]*string // nil takes a label away
	Taints      *[]string
	Limit       **int64 // nil inside: no limit
	Schedulable *bool
}

// verb is what the log calls a change: by what was done, where that was one thing.
func (e Edit) verb() string {
	var verbs []string
	if e.Schedulable != nil && *e.Schedulable {
		verbs = append(verbs, "uncordon")
	} else if e.Schedulable != nil {
		verbs = append(verbs, "cordon")
	}
	if e.Limit != nil {
		verbs = append(verbs, "limit")
	}
	if len(e.Labels) > 0 {
		verbs = append(verbs, "label")
	}
	if e.Taints != nil {
		verbs = append(verbs, "taint")
	}
	if len(verbs) != 1 {
		return "update"
	}
	return verbs[0]
}

// Update changes what is wanted of a cluster. Faults: Invalid, reason "field".
func (s *Service) Update(ctx context.Context, id string, e Edit) (ledger.Object, error) {
	return s.want(ctx, id, e.verb(), func(c *Cluster) error {
		for key, value := range e.Labels {
			c.Spec.Labels = maps.Clone(c.Spec.Labels)
			if c.Spec.Labels == nil {
				c.Spec.Labels = map[string]string{}
			}
			if value == nil {
				delete(c.Spec.Labels, key)
			} else {
				c.Spec.Labels[key] = *value
			}
		}
		if e.Taints != nil {
			c.Spec.Taints = *e.Taints
		}
		if e.Limit != nil {
			c.Spec.Limit = *e.Limit
		}
		if e.Schedulable != nil {
			if c.Spec.Unschedulable = !*e.Schedulable; *e.Schedulable && c.Spec.Draining {
				return fault.New(fault.Conflict, "cluster %s is being drained: undrain it first", id).Because("draining")
			}
		}
		return c.Spec.check()
	})
}

// want changes what is wanted of a cluster, again if somebody wrote meanwhile.
func (s *Service) want(ctx context.Context, id, op string, change func(*Cluster) error, starts ...string) (ledger.Object, error) {
	for range attempts {
		o, err := s.Get(ctx, id)
		if err != nil {
			return o, err
		}
		c, err := load(o)
		if err != nil {
			return o, err
		}
		if c.Spec.Deleted {
			return o, fault.New(fault.Conflict, "cluster %s is being taken away", id).Because("deleted")
		}
		if c.Spec.Abandoned != "" {
			return o, fault.New(fault.Conflict, "cluster %s was given up as lost: nothing can be changed about it any more", id).Because("deleted")
		}
		if err := change(&c); err != nil {
			return o, err
		}
		set := ledger.Set{Actor: access.From(ctx).Actor(), Cause: ledger.CauseOf(ctx), Wakes: []ledger.Wake{{Ref: o.Ref, Org: o.Org}}}
		for _, verb := range starts {
			puts, err := s.succeed(ctx, &c, verb)
			if err != nil {
				return o, err
			}
			set.Puts = append(set.Puts, puts...)
		}
		put, err := c.put(op)
		if err != nil {
			return o, err
		}
		set.Puts = append([]ledger.Put{put}, set.Puts...)
		r, err := s.store.Commit(ctx, set)
		if err == nil {
			return r.Objects[0], nil
		}
		if fault.Reason(err) != "version" {
			return o, err
		}
	}
	return ledger.Object{}, fault.New(fault.Unavailable, "cluster %q changes all the time; try again", id)
}

// succeed starts a new operation on the cluster and ends the one it overtakes.
func (s *Service) succeed(ctx context.Context, c *Cluster, verb string) ([]ledger.Put, error) {
	puts, err := s.endOperation(ctx, c, operation.Superseded, "a later "+verb+" took its place")
	if err != nil {
		return nil, err
	}
	start := operation.Start(verb, c.Object, ledger.CauseOf(ctx))
	c.Status.Operation = start.Object.ID
	return append(puts, start), nil
}
