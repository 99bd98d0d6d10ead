package audit

import (
	"context"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// Erase takes the content of a change away, for good, and tells whose it was. That there
// was one, who wrote it and when stays, and the proof of it. Faults: NotFound; Conflict
// (reason "present": its object is still what it says; "unsealed": a minute later it can be;
// "record": it is what proves other things).
func (s *Service) Erase(ctx context.Context, seq int64) (ledger.Ref, error) {
	found, err := s.Store.Entries(ctx, seq-1, 1)
	if err != nil {
		return ledger.Ref{}, err
	}
	if len(found) == 0 || found[0].Seq != seq {
		return ledger.Ref{}, fault.New(fault.NotFound, "there is no change %d", seq)
	}
	ref := found[0].Ref()
	if ref.Kind == Kind.Name || ref.Kind == operation.AuditKind.Name {
		return ref, fault.New(fault.Conflict, "change %d is of %s: the keys of the log, and the record of who called, are never erased", seq, ref).Because("record")
	}
	return ref, s.Store.Erase(ctx, seq)
}
