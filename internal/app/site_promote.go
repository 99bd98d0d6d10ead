package app

import (
	"context"
	"net/http"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/site"
	"github.com/droverhq/drover/internal/sqlledger"
)

// leaseWait is how long a promotion waits for the lease: the other's ends within that.
const leaseWait = 20 * time.Second

// Promote implements httpapi.Site. Where it is cut off in the middle it can be asked
// again: each step finds what the one before has done.
func (k *keeper) Promote(ctx context.Context, word v1.PromoteSite) (v1.Site, error) {
	k.promoting.Lock()
	defer k.promoting.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute) // whoever asked may have left
	defer cancel()
	k.mu.Lock()
	leads, witness := k.decision.State == site.Leading, k.lease != nil
	k.mu.Unlock()
	if leads {
		return k.Status(), nil
	}
	if !word.PrimaryIsGone && !witness {
		return v1.Site{}, fault.New(fault.Conflict, "say that the other site does not act and will not (`drover dr promote --primary-is-gone`), or have a witness (--witness)")
	}
	k.ask(ctx)
	k.look(ctx)
	d, err := k.worded(ctx)
	if err != nil {
		return v1.Site{}, err
	}
	defer k.unworded()
	if d.Promote {
		if err := k.begin(ctx, d); err != nil {
			return v1.Site{}, err
		}
	}
	k.look(ctx)
	k.mu.Lock()
	d = k.decision
	k.mu.Unlock()
	if d.State != site.Leading {
		return v1.Site{}, fault.New(fault.Conflict, "this site does not lead: %s", d.Why)
	}
	return k.Status(), nil
}

// worded decides with the operator's word, and gets the lease where that is missing.
func (k *keeper) worded(ctx context.Context) (site.Decision, error) {
	limit := time.Now().Add(leaseWait)
	for {
		k.mu.Lock()
		k.view.Word = true
		k.decide()
		d, next, asked := k.decision, k.view.Database.Epoch, k.asked
		if !k.view.Mine() {
			next++ // the one that a promotion begins
		}
		k.mu.Unlock()
		switch {
		case d.Promote || d.State == site.Leading:
			return d, nil
		case !d.Acquire || k.lease == nil:
			k.unworded()
			return d, fault.New(fault.Conflict, "this site cannot lead: %s", d.Why)
		case time.Now().After(limit):
			k.unworded()
			return d, fault.New(fault.Conflict, "this site cannot lead: the lease of the witness is held by %q, or the witness does not answer (%v)", k.lease.Holder(), asked)
		}
		k.hold(ctx, next)
		rested(ctx, 200*time.Millisecond)
	}
}

func (k *keeper) unworded() {
	k.mu.Lock()
	defer k.mu.Unlock()
	// A primary that leads on an operator's word goes on until it hears of the other.
	k.view.Word = k.view.Word && k.decision.State == site.Leading
	k.decide()
}

// begin promotes the database and begins the epoch. Who had it done is on record there.
func (k *keeper) begin(ctx context.Context, d site.Decision) error {
	at := k.at
	var err error
	if at.Key, err = k.needs.masterKey(ctx); err != nil { // without it a promoted database would be of no use
		return err
	}
	k.log.Warn("this site is promoted", "site", k.view.Site, "epoch", d.Epoch, "by", access.From(ctx).Actor())
	if err := k.probe.Promote(ctx); err != nil {
		return err
	}
	if k.lease != nil {
		k.hold(ctx, d.Epoch) // that took some time
		if err := k.leased(); err != nil {
			return err
		}
	}
	at.Kinds, at.Epoch, at.Site = Kinds(), d.Epoch, k.view.Site
	l, err := sqlledger.Open(ctx, at)
	if err != nil {
		return err
	}
	defer l.Close()
	who := access.From(ctx)
	request, _ := ledger.CauseOf(ctx).Request() // an entry without one is shown to nobody who asks for what people did
	put, err := operation.Audit{User: who.Actor(), Request: request, Method: http.MethodPost, Path: "/api/v1/site/promote"}.Entry(operation.AuditDone, http.StatusOK, time.Now())
	if err == nil {
		_, err = l.Commit(ctx, ledger.Set{Actor: who.Actor(), Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}})
	}
	if err != nil {
		k.log.Error("the promotion is not on record", "error", err) // it is done all the same
	}
	return nil
}

// leased tells whether the lease is had.
func (k *keeper) leased() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if site.Within(time.Now(), k.view.Until) {
		return nil
	}
	return fault.New(fault.Unavailable, "the lease of the witness was lost while the database was promoted; try again")
}
