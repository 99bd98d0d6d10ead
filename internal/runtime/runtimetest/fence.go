package runtimetest

import (
	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

func fence(b *bench) {
	b.apply(b.item("a", 3, 7))
	before := b.await("a", 3, runtime.Ready)
	for _, it := range []runtime.Item{b.item("a", 4, 6), {ID: "a", Generation: 4, Token: 6, Delete: true}} {
		err := b.rt.Apply(b.Context(), it)
		if !fault.Is(err, fault.Conflict) || fault.Reason(err) != "fenced" {
			b.Errorf("a lower token: got %v, want a conflict because fenced", err)
		}
	}
	if diff := cmp.Diff(before, b.observe()["a"]); diff != "" {
		b.Errorf("a fenced item changed what is: %s", diff)
	}
	b.apply(b.item("a", 4, 7))
	b.await("a", 4, runtime.Ready)
	b.apply(runtime.Item{ID: "a", Generation: 5, Token: 8, Delete: true})
	b.await("a", 5, runtime.Deleted)
	if err := b.rt.Apply(b.Context(), b.item("a", 4, 7)); fault.Reason(err) != "fenced" {
		b.Errorf("a lower token after the removal: got %v, want fenced", err)
	}
	if got := b.observe()["a"]; got.State != runtime.Deleted {
		b.Errorf("a fenced item brought back what was removed: %v", got)
	}
}

func (b *bench) fenced(it runtime.Item, why string) {
	b.Helper()
	before := b.observe()[it.ID]
	err := b.rt.Apply(b.Context(), it)
	if !fault.Is(err, fault.Conflict) || fault.Reason(err) != "fenced" {
		b.Errorf("%s: got %v, want a conflict because fenced", why, err)
	}
	if diff := cmp.Diff(before, b.observe()[it.ID]); diff != "" {
		b.Errorf("%s: it changed what is: %s", why, diff)
	}
}

// of is the item in an epoch.
func of(epoch int64, it runtime.Item) runtime.Item { it.Epoch = epoch; return it }

func epoch(b *bench) {
	b.apply(of(2, b.item("a", 3, 7)))
	b.await("a", 3, runtime.Ready)
	b.fenced(of(1, b.item("a", 4, 9)), "a lower epoch with a higher token")
	b.fenced(of(1, runtime.Item{ID: "a", Generation: 4, Token: 9, Delete: true}), "a removal of a lower epoch")
	b.fenced(of(2, b.item("a", 4, 6)), "a lower token of the same epoch")
	b.apply(of(3, b.item("a", 2, 1))) // the ledger was restored: its numbers begin lower
	b.await("a", 2, runtime.Ready)
	b.fenced(of(2, b.item("a", 9, 9)), "the epoch that ended")
	b.apply(of(3, runtime.Item{ID: "a", Generation: 3, Token: 1, Delete: true}))
	b.await("a", 3, runtime.Deleted)
}

func tombstone(b *bench) {
	b.apply(of(2, b.item("a", 1, 3)))
	b.await("a", 1, runtime.Ready)
	b.apply(of(2, runtime.Item{ID: "a", Generation: 2, Token: 4, Delete: true}))
	b.await("a", 2, runtime.Deleted)
	look := func() {
		b.fenced(of(2, b.item("a", 1, 3)), "what was there before the removal")
		b.fenced(of(1, b.item("a", 5, 9)), "an epoch before the removal")
	}
	look()
	if b.cfg.Durable {
		b.close()
		b.rt, b.close = b.cfg.Open(b.T, b.dir)
		look()
	}
	if got := b.observe()["a"]; got.State != runtime.Deleted || got.Generation != 2 {
		b.Errorf("after it: %+v", got)
	}
}

func aStep(b *bench) {
	it := b.item("s", 1, 1)
	it.Kind = "step"
	b.apply(it)
	if got := b.await("s", 1, runtime.Ready); got.Kind != "step" {
		b.Errorf("a step is told as %q", got.Kind)
	}
	if b.cfg.Durable {
		b.close()
		b.rt, b.close = b.cfg.Open(b.T, b.dir)
		if got := b.await("s", 1, runtime.Ready); got.Kind != "step" {
			b.Errorf("after a restart a step is told as %q", got.Kind)
		}
	}
	b.apply(runtime.Item{ID: "s", Kind: "step", Generation: 2, Token: 2, Delete: true})
	if got := b.await("s", 2, runtime.Deleted); got.Kind != "step" {
		b.Errorf("a removed step is told as %q", got.Kind)
	}
}
