package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

// kubernetesPlane applies instances to the cluster that the agent runs in, or
// to the one of a kubeconfig. The agent's own state is kept there too, so that
// each of its replicas can take over.
func kubernetesPlane(c AgentSettings, calls agentCalls) (*dataPlane, error) {
	log := calls.log
	cfg, err := kubernetes.Options(c.RuntimeOptions, kubernetes.Config{Capacity: c.Capacity, Lease: "drover-agent", Logger: log, Wrap: line(toOwn, calls)})
	if err != nil {
		return nil, err
	}
	rt, err := kubernetes.New(cfg)
	if err != nil {
		return nil, err
	}
	around := func(ctx context.Context, work func(context.Context) error) error {
		return inTurn(ctx, rt.Lead, work, log)
	}
	return &dataPlane{runtime: rt, store: rt.Store(), around: around, close: func() error { rt.Close(); return nil }}, nil
}

// inTurn works whenever it is this replica's turn, until the context ends or the
// work does.
func inTurn(ctx context.Context, lead func(context.Context, func(context.Context) error) error, work func(context.Context) error, log *slog.Logger) error {
	for {
		err := lead(ctx, work)
		switch {
		case ctx.Err() != nil:
			return nil
		case !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Exhausted) && fault.Reason(err) != "fenced":
			return err // a cluster without room for a lease or its mark has some again one day
		}
		log.Warn("the agent stops working on the cluster until it is its turn again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
