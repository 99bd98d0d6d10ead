package audit_test

import (
	"fmt"
	"testing"

	"github.com/droverhq/drover/internal/ledger"
)

// TestAForgedPastIsFound has an intruder who writes a change, and its seal, where
// truncation has removed one: no block tells that it is forged, for the digests of the
// others are gone.
func TestAForgedPastIsFound(t *testing.T) {
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			for _, denied := range []bool{false, true} {
				w := newWorld(t, url(t))
				w.seal()
				for range 3 {
					w.write(8)
					w.seal()
				}
				if err := w.room.Truncate(w.ctx, 3); err != nil {
					t.Fatal(err)
				}
				w.pruned()
				w.sound("truncated")
				// The second block has lost all, and the third has the last change of each.
				blocks, err := w.store.Blocks(w.ctx, 2, 1)
				if err != nil || len(blocks) != 1 || len(blocks[0].Seals) != 4 || blocks[0].Last-blocks[0].First != 7 {
					t.Fatalf("the third block is %+v, %v", blocks, err)
				}
				b := blocks[0]
				model, err := w.store.Entries(w.ctx, b.Last-1, 1)
				if err != nil || len(model) != 1 {
					t.Fatal(model, err)
				}
				forged := model[0]
				forged.Seq, forged.Actor, forged.Version = b.First, "bob", forged.Version-1
				b.Seals = append([]ledger.Seal{ledger.NewSeal(&forged)}, b.Seals...)
				do := []string{fmt.Sprintf(`DELETE FROM blocks WHERE number = %d`, b.Number), insert(b, engine),
					fmt.Sprintf(`INSERT INTO log (seq, at, actor, cause, op, kind, id, org, version, state, origin) SELECT %d, at, 'bob', cause, op, kind, id, org, version - 1, state, origin FROM log WHERE seq = %d`, b.First, b.Last)}
				if denied {
					do = append(do, `UPDATE checkpoints SET pruned = 0`)
				}
				w.sql(do...)
				r := w.verify(ledger.Heads{})
				if !denied {
					if r.Flaw == nil || r.Flaw.Kind != ledger.FlawExtra || r.Flaw.Seq != b.First {
						t.Errorf("it found %+v", r.Flaw)
					}
					continue
				}
				// He says that there is more to drop: it is told that nothing proves it, and dropped.
				if r.Flaw != nil || r.Leftover != 1 {
					t.Errorf("it is %+v, %+v", r, r.Flaw)
				}
				w.pruned()
				if r := w.sound("dropped once more"); r.Leftover != 0 {
					t.Errorf("%d are left", r.Leftover)
				}
				if left, err := w.store.Entries(w.ctx, b.First-1, 1); err != nil || len(left) != 1 || left[0].Seq == b.First {
					t.Errorf("the forged one is %+v, %v", left, err)
				}
			}
		})
	}
}

// TestAForgedChangeBeforeItIsDropped is one in a block that truncation has not come to yet:
// its seals tell.
func TestAForgedChangeBeforeItIsDropped(t *testing.T) {
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, url(t))
			w.seal()
			w.write(16)
			w.seal()
			if err := w.room.Truncate(w.ctx, 2); err != nil {
				t.Fatal(err)
			}
			w.sound("nothing is dropped yet")
			blocks, err := w.store.Blocks(w.ctx, 1, 1)
			if err != nil || len(blocks) != 1 {
				t.Fatal(blocks, err)
			}
			b := blocks[0]
			found, err := w.store.Entries(w.ctx, b.First-1, 1)
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			found[0].Actor = "bob"
			b.Seals[0] = ledger.NewSeal(&found[0])
			w.sql(fmt.Sprintf(`DELETE FROM blocks WHERE number = %d`, b.Number), insert(b, engine), fmt.Sprintf(`UPDATE log SET actor = 'bob' WHERE seq = %d`, b.First))
			if r := w.verify(ledger.Heads{}); r.Flaw == nil || r.Flaw.Kind != ledger.FlawContent || r.Flaw.Block != b.Number {
				t.Errorf("it found %+v", r.Flaw)
			}
		})
	}
}

// pruned drops all that is to be dropped.
func (w *world) pruned() {
	w.Helper()
	for more := true; more; {
		var err error
		if more, err = w.store.Prune(w.ctx); err != nil {
			w.Fatal(err)
		}
	}
}
