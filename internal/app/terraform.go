package app

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/provider"
	"github.com/droverhq/drover/internal/resilience"
)

// terraformer applies steps to clusters that the control plane reaches. It keeps
// connections, because each begins with a look at what the cluster serves.
type terraformer struct {
	policies *resilience.Group // by kubeconfig: one cluster that hangs is its own trouble

	mu    sync.Mutex
	known map[[sha256.Size]byte]*manifest.Client // by kubeconfig
}

// newTerraformer makes one. Nothing is applied twice by its policy: the loop comes again.
func newTerraformer(observer resilience.Observer) *terraformer {
	return &terraformer{policies: resilience.NewGroup(resilience.Config{
		Name: toClusters, Timeout: 10 * time.Minute, Retries: -1, AtOnce: 4, Queue: 10 * time.Second, Observer: observer,
	})}
}

// reach makes one call to a cluster.
func (t *terraformer) reach(ctx context.Context, kubeconfig []byte, call func(ctx context.Context, c *manifest.Client) error) error {
	c, err := t.open(kubeconfig)
	if err != nil {
		return err
	}
	key := sha256.Sum256(kubeconfig)
	return t.policies.Of(string(key[:])).Once(ctx, func(ctx context.Context) error { return call(ctx, c) })
}

// maxReached is how many connections are kept.
const maxReached = 64

func (t *terraformer) open(kubeconfig []byte) (*manifest.Client, error) {
	key := sha256.Sum256(kubeconfig)
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.known[key]; c != nil {
		return c, nil
	}
	c, err := manifest.Open(manifest.Config{Kubeconfig: kubeconfig})
	if err != nil {
		return nil, err
	}
	if t.known == nil || len(t.known) >= maxReached {
		t.known = map[[sha256.Size]byte]*manifest.Client{}
	}
	t.known[key] = c
	return c, nil
}

// stepOwner marks what a step applied.
func stepOwner(step cluster.StepItem) string { return "step." + step.ID }

func stepSet(step cluster.StepItem) (manifest.Set, string, error) {
	var body struct {
		Manifests []map[string]any `json:"manifests"`
		Ready     string           `json:"ready"`
	}
	if err := json.Unmarshal(step.Body, &body); err != nil {
		return manifest.Set{}, "", fault.New(fault.Internal, "cannot read step %s", step.ID)
	}
	// What somebody else changed about them is corrected.
	return manifest.Set{Owner: stepOwner(step), Objects: body.Manifests, Force: true, Adopt: step.Adopt}, body.Ready, nil
}

// Inventory implements cluster.Terraformer.
func (t *terraformer) Inventory(ctx context.Context, kubeconfig []byte, step cluster.StepItem) ([]string, error) {
	set, _, err := stepSet(step)
	if err != nil {
		return nil, err
	}
	var out []string
	err = t.reach(ctx, kubeconfig, func(ctx context.Context, c *manifest.Client) (err error) {
		out, err = c.Inventory(ctx, set)
		return err
	})
	return out, err
}

// Apply implements cluster.Terraformer. Namespaces and definitions of kinds stay
// when a step has them no longer: everything in and of them would go with them,
// tenants' instances included.
func (t *terraformer) Apply(ctx context.Context, kubeconfig []byte, step cluster.StepItem, inventory []string) (cluster.StepResult, error) {
	set, ready, err := stepSet(step)
	if err != nil {
		return cluster.StepResult{}, err
	}
	var out cluster.StepResult
	err = t.reach(ctx, kubeconfig, func(ctx context.Context, c *manifest.Client) (err error) {
		out, err = apply(ctx, c, set, ready, step.Unwatched, inventory)
		return err
	})
	return out, err
}

func apply(ctx context.Context, c *manifest.Client, set manifest.Set, ready string, unwatched bool, inventory []string) (cluster.StepResult, error) {
	applied, err := c.Apply(ctx, set)
	out := cluster.StepResult{Inventory: manifest.Union(inventory, applied.Inventory)}
	if err != nil {
		return out, err
	}
	pruned, err := c.Prune(ctx, manifest.Pruning{Owner: set.Owner, Before: inventory, After: applied.Inventory})
	if err != nil {
		return out, err
	}
	out.Inventory = manifest.Union(applied.Inventory, pruned.Going, pruned.Kept)
	health, err := c.Health(ctx, manifest.Checking{Inventory: applied.Inventory, Ready: ready})
	switch {
	case err != nil:
		return out, err
	case unwatched:
		out.Ready, out.Message = true, health.Message
		return out, nil
	case health.Failed:
		return out, fault.New(fault.Conflict, "%s", health.Message)
	}
	out.Ready, out.Message = health.Ready, health.Message
	return out, nil
}

// Missing implements cluster.Terraformer.
func (t *terraformer) Missing(ctx context.Context, kubeconfig []byte, inventory []string) ([]string, error) {
	var out []string
	err := t.reach(ctx, kubeconfig, func(ctx context.Context, c *manifest.Client) error {
		for _, name := range inventory {
			id, err := manifest.Parse(name)
			if err != nil {
				return err
			}
			there, err := c.Look(ctx, id)
			if err != nil {
				return err
			}
			if there == nil {
				out = append(out, name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// firstToken is what the agent of a cluster connects with first; then it is given others.
func (s *Server) firstToken(ctx context.Context, clusterID string) (string, error) {
	o, err := s.clusters.Get(ctx, clusterID)
	if err != nil {
		return "", err
	}
	_, status, err := cluster.Decode(o)
	if err != nil {
		return "", err
	}
	token, _, err := s.issuer.Issue(ctx, access.Claims{Cluster: clusterID, NotOlder: status.Anew}, firstTTL)
	return token, err
}

// firstTTL is how long an agent has to connect for the first time.
const firstTTL = 7 * 24 * time.Hour

// Remove implements cluster.Terraformer. Namespaces and definitions of kinds
// stay, as with Apply.
func (t *terraformer) Remove(ctx context.Context, kubeconfig []byte, step cluster.StepItem, inventory []string) error {
	var pruned manifest.Pruned
	err := t.reach(ctx, kubeconfig, func(ctx context.Context, c *manifest.Client) (err error) {
		pruned, err = c.Prune(ctx, manifest.Pruning{Owner: stepOwner(step), Before: inventory})
		return err
	})
	if err == nil && !pruned.Done() {
		err = fault.New(fault.Unavailable, "%s", pruned.Message)
	}
	return err
}

// clusterMakers opens what makes clusters.
func (s *Server) clusterMakers() (map[string]provider.Provider, error) {
	settings, err := providerSettings(s.cfg.Providers, s.cfg.DataDir)
	if err != nil {
		return nil, err
	}
	out := map[string]provider.Provider{}
	for name, open := range clusterProviders {
		made, err := open(settings[name])
		if err != nil {
			return nil, err
		}
		if _, checks := made.(provider.Checker); !checks { // one that tells beforehand makes nothing: its clusters are there
			made = &maker{Provider: made, policy: resilience.New(makerConfig(name, s.calls))}
		}
		out[name] = made
	}
	return out, nil
}

// makeTime is how long one run of a maker may take: clouds are slow.
const makeTime = 2 * time.Hour

func makerConfig(name string, observer resilience.Observer) resilience.Config {
	return resilience.Config{
		Name: "the maker of clusters " + name, Timeout: makeTime, Retries: -1, Failures: -1, AtOnce: 16, Queue: 10 * time.Second, Observer: observer,
	}
}

// maker is a provider of clusters with a deadline and a bound of runs. It has no
// breaker: what fails for one cluster may well work for another, and the loop pauses
// for each.
type maker struct {
	provider.Provider
	policy *resilience.Policy
}

// Ensure implements provider.Provider.
func (m *maker) Ensure(ctx context.Context, c provider.Cluster) (p provider.Progress, err error) {
	err = m.policy.Once(ctx, func(ctx context.Context) (err error) { p, err = m.Provider.Ensure(ctx, c); return err })
	return p, err
}

// Remove implements provider.Provider.
func (m *maker) Remove(ctx context.Context, c provider.Cluster) (p provider.Progress, err error) {
	err = m.policy.Once(ctx, func(ctx context.Context) (err error) { p, err = m.Provider.Remove(ctx, c); return err })
	return p, err
}

// providerOptions are what can be said of each provider of clusters.
var providerOptions = map[string][]string{"template": {"binary"}}

// providerSettings sorts options, <provider>.<option>=value, by their providers.
func providerSettings(list []string, dataDir string) (map[string]map[string]string, error) {
	out := map[string]map[string]string{"template": {"work": filepath.Join(dataDir, "clusters")}}
	var known []string
	for name, keys := range providerOptions {
		for _, key := range keys {
			known = append(known, name+"."+key)
		}
	}
	slices.Sort(known)
	given := pairs(list)
	if err := given.check("provider-options", known...); err != nil {
		return nil, err
	}
	for name, value := range given {
		of, key, _ := strings.Cut(name, ".")
		out[of][key] = value
	}
	return out, nil
}

// around is what the expressions of steps see of this server.
func (s *Server) around() (offering.SSOFacts, offering.ServerFacts) {
	at := s.outside.sso.Endpoints()
	return offering.SSOFacts{Issuer: at.Issuer, Token: at.TokenURL, JWKS: at.JWKSURL, Base: at.BaseURL, Realm: at.Realm},
		offering.ServerFacts{URL: s.publicURL()}
}

// hosted tells what instances run on a cluster.
type hosted struct{ ledger ledger.Reader }

// On implements cluster.Hosted.
func (h hosted) On(ctx context.Context, id string, limit int) ([]string, int64, error) {
	query := ledger.Query{Kind: instance.Kind.Name, Scope: map[string]any{"cluster": id}, Order: []ledger.Order{{Column: "created"}}, Limit: limit}
	found, err := h.ledger.List(ctx, query) // with their fields: brief ones have none
	if err != nil {
		return nil, 0, err
	}
	total, err := h.ledger.Total(ctx, query)
	names := make([]string, len(found))
	for i, o := range found {
		sold, _ := o.Fields["offering"].(string)
		names[i] = sold + " " + o.Name
	}
	return slices.Clip(names), max(total, int64(len(names))), err
}

// left names the cluster that an instance has left.
func left(c ledger.Change) string {
	if c.Object.Kind != instance.Kind.Name || c.Object.Deleted.IsZero() {
		return ""
	}
	id, _ := c.Object.Fields["cluster"].(string)
	return id
}
