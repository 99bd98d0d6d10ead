package app

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// dryRun tells what would be made, and touches nothing but a directory of its own.
func (b *bootstrap) dryRun(ctx context.Context) error {
	handed, err := b.begun(ctx)
	if err != nil {
		return err
	}
	if handed != nil {
		b.report.Outcome, b.report.Server = "unchanged", handed.To
		return nil
	}
	temp, err := os.MkdirTemp("", "drover-bootstrap-")
	if err != nil {
		return fault.New(fault.Invalid, "cannot make a directory for the plan: %w", err)
	}
	defer os.RemoveAll(temp)
	for i, c := range b.where.connections {
		if c.Executor == "process" { // there are no programs yet
			own, _ := b.processes(temp, c.Options["path"])
			b.where.connections[i] = own
		}
	}
	if b.where.kind == "local" {
		if err := b.where.ready(ctx); err != nil {
			return err
		}
	}
	b.report.Outcome = "planned"
	return b.work(ctx, filepath.Join(temp, "ledger"), func(ctx context.Context, s *Server) error {
		order := environment.PlanOrder{Environment: metaName, Parameters: b.where.parameters}
		var err error
		if order.Template, err = b.template(ctx, s, ""); err != nil {
			return err
		}
		if b.where.absent != nil && b.where.absent(ctx) {
			return b.list(ctx, s, order.Template)
		}
		return b.show(ctx, s, order)
	})
}

// begun tells to whom the environment was handed over; nil: nothing is there. It is
// asked of a ledger that nobody works on: what was begun is not gone on with for a plan.
func (b *bootstrap) begun(ctx context.Context) (*environment.Handed, error) {
	if !b.begins() {
		return nil, nil
	}
	unlock, err := lockState(b.State)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := b.laptop(ctx, b.ledgerDir())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	o, err := s.environments.Get(ctx, metaName)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := environment.Decode(o)
	if err == nil && e.Spec.Handed == nil {
		err = fault.New(fault.Conflict, "it was begun, and is %s: run it without --dry-run, which goes on with it, or destroy it", e.Phase).Because("begun")
	}
	return e.Spec.Handed, err
}

// list tells what a template makes where there is nothing yet that could be asked.
func (b *bootstrap) list(ctx context.Context, s *Server, version string) error {
	sum, err := versionOf(ctx, s, version)
	if err != nil {
		return err
	}
	b.tell("plan", b.Namespace, "create", "there is no such namespace")
	for _, name := range sum.Resources {
		b.tell("plan", name, "create", "if the parameters want it")
	}
	return nil
}

// show makes a plan and tells each of its changes.
func (b *bootstrap) show(ctx context.Context, s *Server, order environment.PlanOrder) error {
	o, err := s.environments.Plan(ctx, order)
	if err != nil {
		return err
	}
	for o.Phase == environment.Planning {
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		if o, err = s.ledger.Get(ctx, ledger.Ref{Kind: environment.KindPlan.Name, ID: o.ID}); err != nil {
			return err
		}
	}
	p, err := environment.DecodePlan(o)
	if err != nil {
		return err
	}
	if p.Phase != environment.Planned {
		return fault.New(fault.Invalid, "the plan is %s: %s", p.Phase, p.Status.Message).Because("plan")
	}
	changes, err := s.environments.Changes(ctx, o)
	if err != nil {
		return err
	}
	for _, c := range changes {
		b.Tell(BootstrapEvent{Step: "plan", Name: c.Address, Executor: c.Executor, Phase: string(c.Action), Message: c.Why, Seconds: time.Since(b.began).Seconds()})
	}
	return nil
}
