package audit_test

import (
	"crypto/ed25519"
	"fmt"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// TestWhatSomebodyDidBySQLIsFound has an intruder with the password of the
// database, but without the master key.
func TestWhatSomebodyDidBySQLIsFound(t *testing.T) {
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				reason string
				do     []string
				kind   ledger.FlawKind
				seq    int64
			}{
				{"a byte of the state", []string{`UPDATE log SET state = replace(state, '"n":5', '"n":7') WHERE seq = 7`}, ledger.FlawContent, 7},
				{"who", []string{`UPDATE log SET actor = 'alicf' WHERE seq = 7`}, ledger.FlawContent, 7},
				{"when", []string{`UPDATE log SET at = at + 1 WHERE seq = 7`}, ledger.FlawContent, 7},
				{"what", []string{`UPDATE log SET op = 'updatf' WHERE seq = 7`}, ledger.FlawContent, 7},
				{"why", []string{`UPDATE log SET cause = 'request:r2' WHERE seq = 7`}, ledger.FlawContent, 7},
				{"from where", []string{`UPDATE log SET origin = '10.0.0.2' WHERE seq = 7`}, ledger.FlawContent, 7},
				{"whose", []string{`UPDATE log SET org = 'umbrella' WHERE seq = 7`}, ledger.FlawContent, 7},
				{"a row is removed", []string{`DELETE FROM log WHERE seq = 7`}, ledger.FlawMissing, 7},
				{"the last row is removed", []string{`DELETE FROM log WHERE seq = 23`}, ledger.FlawMissing, 23},
				{"a row is added", []string{`UPDATE head SET seq = 25`,
					`INSERT INTO log (seq, at, actor, cause, op, kind, id, org, version, state) SELECT 24, at, 'bob', cause, op, kind, id, org, version + 1, replace(state, '"phase":"2', '"phase":"3') FROM log WHERE seq = 23`},
					ledger.FlawMissing, 25},
				{"a row is added, and the head with it", []string{`UPDATE head SET seq = 24`,
					`INSERT INTO log (seq, at, actor, cause, op, kind, id, org, version, state) SELECT 24, at, 'bob', cause, op, kind, id, org, version + 1, replace(state, '"phase":"2', '"phase":"3') FROM log WHERE seq = 23`},
					ledger.FlawObject, 24},
				{"a row far behind the head vouches for an edited object", []string{`UPDATE object_thing SET phase = '18' WHERE id = 't1'`,
					`INSERT INTO log (seq, at, actor, cause, op, kind, id, org, version, state) SELECT 1000000000, at, 'bob', cause, op, kind, id, org, version, replace(state, '"phase":"21', '"phase":"18') FROM log WHERE seq = 23`},
					ledger.FlawExtra, 1_000_000_000},
				{"two rows are swapped", []string{`UPDATE log SET seq = -1 WHERE seq = 7`, `UPDATE log SET seq = 7 WHERE seq = 8`, `UPDATE log SET seq = 8 WHERE seq = -1`}, ledger.FlawContent, 7},
				{"an object is edited", []string{`UPDATE object_thing SET phase = '18' WHERE id = 't1'`}, ledger.FlawObject, 23},
				{"an object is removed", []string{`DELETE FROM object_thing WHERE id = 't1'`}, ledger.FlawObject, 23},
				{"a block is removed", []string{`DELETE FROM blocks WHERE number = 2`}, ledger.FlawChain, 7},
				{"a block is changed", []string{`UPDATE blocks SET at = at + 1 WHERE number = 2`}, ledger.FlawSignature, 2},
				{"a key is changed", []string{`UPDATE object_sealkey SET spec = replace(spec, '"since":"2', '"since":"3')`}, ledger.FlawKey, 0},
			} {
				t.Run(c.reason, func(t *testing.T) {
					w := newWorld(t, url(t))
					// The key is the first change: then they are as they are counted here.
					w.seal()
					w.write(5)
					w.seal()
					w.write(6)
					w.seal()
					w.write(11)
					w.seal()
					if r := w.sound("before"); r.Changes != 23 || r.Blocks != 4 || r.Unsealed != 0 {
						t.Fatalf("23 changes in 4 blocks are %+v", r)
					}
					w.sql(c.do...)
					r := w.verify(ledger.Heads{})
					if r.Flaw == nil || r.Flaw.Kind != c.kind || r.Flaw.Seq != c.seq {
						t.Errorf("it found %+v, want %s at change %d", r.Flaw, c.kind, c.seq)
					} else {
						t.Log(r.Flaw)
					}
				})
			}
		})
	}
}

// TestABlockThatWasMadeAnew has an intruder who knows how blocks are made: with
// no key, with a key of his own, and against what somebody has on paper.
func TestABlockThatWasMadeAnew(t *testing.T) {
	for engine, url := range engines {
		for _, c := range []struct {
			reason       string
			slip, anchor bool // a key of his own is put in place; somebody has kept a head
			kind         ledger.FlawKind
		}{
			{"without the key", false, false, ledger.FlawSignature},
			{"with a key of his own, and nobody has a head", true, false, ""},
			{"with a key of his own, and somebody has a head", true, true, ledger.FlawKey},
		} {
			t.Run(engine+" "+c.reason, func(t *testing.T) {
				w := newWorld(t, url(t))
				w.seal()
				w.write(20)
				w.seal()
				kept, err := w.room.Heads(w.ctx, 1)
				if err != nil {
					t.Fatal(err)
				}
				if kept, err = ledger.ParseHeads([]byte(kept.String())); err != nil || len(kept.Heads) != 1 {
					t.Fatalf("the heads are %v, %v", kept, err)
				}
				if r := w.verify(kept); r.Flaw != nil || r.Heads != 1 {
					t.Fatalf("against its own head it is %+v", r)
				}
				w.sql(`UPDATE log SET actor = 'bob' WHERE seq = 7`)
				_, forged, _ := ed25519.GenerateKey(nil)
				head, _ := w.store.Head(w.ctx)
				var before *ledger.Block
				do := []string{`DELETE FROM blocks`}
				if c.slip {
					do = append(do, w.slip(head.Ledger, forged)...)
					w.sql(do...)
					do = nil
				}
				blocks, _ := w.store.Blocks(w.ctx, 0, 10)
				if c.slip {
					blocks = []ledger.Block{{First: 1, Last: head.Seq}}
				}
				for _, b := range blocks {
					entries, err := w.store.Entries(w.ctx, b.First-1, int(b.Last-b.First+1))
					if err != nil {
						t.Fatal(err)
					}
					fresh := ledger.NewBlock(head, before, entries, time.Now())
					fresh.Sign(head.Ledger, forged)
					before = &fresh
					do = append(do, insert(fresh, engine))
				}
				w.sql(do...)
				anchor := ledger.Heads{}
				if c.anchor {
					anchor = kept
				}
				r := w.verify(anchor)
				if c.kind == "" && r.Flaw != nil || c.kind != "" && (r.Flaw == nil || r.Flaw.Kind != c.kind) {
					t.Fatalf("it found %v, want %q", r.Flaw, c.kind)
				}
			})
		}
	}
}

// slip puts a key in the place of the first one, in the object and in its change.
func (w *world) slip(id string, key ed25519.PrivateKey) []string {
	k := ledger.NewSealKey(id, key.Public().(ed25519.PublicKey), time.Now(), key)
	spec := fmt.Sprintf(`{"id":%q,"public":"%s","since":%q,"by":%q,"signature":"%s","private":"secret:x"}`, k.ID, b64(k.Public), k.Since.Format(time.RFC3339Nano), k.By, b64(k.Signature))
	var was ledger.Object
	found, err := w.store.List(w.ctx, ledger.Query{Kind: "sealkey"})
	if err != nil || len(found) != 1 {
		w.Fatalf("the keys are %v, %v", found, err)
	}
	was = found[0]
	return []string{
		fmt.Sprintf(`UPDATE object_sealkey SET spec = '%s'`, spec),
		fmt.Sprintf(`UPDATE log SET state = replace(state, '%s', '%s') WHERE kind = 'sealkey'`, was.Spec, spec),
	}
}
