package command

import (
	"context"
	"slices"
	"sync"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// Committer is a ledger that writes the record of a command together with what the
// command does, in one commit: neither is there without the other.
type Committer struct {
	ledger.Committer
	Reader interface {
		Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error)
	}
}

type onceKey struct{}

// once is a command that is being carried out.
type once struct {
	mu      sync.Mutex
	command Command
	written bool
}

// with makes a context in which the first change is the command's.
func with(ctx context.Context, o *once) context.Context { return context.WithValue(ctx, onceKey{}, o) }

// ReasonTwice is that of a commit which another delivery of the same command has made
// before.
const ReasonTwice = "command-taken"

// Commit implements ledger.Committer.
func (c Committer) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	o, _ := ctx.Value(onceKey{}).(*once)
	if o == nil || !does(&set) {
		return c.Committer.Commit(ctx, set)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written {
		return c.Committer.Commit(ctx, set)
	}
	record := o.command
	record.Fields = ledger.Fields{"type": record.Spec.Type}
	record.Status.Object = set.Puts[0].Object.Ref
	for i := range set.Puts {
		if p := &set.Puts[i]; p.Object.Kind == operation.Kind.Name {
			record.Fields["operation"] = p.Object.ID
		} else if record.Status.Object.Kind == operation.Kind.Name {
			record.Status.Object = p.Object.Ref
		}
	}
	record.Fields["subject"] = record.Status.Object.String()
	put, err := record.put(Accepted)
	if err != nil {
		return ledger.Result{}, err
	}
	set.Puts = append(slices.Clip(set.Puts), put)
	set.Wakes = append(slices.Clip(set.Wakes), ledger.Wake{Ref: record.Ref, Org: record.Org})
	res, err := c.Committer.Commit(ctx, set)
	switch {
	case err == nil:
		o.written = true
		res.Objects = res.Objects[:len(res.Objects)-1] // the caller knows its own
	case fault.Reason(err) == "exists":
		if _, missing := c.Reader.Get(ctx, record.Ref); missing == nil { // it is ours that is there, not one of the caller's
			err = fault.New(fault.Conflict, "the command was taken before").Because(ReasonTwice)
		}
	}
	return res, err
}

// does tells whether a set is more than the record that somebody called.
func does(set *ledger.Set) bool {
	return slices.ContainsFunc(set.Puts, func(p ledger.Put) bool { return p.Object.Kind != operation.AuditKind.Name })
}
