package gitops_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
)

// Three replicas with a loop each take the same intents, changes and ends of many
// deployments, while an agent does what it is told.
func TestThreeReplicasAtOnce(t *testing.T) {
	p := newPlant(t)
	l := p.store.Ledger
	m := &mirror{there: map[string]bool{}, told: map[string]any{}, times: map[string]int{}, released: map[string]bool{}}
	const many = 20
	for i := range many {
		m.there[fmt.Sprint("uid-", i)] = true
	}
	ctx, stop := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	services := make([]*gitops.Service, 3)
	for i := range services {
		services[i] = gitops.NewService(gitops.Config{Store: l, Keeper: l, Engines: p.engines, Mirror: m})
		loop := reconcile.New(reconcile.Config{Ledger: l, Reconcilers: services[i].Reconcilers(), Workers: 8, Holder: fmt.Sprint("replica ", i)})
		loops.Go(func() { loop.Run(ctx) })
	}
	defer loops.Wait()
	defer stop()
	all := func(change func(in *gitops.DeploymentIntent)) {
		var tell sync.WaitGroup
		for _, s := range services {
			tell.Go(func() {
				for i := range many {
					in := p.intent(fmt.Sprint("uid-", i), 1)
					in.Name = fmt.Sprint("web-", i)
					change(&in)
					if err := s.IntendDeployment(ctx, in); err != nil && fault.Reason(err) != "stale" {
						t.Errorf("%s: %v", in.UID, err)
					}
				}
			})
		}
		tell.Wait()
	}
	phase := func(want string) func() bool {
		return func() bool {
			for i := range many {
				if d := p.get(fmt.Sprint("uid-", i)); d.Phase != want || d.Status.Operation != "" {
					return false
				}
			}
			return true
		}
	}
	all(func(*gitops.DeploymentIntent) {})
	p.await(t, "deployed", phase(gitops.Deployed))
	all(func(in *gitops.DeploymentIntent) { in.Generation, in.Path = 2, "other" })
	p.await(t, "changed", phase(gitops.Deployed))
	for i := range many {
		if d := p.get(fmt.Sprint("uid-", i)); d.Spec.Path != "other" || d.Status.Issued != 2 {
			t.Errorf("%s was handed over %d times", d.ID, d.Status.Issued)
		}
	}
	all(func(in *gitops.DeploymentIntent) { in.Gone = true })
	p.await(t, "gone", phase(gitops.Gone))
	found, err := l.List(ctx, ledger.Query{Kind: "operation", Limit: 1000})
	p.must(err)
	for _, o := range found {
		if o.Phase != operation.Succeeded && o.Phase != operation.Superseded {
			t.Errorf("%s is %s", o.Name, o.Phase)
		}
	}
	if len(found) != 3*many {
		t.Errorf("%d operations of %d wishes", len(found), 3*many)
	}
}
