package audit_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// TestRemovedBlocksAreNotSealedAnew has an intruder who removes the newest blocks
// and edits what they were about, so that it would be signed as if it were new.
func TestRemovedBlocksAreNotSealedAnew(t *testing.T) {
	const edit = `UPDATE log SET actor = 'bob' WHERE seq = 12`
	for engine, url := range engines {
		for _, c := range []struct {
			reason  string
			do      []string
			restart bool // the server was, meanwhile
			refused bool // it is not sealed any further
		}{
			{"the last block", []string{`DELETE FROM blocks WHERE number = 3`, edit}, false, true},
			{"all blocks", []string{`DELETE FROM blocks`, edit}, false, true},
			{"the last block is another one", []string{`UPDATE blocks SET at = at + 1 WHERE number = 3`}, false, true},
			{"the last block, while no server runs: only kept heads find it", []string{`DELETE FROM blocks WHERE number = 3`, edit}, true, false},
			{"the last block, in a higher epoch: only kept heads find it", []string{`DELETE FROM blocks WHERE number = 3`, edit, `UPDATE head SET epoch = 2`}, false, false},
		} {
			t.Run(engine+" "+c.reason, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, url(t))
				w.seal()
				w.write(5)
				w.seal()
				w.write(6)
				w.seal()
				room := w.room
				kept, err := room.Heads(w.ctx, 1)
				if err != nil || kept.Heads[0].Block != 3 || kept.Heads[0].Seq != 12 {
					t.Fatalf("the heads are %+v, %v", kept.Heads, err)
				}
				w.sql(c.do...)
				if r := w.verify(kept); r.Flaw == nil {
					t.Error("against the head that was kept it holds")
				}
				if room.Store = w.store; c.restart {
					room = w.service(w.store)
				}
				w.write(1)
				for range 2 { // and not the second time either
					if _, err := room.Seal(w.ctx); c.refused && fault.Reason(err) != "flaw" || !c.refused && err != nil {
						t.Fatalf("sealing is %v", err)
					}
				}
				if r := w.verify(kept); r.Flaw == nil {
					t.Error("once it is sealed anew it holds against the head that was kept")
				}
			})
		}
	}
}

// TestAnErasedLastChangeIsFound has an intruder who knows how contents are erased, and
// erases what would tell that he has edited an object.
func TestAnErasedLastChangeIsFound(t *testing.T) {
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, url(t))
			w.seal()
			w.write(11)
			w.seal()
			blocks, err := w.store.Blocks(w.ctx, 1, 1)
			if err != nil || len(blocks) != 1 || blocks[0].Last != 12 {
				t.Fatalf("the last block is %+v, %v", blocks, err)
			}
			entries, err := w.store.Entries(w.ctx, 11, 1)
			if err != nil || len(entries) != 1 || entries[0].Seq != 12 {
				t.Fatalf("the last change is %+v, %v", entries, err)
			}
			b := blocks[0]
			n := len(b.Seals) - 1
			b.Seals[n], entries[0] = b.Seals[n].Erase(entries[0])
			w.sql(`DELETE FROM blocks WHERE number = 2`, insert(b, engine), fmt.Sprintf(`UPDATE log SET state = '%s' WHERE seq = 12`, entries[0].State),
				fmt.Sprintf(`UPDATE object_thing SET phase = '99' WHERE id = '%s'`, entries[0].ID))
			if r := w.verify(ledger.Heads{}); r.Flaw == nil || r.Flaw.Kind != ledger.FlawObject || r.Flaw.Seq != 12 {
				t.Errorf("it found %+v", r.Flaw)
			}
		})
	}
}

// TestTheChainOfOthersIsKnown has two replicas: what one has sealed the other has
// seen when it seals next.
func TestTheChainOfOthersIsKnown(t *testing.T) {
	w := newWorld(t, engines["postgres"](t))
	other := w.service(w.store)
	w.write(5)
	w.seal()
	if _, err := other.Seal(w.ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.write(5)
		w.seal()
	}
	if _, err := other.Seal(w.ctx); err != nil {
		t.Fatalf("after two blocks of the other one: %v", err)
	}
	w.sql(`DELETE FROM blocks WHERE number >= 2`)
	if _, err := other.Seal(w.ctx); fault.Reason(err) != "flaw" {
		t.Errorf("what the other one had sealed was removed, and it goes on: %v", err)
	}
	w.room = w.service(w.store) // started since, it knows no better
	w.write(10)
	w.seal()
	w.write(1)
	w.seal()
	if _, err := other.Seal(w.ctx); fault.Reason(err) != "flaw" {
		t.Errorf("another chain is longer by now, and it goes on: %v", err)
	}
}

// TestSealedIsTold: each head is told once, as it can be kept.
func TestSealedIsTold(t *testing.T) {
	w := newWorld(t, engines["sqlite"](t))
	told := ledger.Heads{}
	var err error
	w.room, err = audit.NewService(audit.Config{Store: w.store, Kinds: w.room.Kinds, Sealed: func(of string, h ledger.SealedHead) {
		told.Ledger, told.Heads = of, append([]ledger.SealedHead{h}, told.Heads...)
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.write(5)
		w.seal()
	}
	w.seal()
	want, err := w.room.Heads(w.ctx, 10)
	if err != nil || len(want.Heads) != 3 {
		t.Fatalf("the heads are %+v, %v", want, err)
	}
	if diff := cmp.Diff(want.Heads, told.Heads); diff != "" || told.Ledger != want.Ledger {
		t.Errorf("what was told of ledger %s differs:\n%s", told.Ledger, diff)
	}
	if r := w.verify(told); r.Flaw != nil || r.Heads != 3 {
		t.Errorf("against what was told it is %+v", r)
	}
}
