package app

import (
	"context"

	"github.com/droverhq/drover/internal/runtime/argocd"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

// argocdPlane has deployments carried out by the Argo CD of the cluster that the
// agent runs in, and applies everything else there itself, as kubernetesPlane
// does: a cluster needs one agent.
func argocdPlane(c AgentSettings, calls agentCalls) (*dataPlane, error) {
	log, way := calls.log, line(toOwn, calls)
	cfg, rest, err := argocd.Options(c.RuntimeOptions, argocd.Config{Capacity: c.Capacity, Lease: "drover-agent-argocd", Logger: log, Wrap: way})
	if err != nil {
		return nil, err
	}
	plain, err := kubernetes.Options(rest, kubernetes.Config{Capacity: c.Capacity, Lease: "drover-agent", Logger: log, Wrap: way})
	if err != nil {
		return nil, err
	}
	beside, err := kubernetes.New(plain)
	if err != nil {
		return nil, err
	}
	rt, err := argocd.New(cfg, beside)
	if err != nil {
		return nil, err
	}
	around := func(ctx context.Context, work func(context.Context) error) error {
		return inTurn(ctx, rt.Lead, work, log)
	}
	stop := func() error {
		rt.Close()
		beside.Close()
		return nil
	}
	return &dataPlane{runtime: rt, store: rt.Store(), around: around, close: stop}, nil
}
