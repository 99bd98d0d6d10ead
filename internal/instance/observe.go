package instance

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
)

// Versions tells what a cluster can run: versions by component, oldest first.
// Clusters that know implement it.
type Versions interface {
	Offers(ctx context.Context, clusterID, offering string) (map[string][]string, error)
}

// Around tells what expressions see of a cluster. Clusters that know implement it.
type Around interface {
	Facts(ctx context.Context, clusterID string) (offering.ClusterFacts, error)
}

// observe looks at everything that Plan decides by.
func (r *Reconciler) observe(ctx context.Context, in Instance, off *offering.Offering, now time.Time) (Facts, error) {
	_, size, err := off.Plan(in.Spec.Type + "." + in.Spec.Size)
	if err != nil {
		// The size is sold no longer: what was sold keeps running, nothing new is placed.
		size.Capacity = in.Status.Units
	}
	f := Facts{
		Rules: off.Spec.Placement, Units: size.Capacity, Unsold: unsold(in, err), Hooks: len(off.Hooks(in.Phase)) > 0, Timing: off.Spec.Timing,
		Grace: graceOf(off, in.Status.Paid.Model), Lifespan: size.Lifespan > 0 || err != nil,
		Denied:   r.Policy != nil && r.Policy.Denied(in.Owner),
		Identity: r.SSO != nil && off.Spec.Identity != nil,
		Names:    r.DNS != nil, Certificate: r.Certificates != nil && len(in.Status.Routes) > 0,
	}
	f.Looked, f.NextLook = r.memory.looked(in.ID, every(in.ID, or(f.Timing.Observe, observeEvery)), now)
	if f.OtherLost, err = r.otherLost(ctx, in); err != nil {
		return Facts{}, err
	}
	if goes, err := r.goes(ctx, in, off, &f, now); goes || err != nil {
		return f, err // nobody needs to be asked how to go
	}
	if NeedsCandidates(in) {
		if err := r.choices(ctx, in, off, &f); err != nil {
			return Facts{}, err
		}
	}
	f.Entitled, f.Ends = r.entitled(ctx, in, off, f)
	if in.Status.Promotion == Promoting {
		if f.Target, f.Refusal, err = r.target(ctx, &in, off); err != nil {
			return f, trouble{quotaSource, err}
		}
	}
	return f, nil
}

func unsold(in Instance, err error) string {
	if err == nil {
		return ""
	}
	return in.Spec.Type + "." + in.Spec.Size
}

// entitled asks whether what runs is still paid for. Whoever cannot be asked has
// not said no, and neither has a source that says nothing of it: a quota that is
// gone takes nothing away, one that has ended or grants nothing does.
func (r *Reconciler) entitled(ctx context.Context, in Instance, off *offering.Offering, f Facts) (Answer, time.Time) {
	settled := []string{Ready, Suspending, Suspended, Resuming, Failed}
	if f.Lifespan || in.Status.Source == "" || r.Quota == nil || r.Quota.Name() != in.Status.Source || !slices.Contains(settled, in.Phase) {
		return Unknown, time.Time{}
	}
	m, known := modelOf(off, in.Status.Paid.Model)
	if !known {
		return Unknown, time.Time{}
	}
	g, err := r.Quota.Grant(entitlement.Checking(ctx), in.payer(), product(off, in.Spec.Type, m))
	switch {
	case err != nil || g.Holder == "" || r.Now().Sub(in.Created) < newsWithin:
		return Unknown, time.Time{}
	case g.Active(r.Now()):
		return Yes, g.Expires
	}
	return No, time.Time{}
}

// choices are the clusters that the instance could be on, and what they offer.
func (r *Reconciler) choices(ctx context.Context, in Instance, off *offering.Offering, f *Facts) error {
	order := f.order(in, r.Now().Sub(in.Status.Since))
	order.Wanted = in.wants(off, f.Units)
	list, err := r.Clusters.Shortlist(ctx, order)
	if err != nil {
		return err
	}
	f.Candidates, f.Unlisted, f.Barred = list.Best, list.Room-len(list.Best), list.Barred
	for _, c := range off.Spec.Components {
		if len(c.Versions) == 0 {
			if f.Open == nil {
				f.Open = map[string]string{}
			}
			f.Open[c.Name] = in.Spec.Versions[c.Name]
		}
	}
	if len(f.Open) == 0 {
		return nil
	}
	f.Offers = map[string]map[string]string{}
	if f.Unsold != "" {
		return nil
	}
	if found, err := r.offered(ctx, off, f, f.Candidates); found || err != nil || f.Unlisted == 0 {
		return err
	}
	asked := len(f.Candidates)
	order.All = true // the best of them lack it
	if list, err = r.Clusters.Shortlist(ctx, order); err != nil {
		return err
	}
	for _, c := range list.Best {
		if !slices.ContainsFunc(f.Candidates[:asked], func(d cluster.Candidate) bool { return c.ID == d.ID }) {
			f.Candidates = append(f.Candidates, c)
		}
	}
	f.Unlisted = 0
	_, err = r.offered(ctx, off, f, f.Candidates[asked:])
	return err
}

// offered finds the first of the clusters that offers what is to run there.
func (r *Reconciler) offered(ctx context.Context, off *offering.Offering, f *Facts, among []cluster.Candidate) (bool, error) {
	for _, c := range among {
		chosen, err := r.offers(ctx, c.ID, off.Metadata.Name, f.Open)
		if err != nil {
			return false, err
		}
		if chosen != nil {
			f.Offers[c.ID] = chosen
			return true, nil // the best one is taken
		}
	}
	return false, nil
}

// offers picks the newest version of each open component, or the wanted one;
// nil where the cluster lacks one.
func (r *Reconciler) offers(ctx context.Context, clusterID, offeringName string, open map[string]string) (map[string]string, error) {
	versions, ok := r.Clusters.(Versions)
	if !ok {
		return nil, nil
	}
	have, err := versions.Offers(ctx, clusterID, offeringName)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	chosen := map[string]string{}
	for component, want := range open {
		list := have[component]
		switch {
		case len(list) == 0 || want != "" && !slices.Contains(list, want):
			return nil, nil
		case want == "":
			want = list[len(list)-1]
		}
		chosen[component] = want
	}
	return chosen, nil
}

// around is what the data plane's document can speak of besides the instance.
func (r *Config) around(ctx context.Context, clusterID string) (offering.Surroundings, error) {
	out := offering.Surroundings{Cluster: offering.ClusterFacts{ID: clusterID}}
	if r.SSO != nil {
		e := r.SSO.Endpoints()
		out.SSO = offering.SSOFacts{Issuer: e.Issuer, Token: e.TokenURL, JWKS: e.JWKSURL, Base: e.BaseURL, Realm: e.Realm}
	}
	a, ok := r.Clusters.(Around)
	if !ok || clusterID == "" {
		return out, nil
	}
	facts, err := a.Facts(ctx, clusterID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return out, err
	}
	if err == nil {
		out.Cluster = facts
	}
	return out, nil
}

// memory is what one process remembers of instances between runs. Losing it
// costs another look, nothing else.
type memory struct {
	mu     sync.Mutex
	at     map[string]time.Time // of the last look
	sealed map[string]string    // secrets that were sealed and may not be written down yet
}

const maxRemembered = 200_000

// looked tells whether the last look was within the period, and when the next
// one is due.
func (m *memory) looked(id string, period time.Duration, now time.Time) (bool, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.at[id]
	if !ok || now.Sub(last) >= period {
		return false, period
	}
	return true, period - now.Sub(last)
}

func (m *memory) look(id string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil || len(m.at) >= maxRemembered {
		m.at = map[string]time.Time{}
	}
	m.at[id] = now
}

func (m *memory) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.at, id)
	delete(m.sealed, id)
}

// keep remembers a sealed secret until it is known to be written down, so that
// a write that has to be made again seals no second one.
func (m *memory) keep(id, ref string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sealed == nil || len(m.sealed) >= maxRemembered { // others may have written them down
		m.sealed = map[string]string{}
	}
	m.sealed[id] = ref
}

// drop forgets a sealed secret that is written down.
func (m *memory) drop(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sealed, id)
}

func (m *memory) kept(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sealed[id]
}
