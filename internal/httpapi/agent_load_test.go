package httpapi_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// faint is a ledger that goes away once, when an index has nearly been read.
type faint struct {
	ledger.Ledger
	heads *atomic.Int64
	then  func()
}

func (f faint) Head(ctx context.Context) (ledger.Head, error) {
	if f.heads.Add(1) == 2 {
		f.then()
		return ledger.Head{}, fault.New(fault.Unavailable, "the store is away")
	}
	return f.Ledger.Head(ctx)
}

// What goes while the index is loaded in vain is not in the one that is loaded after.
func TestALoadBeginsAnew(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	sue := w.place(w.create("alice", "sue").ID, "c1")
	b := w.replica(func(c *httpapi.Config) {
		c.Ledger = faint{w.ledger, &atomic.Int64{}, func() {
			w.edit(rex.ID, func(in *instance.Instance) { in.Deleted = in.Updated })
		}}
	})
	a := b.agent("c1")
	a.sync()
	if _, there := a.told[rex.ID]; there || len(a.told) != 1 || a.told[sue.ID].Body == nil {
		t.Errorf("the agent is told of %v", a.ids())
	}
}
