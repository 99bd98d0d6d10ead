package command_test

import (
	"context"
	"testing"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// following is the ledger of a site that does not lead.
type following struct{ command.Store }

func (following) Commit(context.Context, ledger.Set) (ledger.Result, error) {
	return ledger.Result{}, fault.New(fault.Conflict, "this is the secondary site").Because("secondary")
}

// A command that reaches a site which has just stopped to lead is neither refused for good nor
// put aside, also where the API would have refused it: it comes again, and then it is.
func TestACommandWaitsForTheSiteThatLeads(t *testing.T) {
	w, d := atDesk(t)
	w.s.Store = following{w.store}
	next := bus.Delivery{Message: message("alice", "m1", "instance.create", "things", `{}`), Try: 1}
	for range 20 {
		err := d.handle(t.Context(), next)
		if verdict, _ := bus.Later(err, next); verdict == bus.PutAway || err == nil {
			t.Fatalf("at try %d: %v", next.Try, err)
		}
		next = next.Retried(err)
	}
	if len(d.sent) > 0 || len(w.list(t, command.Kind.Name)) > 0 {
		t.Fatalf("its sender was told %+v", d.sent)
	}
	w.s.Store = w.store
	if err := d.handle(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if all := w.list(t, command.Kind.Name); len(all) != 1 || all[0].Phase != command.Rejected {
		t.Errorf("on record is %+v", all)
	}
}
