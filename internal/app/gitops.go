package app

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/kubeapi/remote"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/resilience"
)

// deploymentRooms puts deployments together.
func (s *Server) deploymentRooms() error {
	given := pairs(s.cfg.GitOps)
	if err := given.check("gitops-options", "engines", "home", "known-hosts", "kubeconfig", "poll"); err != nil {
		return err
	}
	c := gitops.Config{Store: s.ledger, Keeper: s.ledger, Engines: engines{s.ledger}, Tenants: s.policy, Source: s.git, Prober: s.git, Observer: s.calls}
	var err error
	if file := given["known-hosts"]; file != "" {
		if c.KnownHosts, err = os.ReadFile(file); err != nil {
			return fault.New(fault.Invalid, "--gitops-options known-hosts: %w", err)
		}
	}
	if text := given["poll"]; text != "" {
		if c.Poll, err = time.ParseDuration(text); err != nil || c.Poll < time.Second {
			return fault.New(fault.Invalid, "--gitops-options poll is a time such as 1m, and %q is not", text)
		}
	}
	c.Remote = remote.New(remote.Config{Resilience: resilience.Config{Observer: s.calls}, Wrap: unreliable()}) // it has a policy itself
	home, err := openHome(given, s.calls)
	if err != nil {
		return err
	}
	if home != nil {
		c.Mirror = home
	}
	s.deployments = gitops.NewService(c)
	if home != nil {
		s.home = home
		s.controllers = kubeapi.New(kubeapi.Config{
			Home: home, Service: s.deployments, Engine: chosen(given["engines"]), Tally: s.ledger, Argo: s.argo, Logger: s.log,
			Admit: func(ctx context.Context, identity string) error {
				return s.deployments.AdmitHome(ctx, home.Name, identity)
			},
		})
		s.metrics.MustRegister(s.controllers)
		s.log.Info("follows the custom resources of a Kubernetes API", "home", home.Name, "engines", given["engines"])
		if given["engines"] == "" {
			s.log.Warn("no cluster is named that carries out what custom resources ask for: deployments wait until one is, by --gitops-options engines=CLUSTER")
		}
	} else if given["engines"] != "" || given["home"] != "" {
		return fault.New(fault.Invalid, "--gitops-options engines and home say who carries out the custom resources of a Kubernetes API: name that too, with kubeconfig=FILE or kubeconfig=in-cluster")
	}
	return nil
}

// argo adds up what the agents beside Argo CDs have counted. One that is not heard of
// would be told as it was.
func (s *Server) argo(ctx context.Context) (sum kubeapi.Argo, err error) {
	all, err := s.clusters.All(ctx)
	for _, k := range all {
		if p := k.Status.Platform; k.Status.Session != "" {
			sum.Applications, sum.Reconciled, sum.Operations = sum.Applications+p.Applications, sum.Reconciled+p.Reconciled, sum.Operations+p.Operations
		}
	}
	return sum, err
}

// openHome reaches the Kubernetes API whose custom resources are followed; nil:
// there is none.
func openHome(given options, observer resilience.Observer) (*kubeapi.Home, error) {
	file := given["kubeconfig"]
	if file == "" {
		return nil, nil
	}
	a := kubeapi.Access{Name: cmp.Or(given["home"], "default"), Wrap: line(toCustom, observer)}
	if file != "in-cluster" {
		var err error
		if a.Kubeconfig, err = os.ReadFile(file); err != nil {
			return nil, fault.New(fault.Invalid, "--gitops-options kubeconfig: %w", err)
		}
	}
	return kubeapi.Open(a)
}

// chosen picks the engine of a namespace: the one of its label if that is among
// those that the operator has named, else the first of them; none where none is
// named, whatever the label says.
func chosen(engines string) func(label string) string {
	all := strings.FieldsFunc(engines, func(r rune) bool { return r == ':' })
	return func(label string) string {
		switch {
		case len(all) == 0:
			return ""
		case slices.Contains(all, label):
			return label
		}
		return all[0]
	}
}

// deployed tells what deployments a cluster's agent carries out. Those that a
// selector has made are left out: they come and go with clusters.
type deployed struct{ ledger ledger.Reader }

// On implements cluster.Hosted.
func (d deployed) On(ctx context.Context, id string, limit int) (names []string, total int64, err error) {
	const page = 1000
	for after := ""; ; {
		found, err := d.ledger.List(ctx, ledger.Query{Kind: gitops.KindDeployment.Name, Scope: map[string]any{"engine": id}, AfterID: after, Limit: page})
		if err != nil {
			return nil, 0, err
		}
		for _, o := range found {
			if after = o.ID; o.Parent != o.Fields["workspace"] {
				continue
			}
			if total++; len(names) < limit {
				names = append(names, o.Name)
			}
		}
		if len(found) < page {
			return names, total, nil
		}
	}
}

// engines are the clusters of the fleet as deployments see them.
type engines struct{ store ledger.Reader }

// Engine implements gitops.Engines.
func (e engines) Engine(ctx context.Context, id string) (gitops.Engine, error) {
	o, err := e.store.Get(ctx, ledger.Ref{Kind: cluster.Kind.Name, ID: id})
	if err != nil {
		return gitops.Engine{}, err
	}
	if !o.Deleted.IsZero() {
		return gitops.Engine{}, fault.New(fault.NotFound, "there is no cluster %q any more", id)
	}
	return engineOf(o)
}

// Engines implements gitops.Engines.
func (e engines) Engines(ctx context.Context) (out []gitops.Engine, err error) {
	const page = 1000
	for after := ""; ; {
		found, err := e.store.List(ctx, ledger.Query{Kind: cluster.Kind.Name, AfterID: after, Limit: page})
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			one, err := engineOf(o)
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
		if len(found) < page {
			return out, nil
		}
		after = found[len(found)-1].ID
	}
}

func engineOf(o ledger.Object) (gitops.Engine, error) {
	spec, status, err := cluster.Decode(o)
	if err != nil {
		return gitops.Engine{}, err
	}
	labels := map[string]string{"provider": spec.Provider, "region": spec.Region}
	maps.Copy(labels, spec.Labels)
	quiet := ""
	if o.Phase == cluster.Waiting && status.Session == "" && status.Platform.Kind != "" {
		quiet = cmp.Or(status.Message, "nothing is heard of its agent")
	}
	return gitops.Engine{Quiet: quiet, ID: o.ID, Org: spec.Org, Runtime: status.Platform.Kind, Labels: labels, Ready: o.Phase == cluster.Ready,
		Leaving: spec.Deleted || o.Phase == cluster.Deprovisioning || o.Phase == cluster.Cleanup || o.Phase == cluster.Abandoned}, nil
}

// RightsConfig says what an agent deploys.
type RightsConfig = cluster.RightsConfig

// Rights are what an agent needs on its cluster to carry deployments out.
func Rights(c RightsConfig) ([]byte, error) { return cluster.Rights(c) }

// Manifests are what a Kubernetes API needs for deployments by custom resources.
func Manifests() []byte { return kubeapi.Manifests() }

// Webhook registers the webhook that warns of sync runs with a Kubernetes API.
func Webhook(url string, authority []byte) ([]byte, error) { return kubeapi.WebhookAt(url, authority) }
