package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/provider"
)

// Store is what the service needs of the ledger.
type Store interface {
	ledger.Committer
	ledger.Reader
}

// Tenants are what waits for room on clusters.
type Tenants interface {
	// Waiting returns the wakes of those who wait for room in a region.
	Waiting(ctx context.Context, provider, region string, limit int) ([]ledger.Wake, error)
}

// Service holds the verbs on clusters.
type Service struct {
	// Tenants are woken when there is room; nil: nobody waits.
	Tenants Tenants
	// Accounts of agents at the identity provider; nil: they have none.
	Accounts Accounts
	// Logins are clients through which people log in to clusters; nil: there are none.
	Logins Logins
	// Keeper of kubeconfigs, of what makers remember, and of steps.
	Keeper ledger.Keeper
	// Makers of clusters by name; nil: all clusters are there already.
	Makers map[string]provider.Provider
	// Offerings that clusters are made fit for; nil: none.
	Offerings Offerings
	// Terraformer applies steps where there is a kubeconfig; nil: agents do.
	Terraformer Terraformer
	// Installs puts Drover's own agent on clusters that are reached from here; nil:
	// people do.
	Installs *Installs
	// Guard is asked before changed files take many objects off a cluster; nil:
	// they may.
	Guard breaker.Guard
	// Around tells what the expressions of steps see besides the cluster; nil: nothing.
	Around func() (offering.SSOFacts, offering.ServerFacts)
	// Left names the cluster that has less to host after a change; nil: emptied
	// clusters are found when scaling next looks.
	Left func(ledger.Change) string
	// Hosted tells what runs on a cluster; nil: nobody can say.
	Hosted Hosted
	// Deployed tells what was deployed there from Git, but for what goes by itself
	// with the cluster; nil: nothing is.
	Deployed Hosted

	store   Store
	now     func() time.Time
	replica string        // names this process in sessions
	glance  time.Duration // between looks whether a cluster is still wanted while it is being made

	lives   lives   // of the replicas
	view    view    // of all clusters, for placement
	tallies tallies // of what is in use on them

	mu     sync.Mutex
	agents map[string]*session // by cluster, of agents that report to this replica

	looked   map[string]looks           // by cluster
	bodies   map[string]json.RawMessage // of steps, by digest
	profiles map[string]*compiled       // by name
}

// NewService makes the service.
func NewService(store Store) *Service {
	return &Service{store: store, now: time.Now, replica: ledger.NewID(), glance: 3 * time.Second, agents: map[string]*session{}}
}

// Register makes a cluster known under the id; an existing one is left as it is.
func (s *Service) Register(ctx context.Context, id string, spec Spec) (ledger.Object, error) {
	o, err := s.add(ctx, id, spec, 0)
	if fault.Reason(err) == "exists" {
		there, err := s.store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: id})
		if err != nil || there.Deleted.IsZero() {
			return there, err
		}
		o, err = s.add(ctx, id, spec, there.Version)
		if err == nil {
			return o, nil
		}
	}
	if err != nil {
		return ledger.Object{}, fault.New(fault.Of(err), "cannot register cluster %q: %w", id, err).Because(fault.Reason(err))
	}
	return o, nil
}

// add writes a new cluster, or one in place of what is gone since the version.
func (s *Service) add(ctx context.Context, id string, spec Spec, gone int64) (ledger.Object, error) {
	c := s.fresh(ctx, id, spec)
	c.Version = gone
	if gone > 0 {
		c.Status.Anew = s.anew()
	}
	put, err := c.put("register")
	if err != nil {
		return ledger.Object{}, err
	}
	counts, err := s.opening(ctx, id, gone)
	if err != nil {
		return ledger.Object{}, err
	}
	set := ledger.Set{
		Actor: cmp.Or(access.From(ctx).Actor(), "system"), Cause: ledger.CauseOf(ctx),
		Puts: []ledger.Put{put}, Claims: spec.names(c.Ref), Counts: counts,
	}
	if s.Accounts != nil || c.Phase != Waiting {
		set.Wakes = []ledger.Wake{{Ref: c.Ref, Org: c.Org}}
	}
	r, err := s.store.Commit(ctx, set)
	if err != nil {
		return ledger.Object{}, err
	}
	return r.Objects[0], nil
}

// anew is from when on tokens for a cluster are good that takes another's place:
// they tell whole seconds.
func (s *Service) anew() time.Time { return s.now().UTC().Truncate(time.Second) }

// fresh is a cluster that nobody knows yet. One that is there already, and that
// only its agent reaches, has nothing before it but its steps.
func (s *Service) fresh(ctx context.Context, id string, spec Spec) Cluster {
	c := Cluster{Spec: spec, Object: ledger.Object{
		Ref: ledger.Ref{Kind: Kind.Name, ID: id}, Name: id, Phase: Accepted, Org: spec.Org,
		Fields: ledger.Fields{"provider": spec.Provider, "region": spec.Region},
	}}
	if spec.Org != "" {
		c.Owner = access.From(ctx).User
	}
	if spec.Profile == "" && spec.Kubeconfig == "" {
		if c.Phase = Waiting; s.hasSteps(c) {
			c.Phase = Provisioned
		}
		if spec.Org == "" {
			c.Status.Message = neverJoined(id)
		}
	}
	return c
}

// neverJoined is what a cluster says whose agent is yet to come.
func neverJoined(id string) string {
	return "its agent has not connected yet: `drover cluster join " + id + "` prints the line that installs it"
}

// names are what a cluster is found by besides its id.
func (s Spec) names(ref ledger.Ref) []ledger.Claim {
	if s.External == "" {
		return nil
	}
	return []ledger.Claim{{Name: ledger.Name{Space: externalSpace, Name: s.External}, Holder: ref}}
}

const externalSpace = "cluster/external"

// Get returns a cluster that is there.
func (s *Service) Get(ctx context.Context, id string) (ledger.Object, error) {
	o, err := s.store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: id})
	if err == nil && !o.Deleted.IsZero() {
		return ledger.Object{}, fault.New(fault.NotFound, "cluster %.64q is gone", id)
	}
	return o, err
}

// ByExternal returns the cluster that others know under this id.
func (s *Service) ByExternal(ctx context.Context, external string) (ledger.Object, error) {
	ref, err := s.store.Lookup(ctx, ledger.Name{Space: externalSpace, Name: external})
	if err != nil {
		return ledger.Object{}, err
	}
	return s.Get(ctx, ref.ID)
}
