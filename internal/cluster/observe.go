package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/graph"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
)

// Offerings that clusters host.
type Offerings interface {
	Get(name string) (*offering.Offering, bool)
	List() []*offering.Offering
}

// profileSource names a profile as a source of steps: no offering can have a
// name with a dot.
func profileSource(name string) string { return profilePrefix + name }

const profilePrefix = "profile."

// looks is when something outside was last looked at, by this replica.
type looks struct{ accounts, steps time.Time }

// observe gathers what Plan looks at, and the bodies of the wanted steps by
// their names.
func (s *Service) observe(ctx context.Context, c Cluster) (Facts, map[string]json.RawMessage, error) {
	s.mu.Lock()
	looked := s.looked[c.ID]
	s.mu.Unlock()
	now := s.now()
	f := Facts{
		Accounts: s.Accounts != nil, Login: s.Logins != nil && c.Spec.Domain != "" && c.Spec.Org == "",
		Checked: now.Sub(looked.accounts) < recheck, Applied: now.Sub(looked.steps) < recheck,
		Reach: s.reaches(c),
	}
	var err error
	if c.Phase == Deprovisioning || c.Spec.Draining {
		if f.Used, err = s.store.Counter(ctx, CapacityCounter(c.ID)); err != nil {
			return f, nil, err
		}
	}
	if c.Status.Operation != "" {
		op, err := s.store.Get(ctx, ledger.Ref{Kind: operation.Kind.Name, ID: c.Status.Operation})
		if err != nil {
			return f, nil, err
		}
		f.Verb, _ = op.Fields["verb"].(string)
	}
	profile, err := s.profileOf(ctx, c)
	if err != nil {
		return f, nil, err
	}
	switch c.Phase {
	case Accepted, Provisioning, Failed:
		s.findMaker(c, profile, &f)
		return f, nil, nil
	case Provisioned, Waiting, Ready:
		if f.Decided, err = s.decided(ctx, c.Status.Steps); err != nil {
			return f, nil, err
		}
		bodies, err := s.wantedSteps(ctx, c, profile, &f)
		return f, bodies, err
	}
	return f, nil, nil
}

// reaches reports whether the control plane applies steps to the cluster.
func (s *Service) reaches(c Cluster) bool {
	return s.Terraformer != nil && s.Keeper != nil && cmp.Or(c.Status.Kubeconfig, c.Spec.Kubeconfig) != ""
}

// profileOf returns the profile of a cluster, nil where it has none or it is gone.
func (s *Service) profileOf(ctx context.Context, c Cluster) (*compiled, error) {
	if c.Spec.Profile == "" {
		return nil, nil
	}
	p, err := s.profile(ctx, c.Spec.Profile)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return p, err
}

func (s *Service) findMaker(c Cluster, profile *compiled, f *Facts) {
	switch {
	case profile != nil:
		f.Maker = &Maker{Name: profile.Maker, Options: profile.Options}
	case c.Spec.Profile == "":
		f.Maker = &Maker{Name: standalone}
	case c.Status.Maker == nil:
		f.Missing = fmt.Sprintf("Its profile %s is gone. Apply the profile again, or delete the cluster.", c.Spec.Profile)
	}
	if c.Phase == Failed {
		return
	}
	maker := f.Maker
	if maker == nil {
		maker = c.Status.Maker // what has begun goes on
	}
	if maker != nil && s.Makers[maker.Name] == nil {
		f.Missing = fmt.Sprintf("This server has no maker of clusters %q. Change its profile, or delete the cluster.", maker.Name)
	}
}

// wantedSteps lists the steps of the agent, after them those of the profile, and
// after them those of each offering that the cluster hosts.
func (s *Service) wantedSteps(ctx context.Context, c Cluster, profile *compiled, f *Facts) (map[string]json.RawMessage, error) {
	bodies := map[string]json.RawMessage{}
	f.Read = map[string]bool{}
	around := s.around(c)
	var nodes []graph.Node
	add := func(source string, rendered []offering.StepBody, err error, after []string) (last []string) {
		if err != nil {
			f.Unread = append(f.Unread, fmt.Sprintf("the steps of %s cannot be made: %v", source, err))
			return after
		}
		f.Read[source] = true
		if len(rendered) == 0 {
			return after
		}
		needed := map[string]bool{}
		for _, b := range rendered {
			node := graph.Node{Name: source + "/" + b.Name}
			for _, need := range b.Needs {
				node.Needs = append(node.Needs, source+"/"+need)
				needed[source+"/"+need] = true
			}
			if len(node.Needs) == 0 {
				node.Needs = after
			}
			nodes, bodies[node.Name] = append(nodes, node), b.Body
		}
		for _, b := range rendered {
			if name := source + "/" + b.Name; !needed[name] {
				last = append(last, name)
			}
		}
		return last
	}
	var before []string
	if rendered, known, err := s.agentBodies(c, profile); known || err != nil {
		before = add(agentSource, rendered, err, nil)
	}
	if profile != nil {
		rendered, err := profile.steps.Render(ctx, around)
		before = add(profileSource(profile.name), rendered, err, before)
	}
	if s.Offerings != nil {
		for _, off := range s.Offerings.List() {
			if c.Spec.isFor(off) {
				rendered, err := off.Steps().Render(ctx, around)
				add(off.Metadata.Name, rendered, err, before)
			}
		}
	}
	g, err := graph.New(nodes)
	if err != nil {
		return nil, err // each file was checked: this cannot be
	}
	needs := map[string][]string{}
	for _, n := range nodes {
		needs[n.Name] = n.Needs
	}
	for _, name := range g.Order() {
		f.Steps = append(f.Steps, Step{Name: name, Needs: needs[name], Digest: digestOf(bodies[name])})
	}
	return bodies, nil
}

// digestOf a body, as agents compute it.
func digestOf(body []byte) string { return strings.TrimPrefix(ledger.Digest(body), "sha256:") }

// isFor reports whether the cluster is to be made fit for an offering: one that
// it names, or any that is sold where it stands.
func (s Spec) isFor(off *offering.Offering) bool {
	if s.Offering != "" {
		return s.Offering == off.Metadata.Name
	}
	return slices.ContainsFunc(off.Spec.Providers, func(p offering.Provider) bool {
		return p.Name == s.Provider && slices.ContainsFunc(p.Regions, func(r offering.Region) bool { return r.Name == s.Region })
	})
}

// around is what the expressions of steps see.
func (s *Service) around(c Cluster) offering.Surroundings {
	out := offering.Surroundings{Cluster: offering.ClusterFacts{
		ID: c.ID, Provider: c.Spec.Provider, Region: c.Spec.Region, Domain: c.Spec.Domain, Private: c.Spec.Private,
		Client: c.Status.Client, Login: c.Status.Login,
	}}
	if s.Around != nil {
		out.SSO, out.Server = s.Around()
	}
	return out
}

// Fit reports whether all steps of an offering, and what they need, are ready:
// nothing of it is placed on a cluster where they are not.
func (s Status) Fit(offeringName string) bool { return s.unfit(offeringName) == nil }

// unfit is the first step that is in an offering's way; nil: none is.
func (s *Status) unfit(offeringName string) *Step {
	for i := range s.Steps {
		step := &s.Steps[i]
		if step.State == StepReady || step.State == StepRemoving {
			continue
		}
		if source := step.source(); source == offeringName || strings.HasPrefix(source, profilePrefix) {
			return step
		}
	}
	return nil
}
