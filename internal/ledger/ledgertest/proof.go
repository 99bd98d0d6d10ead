package ledgertest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

var sealing = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, ed25519.SeedSize))

// sealAll seals what is there in blocks of a size.
func (h hand) sealAll(size int) {
	h.tb.Helper()
	for {
		last, err := h.Blocks(h.ctx, 0, -1)
		if err != nil {
			h.tb.Fatalf("cannot read the last block: %v", err)
		}
		var before *ledger.Block
		after := int64(0)
		if len(last) > 0 {
			before, after = &last[0], last[0].Last
		}
		entries, err := h.Entries(h.ctx, after, size)
		if err != nil {
			h.tb.Fatalf("cannot read entries: %v", err)
		}
		if len(entries) == 0 {
			return
		}
		head := h.head()
		b := ledger.NewBlock(head, before, entries, time.Now())
		b.Sign(head.Ledger, sealing)
		if err := h.AppendBlock(h.ctx, b); err != nil && fault.Reason(err) != "sealed" {
			h.tb.Fatalf("cannot append block %d: %v", b.Number, err)
		}
	}
}

func (h hand) verification() ledger.Verification {
	public := sealing.Public().(ed25519.PublicKey)
	return ledger.Verification{Keys: []ledger.SealKey{ledger.NewSealKey(h.head().Ledger, public, time.Now(), sealing)}, Kinds: []string{"beast", "cage"}}
}

// sound verifies everything.
func (h hand) sound(what string) ledger.Report {
	h.tb.Helper()
	r, err := h.verification().Run(h.ctx, h.Ledger)
	if err != nil {
		h.tb.Fatalf("%s: cannot verify: %v", what, err)
	}
	if r.Flaw != nil {
		h.tb.Fatalf("%s: %v", what, r.Flaw)
	}
	return r
}

// truncate writes the checkpoint of a block.
func (h hand) truncate(block int64) ledger.Checkpoint {
	h.tb.Helper()
	c, err := h.verification().Checkpoint(h.ctx, h.Ledger, block, time.Now())
	if err == nil {
		c.Sign(h.head().Ledger, sealing)
		err = h.Truncate(h.ctx, c)
	}
	if err != nil {
		h.tb.Fatalf("cannot truncate to block %d: %v", block, err)
	}
	return c
}

// prune drops everything, and has each step looked at.
func (h hand) prune(step func()) {
	h.tb.Helper()
	for more := true; more; step() {
		var err error
		if more, err = h.Prune(h.ctx); err != nil {
			h.tb.Fatalf("cannot prune: %v", err)
		}
	}
}

// herd writes n changes of a few objects, of every shape.
func (h hand) herd(n int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	for i := range n {
		ref := []ledger.Ref{beast("a"), beast("b"), beast("ü\"\n"), cage("a"), cage("c")}[rnd.IntN(5)]
		o, err := h.Get(h.ctx, ref)
		if err != nil && !fault.Is(err, fault.NotFound) {
			h.tb.Fatalf("cannot get %s: %v", ref, err)
		}
		expect := o.Version
		o.Ref, o.Org, o.Name = ref, "acme", fmt.Sprint(i)
		o.Labels = map[string]string{"n": fmt.Sprint(i), "<&>": "\u2028"}
		o.Spec = json.RawMessage(fmt.Sprintf("{ \"n\": %d.50e1,\n\t\"t\": \"\\u00e9<\"}", i))
		if ref.Kind == "beast" {
			o.Fields = ledger.Fields{"legs": int64(1)<<62 + int64(i), "born": time.UnixMicro(int64(i)).UTC(), "tame": i%2 == 0}
			o.Links, o.Words = []string{"cage/a", "external/x"}, "wild thing"
		}
		if i%7 == 0 {
			o.Deleted = time.UnixMicro(int64(i) + 1).UTC()
		}
		h.put(o, expect, "step")
	}
}

// testProof seals, and reads back what was sealed.
func testProof(r *rig) {
	r.sound("an empty ledger")
	r.herd(25, 1)
	r.sound("nothing is sealed")
	r.sealAll(10)
	if got := r.sound("all is sealed"); got.Blocks != 3 || got.Changes != 25 || got.Unsealed != 0 || got.Objects != 5 {
		r.Fatalf("25 changes of 5 objects in blocks of 10 are %+v", got)
	}
	r.herd(3, 2)
	if got := r.sound("three are new"); got.Unsealed != 3 {
		r.Fatalf("three changes are not sealed, it saw %+v", got)
	}
	blocks, err := r.Blocks(r.ctx, 1, 10)
	if err != nil || len(blocks) != 2 || blocks[0].Number != 2 || len(blocks[0].Seals) != 10 {
		r.Fatalf("the blocks after the first are %+v, %v", blocks, err)
	}
	newest, err := r.Blocks(r.ctx, 0, -2)
	if err != nil || len(newest) != 2 || newest[0].Number != 3 || len(newest[0].Seals) != 0 {
		r.Fatalf("the newest two blocks are %+v, %v", newest, err)
	}
	head := r.head()
	r.same(newest[0].Hash(head.Ledger), blocks[1].Hash(head.Ledger), "the hash of a block that is read twice")

	entries, err := r.Entries(r.ctx, 25, 2)
	if err != nil || len(entries) != 2 || entries[0].Seq != 26 {
		r.Fatalf("the entries after 25 are %+v, %v", entries, err)
	}
	b := ledger.NewBlock(head, &newest[0], entries, time.Now())
	b.Sign(head.Ledger, sealing)
	again := ledger.NewBlock(head, &newest[0], entries, time.Now())
	again.Sign(head.Ledger, sealing)
	far := b
	far.Number = 9
	r.wantFault(r.AppendBlock(r.ctx, far), fault.Invalid, "")
	if err := r.AppendBlock(r.ctx, b); err != nil {
		r.Fatalf("cannot append: %v", err)
	}
	r.wantFault(r.AppendBlock(r.ctx, again), fault.Conflict, "sealed") // the other one's
	r.sound("the fourth block")
	l := r.store.Reopen(r.T)
	r.on(l).sound("after a restart")
}

// testProofRace has several replicas seal and verify beside writers.
func testProofRace(r *rig) {
	const writers, each = 4, 25
	ledgers := r.replicas(3)
	var writing atomic.Int64
	writing.Store(writers)
	race(ledgers, writers+3, func(i int, l ledger.Ledger) {
		h := r.on(l)
		if i >= writers {
			for n := 0; writing.Load() > 0; n++ {
				h.sealAll(7)
				if rep, err := h.verification().Run(r.ctx, l); err != nil || rep.Flaw != nil {
					r.Errorf("beside writers: %v, %v", rep.Flaw, err)
					return
				}
			}
			return
		}
		defer writing.Add(-1)
		for n := range each {
			ref := beast(id("w", i*each+n%5))
			o, err := l.Get(r.ctx, ref)
			if err != nil && !fault.Is(err, fault.NotFound) {
				r.Errorf("cannot get: %v", err)
				return
			}
			expect := o.Version
			o.Ref, o.Name = ref, fmt.Sprint(n)
			if _, err := l.Commit(r.ctx, by(ledger.Put{Object: o, Expect: expect, Op: "step"})); err != nil {
				r.Errorf("cannot commit: %v", err)
				return
			}
		}
	})
	r.sealAll(7)
	if got := r.sound("afterwards"); got.Changes != writers*each {
		r.Fatalf("of %d changes it saw %+v", writers*each, got)
	}
}

// testTruncate checks what is left of the past, and that everybody who asks for
// what is gone is told.
func testTruncate(r *rig) {
	r.herd(40, 5)
	r.sealAll(10)
	all := r.changes(ledger.ChangeQuery{})
	edge := all[19]
	r.wantFault(r.Truncate(r.ctx, ledger.Checkpoint{Block: 2, Last: 19, Signature: []byte{1}}), fault.Invalid, "")
	c := r.truncate(2)
	check := func() {
		r.sound("a truncated log")
		head := r.head()
		if head.Whole != 20 || !head.Since.Equal(edge.At) || head.Seq != 40 || c.Last != 20 {
			r.Fatalf("the head is %+v, the checkpoint %+v", head, c)
		}
		for _, after := range []int64{-1, 0, 1, 19} {
			for _, q := range []ledger.ChangeQuery{{After: after}, {After: after, Until: 30}, {After: after, Kind: "beast", ID: "a"}, {After: after, Org: "nobody"}, {After: after, Until: 10}} {
				_, err := r.Changes(r.ctx, q)
				r.wantFault(err, fault.NotFound, "truncated")
			}
		}
		r.same(r.changes(ledger.ChangeQuery{After: 20}), all[20:], "what is after the checkpoint", lenient, sameJSON)
		if got := r.changes(ledger.ChangeQuery{After: 20, Kind: "unicorn"}); len(got) != 0 {
			r.Fatalf("of a kind that there is not there are %+v", got)
		}
		back := r.changes(ledger.ChangeQuery{Reverse: true})
		if len(back) != 20 || back[19].Seq != 21 {
			r.Fatalf("whoever looks back sees %d changes, the oldest %d", len(back), back[len(back)-1].Seq)
		}
		for n, want := range all {
			for _, m := range []ledger.Moment{{Seq: want.Seq}, {Time: want.At}} {
				got, err := r.At(r.ctx, want.Object.Ref, m)
				if early := m.Seq > 0 && m.Seq < 20 || m.Seq == 0 && want.At.Before(edge.At); early {
					r.wantFault(err, fault.NotFound, "truncated")
				} else if err != nil || m.Seq > 0 && got.Seq != want.Seq {
					r.Fatalf("at change %d (%v) it was %+v, %v", n+1, m, got.Seq, err)
				}
			}
		}
	}
	check()
	last := map[ledger.Ref]int64{}
	for _, x := range all[:20] {
		last[x.Object.Ref] = x.Seq
	}
	r.prune(check)
	left := r.changes(ledger.ChangeQuery{Left: true})
	if len(left) != 20+len(last) {
		r.Fatalf("%d changes are left, want those of %d objects and 20", len(left), len(last))
	}
	for _, x := range left[:len(last)] {
		if last[x.Object.Ref] != x.Seq {
			r.Fatalf("of %s change %d is left, want %d", x.Object.Ref, x.Seq, last[x.Object.Ref])
		}
	}
	if c.Count != int64(len(last)) {
		r.Fatalf("the checkpoint keeps %d changes, want %d", c.Count, len(last))
	}
	feed := ledger.NewFeed(r.Ledger)
	go feed.Run(r.ctx) //nolint:errcheck // ends with the test
	if got, err := feed.Next(r.ctx, 39); err != nil || len(got) == 0 || got[0].Seq != 40 {
		r.Fatalf("the feed after 39 is %+v, %v", got, err)
	}
	_, err := feed.Next(r.ctx, 3)
	r.wantFault(err, fault.NotFound, "truncated")

	again := c
	r.wantFault(r.Truncate(r.ctx, again), fault.Conflict, "sealed")
	r.herd(5, 6)
	r.sealAll(3)
	r.truncate(4)
	r.prune(func() { r.sound("the second time") })
	if got := r.sound("truncated twice"); got.Truncated != 40 || got.Changes != int64(len(last))+5 {
		r.Fatalf("truncated twice it is %+v", got)
	}
	if more, err := r.Prune(r.ctx); more || err != nil {
		r.Fatalf("there is more to prune: %v, %v", more, err)
	}
	r.on(r.store.Reopen(r.T)).sound("after a restart")
}

// testErase takes contents away.
func testErase(r *rig) {
	o := r.put(ledger.Object{Ref: cage("a"), Org: "acme", Spec: json.RawMessage(`{"card":"4111"}`)}, 0, "create")
	r.wantFault(r.Erase(r.ctx, 1), fault.Conflict, "present")
	o.Spec = json.RawMessage(`{}`)
	r.put(o, 1, "update")
	r.wantFault(r.Erase(r.ctx, 1), fault.Conflict, "unsealed")
	r.herd(8, 9)
	r.sealAll(100)
	r.wantFault(r.Erase(r.ctx, 99), fault.NotFound, "")
	for range 2 { // the second does nothing
		if err := r.Erase(r.ctx, 1); err != nil {
			r.Fatalf("cannot erase: %v", err)
		}
	}
	if got := r.sound("erased"); got.Erased != 1 {
		r.Fatalf("one was erased: %+v", got)
	}
	first := r.changes(ledger.ChangeQuery{Limit: 1})[0]
	want := ledger.Object{Ref: cage("a"), Org: "acme", Version: 1, Updated: first.At}
	if first.Actor != "alice" || first.Op != "create" {
		r.Fatalf("of an erased change %+v is left", first)
	}
	r.same(first.Object, want, "an erased object")
	entries, err := r.Entries(r.ctx, 0, 100)
	if err != nil || slices.ContainsFunc(entries, func(e ledger.Entry) bool { return bytes.Contains(e.State, []byte("4111")) }) {
		r.Fatalf("it is still there, or %v", err)
	}
	if r.store.Raw != nil {
		r.truncate(1)
		r.prune(func() { r.sound("pruned") })
	}
}
