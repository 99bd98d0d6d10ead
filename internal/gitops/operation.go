package gitops

import (
	"cmp"
	"context"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/runtime"
)

// Types of what operations are about, as their users call them.
const (
	typeDeployment = "GitOpsDeployment"
	typeSyncRun    = "GitOpsDeploymentSyncRun"
	typeRepository = "GitOpsDeploymentRepositoryCredential"
	typeTarget     = "GitOpsDeploymentManagedEnvironment"
)

// begin starts an operation in the set; one that still runs is overtaken by it.
func (s *Service) begin(ctx context.Context, d *Deployment, verb string, set *ledger.Set) error {
	puts, err := s.endOperation(ctx, d, operation.Superseded, "a later request took its place")
	if err != nil {
		return err
	}
	about := operation.About{Type: typeDeployment, Instance: cmp.Or(d.Status.Engine, d.Status.Wanted), Owner: d.workspace()}
	start := operation.StartFor(verb, d.Object, set.Cause, about)
	d.Status.Operation = start.Object.ID
	d.Status.Shown = &runtime.DeploymentOperation{
		ID: start.Object.ID, Owner: about.Owner, Resource: d.ID, Type: about.Type, Cause: string(set.Cause), Instance: about.Instance,
	}
	set.Puts = append(append(set.Puts, puts...), start)
	return nil
}

// endOperation takes the operation from the deployment, and ends it if it runs.
func (s *Service) endOperation(ctx context.Context, d *Deployment, phase, reason string) ([]ledger.Put, error) {
	puts, err := s.ended(ctx, d.Status.Operation, d.Status.Engine, phase, reason)
	if err == nil {
		d.Status.Operation = ""
	}
	return puts, err
}

// ended ends an operation if it runs; engine is who has carried it out, if anybody.
func (s *Service) ended(ctx context.Context, id, engine, phase, reason string) ([]ledger.Put, error) {
	if id == "" {
		return nil, nil
	}
	op, err := s.Store.Get(ctx, ledger.Ref{Kind: operation.Kind.Name, ID: id})
	if fault.Is(err, fault.NotFound) || err == nil && op.Phase != operation.Running {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	put, err := operation.Finish(op, phase, reason, s.Now())
	if err == nil {
		err = operation.CarriedOut(&put.Object, engine)
	}
	return []ledger.Put{put}, err
}

// beginCheck starts the operation of a credential or a target (typed), which the control
// plane carries out itself; running is the one that is under way, and overtaken.
func (s *Service) beginCheck(ctx context.Context, verb, typed string, o ledger.Object, running *string, set *ledger.Set) error {
	puts, err := s.ended(ctx, *running, "", operation.Superseded, "a later request took its place")
	if err != nil {
		return err
	}
	start := operation.StartFor(verb, o, set.Cause, operation.About{Type: typed, Owner: o.Parent})
	*running = start.Object.ID
	set.Puts = append(append(set.Puts, puts...), start)
	return nil
}

// endCheck ends the operation that is under way; why it did not succeed, if it did not.
// It returns it as agents show it.
func (s *Service) endCheck(ctx context.Context, running *string, set *ledger.Set, why string) (*runtime.DeploymentOperation, error) {
	phase := operation.Succeeded
	if why != "" {
		phase = operation.Failed
	}
	puts, err := s.ended(ctx, *running, "", phase, why)
	if err != nil {
		return nil, err
	}
	*running, set.Puts = "", append(set.Puts, puts...)
	if len(puts) == 0 {
		return nil, nil
	}
	op := &puts[0].Object
	var spec operation.Spec
	var status operation.Status
	if err := decode(*op, &spec, &status); err != nil {
		return nil, err
	}
	return &runtime.DeploymentOperation{
		ID: op.ID, Owner: spec.Owner, Resource: spec.Subject.ID, Type: spec.Type, Cause: string(spec.Cause), Begun: op.Created, Ended: status.Finished,
		Why: why,
	}, nil
}

// fate tells an operation that was made from one that was refused.
func fate(op *runtime.DeploymentOperation) (made, refused *runtime.DeploymentOperation) {
	if op != nil && op.Why != "" {
		return nil, op
	}
	return op, nil
}
