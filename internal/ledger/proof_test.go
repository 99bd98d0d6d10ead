package ledger_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/ledger"
)

// TestProofIsFixed has sums that were written down once: a program that makes
// others could not verify what older ones have sealed.
func TestProofIsFixed(t *testing.T) {
	e := ledger.Entry{Seq: 7, At: 1767323045000678, Actor: "alice", Cause: "request:r1", Op: "create", Kind: "beast", ID: "a", Org: "acme", Version: 1, From: "10.0.0.1", State: []byte(`{"kind":"beast","id":"a"}`)}
	s := ledger.Seal{Seq: 7, Salt: ledger.Salt{1, 2, 3}}
	s.Digest = mustHash(t, "sha256:0000000000000000000000000000000000000000000000000000000000000000")
	if s.Holds(&e) {
		t.Fatal("a seal of nothing holds")
	}
	s.Digest = mustHash(t, goldenChange)
	if !s.Holds(&e) {
		t.Error("the digest of a change is not what it was")
	}
	b := ledger.Block{Number: 3, First: 5, Last: 9, Root: ledger.Hash{1}, Previous: ledger.Hash{2}, Epoch: 1, At: sealed}
	b.Sign("l1", signer(1))
	c := ledger.Checkpoint{Block: 3, Last: 9, LastAt: sealed, Head: b.Hash("l1"), Count: 4, Root: ledger.Hash{3}, At: sealed}
	c.Sign("l1", signer(1))
	for _, x := range []struct{ reason, got, want string }{
		{"the head of a chain", b.Hash("l1").String(), goldenHead},
		{"a signature", fmt.Sprintf("%x", b.Signature[:16]), goldenSignature},
		{"a checkpoint", c.Hash("l1").String(), goldenCheckpoint},
		{"the name of a key", b.Key, goldenKey},
	} {
		if x.got != x.want {
			t.Errorf("%s is %s, it was %s", x.reason, x.got, x.want)
		}
	}
}

const (
	goldenChange     = "sha256:d25f9badbb4aeb4882cb1331b831992c03be17b0ccf09e13b596ee6693aff990"
	goldenHead       = "sha256:946a627af9b39ebaf54fadef819983827b967ff63f509d5599e6dca6b9e55a07"
	goldenSignature  = "5500be597a9df7a1077761217738903e"
	goldenCheckpoint = "sha256:f620ce17274a5354e933de3334bfbdf26f928a65d4820d15547951c2ca87cd62"
	goldenKey        = "34750f98bd59fcfc"
)

func mustHash(t *testing.T, text string) ledger.Hash {
	t.Helper()
	h, err := ledger.ParseHash(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestProofHolds truncates, prunes and erases a log at any point: nothing of
// that is a flaw.
func TestProofHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShelf(t)
		whole := func(what string) ledger.Report {
			r := s.verify(t, ledger.Heads{})
			if r.Flaw != nil {
				t.Fatalf("%s: %v", what, r.Flaw)
			}
			return r
		}
		if r := whole("a log as it was written"); r.Changes != int64(len(s.entries)) || r.Blocks != int64(len(s.blocks)) || r.Objects != int64(len(s.objects)) {
			t.Fatalf("of %d changes, %d blocks and %d objects it saw %+v", len(s.entries), len(s.blocks), len(s.objects), r)
		}
		erased := 0
		last := map[ledger.Ref]int64{}
		for _, e := range s.entries {
			last[e.Ref()] = e.Seq
		}
		for _, e := range slices.Clone(s.entries) {
			if rapid.IntRange(0, 4).Draw(t, "erase") == 0 && last[e.Ref()] != e.Seq {
				s.erase(e.Seq)
				erased++
			}
		}
		if r := whole("an erased content"); r.Erased != int64(erased) {
			t.Fatalf("%d changes were erased, it saw %d", erased, r.Erased)
		}
		for _, e := range s.entries {
			if e.Erased() && bytes.Contains(e.State, []byte("secret")) {
				t.Fatalf("an erased change says %s", e.State)
			}
		}
		for block := int64(1); block <= int64(len(s.blocks)); block++ {
			if rapid.Bool().Draw(t, "truncate") {
				s.truncate(t, block)
				whole("a checkpoint")
				s.prune(func() { whole("pruning") })
				if r := whole("a truncated log"); r.Truncated != s.blocks[block-1].Last || r.History.IsZero() {
					t.Fatalf("the log was truncated to block %d, and the report is %+v", block, r)
				}
			}
		}
		s.write(t, 3)
		if r := whole("changes that are not sealed yet"); r.Unsealed != 3 {
			t.Fatalf("3 changes are not sealed, it saw %d", r.Unsealed)
		}
		s.seal(2)
		whole("the next block")
	})
}

// TestProofFindsEveryByte changes one bit anywhere in what is stored.
func TestProofFindsEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShelf(t)
		if rapid.Bool().Draw(t, "truncated") {
			s.truncate(t, int64(rapid.IntRange(1, len(s.blocks)).Draw(t, "block")))
			s.prune(func() {})
		}
		if len(s.entries) > 2 && rapid.Bool().Draw(t, "erased") && s.entries[0].Ref() == s.entries[1].Ref() {
			s.erase(s.entries[0].Seq)
		}
		if r := s.verify(t, ledger.Heads{}); r.Flaw != nil {
			t.Fatalf("before anything was touched: %v", r.Flaw)
		}
		was := s.copy()
		what := s.touch(t)
		if r := s.verify(t, ledger.Heads{}); r.Flaw == nil {
			t.Fatalf("%s was changed, and nothing was found:\n%.2000s", what, cmp.Diff(was, s, cmp.AllowUnexported(shelf{})))
		}
	})
}

// touch flips one bit of one thing and names it.
func (s *shelf) touch(t *rapid.T) string {
	bit := func(b []byte) []byte {
		b = slices.Clone(b)
		b[rapid.IntRange(0, len(b)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		return b
	}
	word := func(text *string) { *text = string(bit([]byte(*text))) }
	number := func(n *int64) { *n ^= 1 << rapid.IntRange(0, 40).Draw(t, "bit") }
	moment := func(at *time.Time) { *at = at.Add(time.Microsecond << rapid.IntRange(0, 30).Draw(t, "bit")) }
	hash := func(h *ledger.Hash) { copy(h[:], bit(h[:])) }
	b := &s.blocks[rapid.IntRange(0, len(s.blocks)-1).Draw(t, "of block")]
	things := map[string]func(){
		"a block's number": func() { b.Number ^= 1 << rapid.IntRange(5, 63).Draw(t, "bit") }, "its first change": func() { number(&b.First) },
		"its last change": func() { number(&b.Last) }, "its root": func() { hash(&b.Root) },
		"its predecessor": func() { hash(&b.Previous) }, "its epoch": func() { number(&b.Epoch) },
		"its time": func() { moment(&b.At) }, "its key": func() { word(&b.Key) },
		"its signature": func() { b.Signature = bit(b.Signature) },
		"a key": func() {
			k := &s.keys[0]
			k.Public = bit(k.Public)
		},
		"a key's statement": func() { s.keys[1].Signature = bit(s.keys[1].Signature) },
	}
	if len(b.Seals) > 0 {
		things["its seals"] = func() { b.Seals = ledger.UnpackSeals(bit(ledger.PackSeals(b.Seals))) }
	}
	if len(s.entries) > 0 {
		e := &s.entries[rapid.IntRange(0, len(s.entries)-1).Draw(t, "of entry")]
		maps.Copy(things, map[string]func(){
			"a change's sequence": func() { e.Seq ^= 1 << rapid.IntRange(8, 63).Draw(t, "bit") },
			"its moment":          func() { number(&e.At) }, "its actor": func() { word(&e.Actor) }, "its cause": func() { word(&e.Cause) },
			"its verb": func() { word(&e.Op) }, "its kind": func() { word(&e.Kind) }, "its id": func() { word(&e.ID) },
			"where it came from": func() { word(&e.From) }, "its organisation": func() { word(&e.Org) }, "its version": func() { number(&e.Version) }, "its state": func() { e.State = bit(e.State) },
		})
	}
	for i := range s.checkpoints {
		c := &s.checkpoints[i]
		maps.Copy(things, map[string]func(){
			"a checkpoint's block": func() { number(&c.Block) }, "its end": func() { number(&c.Last) }, "its end's time": func() { moment(&c.LastAt) },
			"its head": func() { hash(&c.Head) }, "its count": func() { number(&c.Count) }, "what it keeps": func() { hash(&c.Root) },
			"when it was made": func() { moment(&c.At) }, "who signed it": func() { word(&c.Key) }, "how": func() { c.Signature = bit(c.Signature) },
		})
	}
	for ref, o := range s.objects {
		things["an object"] = func() { o.State = bit(o.State); s.objects[ref] = o }
	}
	what := rapid.SampledFrom(slices.Sorted(maps.Keys(things))).Draw(t, "what")
	things[what]()
	return what
}

// TestProofNamesWhatIsWrong has an intruder for each kind of flaw.
func TestProofNamesWhatIsWrong(t *testing.T) {
	paper := func(s *shelf) ledger.Heads {
		b := s.blocks[1]
		return ledger.Heads{Ledger: "l1", Keys: s.keys[:1], Heads: []ledger.SealedHead{{Block: b.Number, Seq: b.Last, Epoch: 1, At: b.At, Hash: b.Hash("l1"), Key: b.Key, Signature: b.Signature}}}
	}
	resign := func(s *shelf, from int, key byte) {
		for i := from; i < len(s.blocks); i++ {
			var before *ledger.Block
			if i > 0 {
				before = &s.blocks[i-1]
			}
			at := s.blocks[i].At
			s.blocks[i] = ledger.NewBlock(s.head, before, s.entries[s.blocks[i].First-1:s.blocks[i].Last], at)
			s.blocks[i].Sign("l1", signer(key))
		}
	}
	for _, c := range []struct {
		reason string
		do     func(s *shelf)
		kind   ledger.FlawKind
		seq    int64
	}{
		{"what a change says", func(s *shelf) { s.entries[6].State = []byte(`{}`) }, ledger.FlawContent, 7},
		{"who did it", func(s *shelf) { s.entries[6].Actor = "bob" }, ledger.FlawContent, 7},
		{"when", func(s *shelf) { s.entries[6].At++ }, ledger.FlawContent, 7},
		{"a row is removed", func(s *shelf) { s.entries = slices.Delete(s.entries, 6, 7) }, ledger.FlawMissing, 7},
		{"the last row is removed", func(s *shelf) { s.entries = s.entries[:11] }, ledger.FlawMissing, 12},
		{"a row is added behind the head", func(s *shelf) {
			e := s.entries[11]
			e.Seq = 13
			s.entries, s.head.Seq = append(s.entries, e), 12
		}, ledger.FlawExtra, 13},
		{"a row far behind the head vouches for an edited object", func(s *shelf) {
			e := s.entries[11]
			e.Seq, e.State = 1_000_000_000, []byte(`{"mine":true}`)
			o := s.objects[e.Ref()]
			o.State = e.State
			s.entries, s.objects[e.Ref()] = append(s.entries, e), o
		}, ledger.FlawExtra, 1_000_000_000},
		{"two rows are swapped", func(s *shelf) {
			s.entries[3], s.entries[4] = s.entries[4], s.entries[3]
			s.entries[3].Seq, s.entries[4].Seq = 4, 5
		}, ledger.FlawContent, 4},
		{"a change with its seal", func(s *shelf) {
			s.entries[6].Actor = "bob"
			s.blocks[1].Seals[2] = ledger.NewSeal(&s.entries[6])
		}, ledger.FlawContent, 5},
		{"a block without the key", func(s *shelf) {
			s.entries[6].Actor = "bob"
			resign(s, 1, 9)
		}, ledger.FlawSignature, 5},
		{"a block with an old key, and nobody kept a head", func(s *shelf) {
			s.entries[6].Actor = "bob"
			resign(s, 1, 1)
		}, "", 0},
		{"a block is removed", func(s *shelf) { s.blocks = slices.Delete(s.blocks, 1, 2) }, ledger.FlawChain, 9},
		{"a foreign key is slipped in", func(s *shelf) {
			s.keys = append(s.keys, ledger.NewSealKey("l1", signer(9).Public().(ed25519.PublicKey), sealed, signer(9)))
			resign(s, 1, 9)
		}, ledger.FlawKey, 0},
		{"an object is edited", func(s *shelf) {
			ref := s.entries[11].Ref()
			o := s.objects[ref]
			o.State = []byte(`{"mine":true}`)
			s.objects[ref] = o
		}, ledger.FlawObject, 12},
		{"an object is removed", func(s *shelf) { delete(s.objects, s.entries[11].Ref()) }, ledger.FlawObject, 12},
		{"an object is edited, and the last change of it erased", func(s *shelf) {
			ref := s.entries[11].Ref()
			o := s.objects[ref]
			o.State = []byte(`{"mine":true}`)
			s.objects[ref] = o
			s.erase(12)
		}, ledger.FlawObject, 12},
		{"the last change of an object is erased", func(s *shelf) { s.erase(12) }, ledger.FlawObject, 12},
		{"an object is added", func(s *shelf) {
			s.objects[ledger.Ref{Kind: "beast", ID: "z"}] = ledger.Entry{Kind: "beast", ID: "z"}
		}, ledger.FlawObject, 0},
	} {
		t.Run(c.reason, func(t *testing.T) {
			s := twelve()
			c.do(s)
			r := s.verify(t, ledger.Heads{})
			switch {
			case c.kind == "" && r.Flaw != nil:
				t.Errorf("it found %v", r.Flaw)
			case c.kind != "" && (r.Flaw == nil || r.Flaw.Kind != c.kind || r.Flaw.Seq != c.seq):
				t.Errorf("it found %+v, want %s at change %d", r.Flaw, c.kind, c.seq)
			}
		})
	}
	for _, c := range []struct {
		reason string
		do     func(s *shelf)
		kind   ledger.FlawKind
	}{
		{"as it was", func(*shelf) {}, ""},
		{"everything anew with the real key", func(s *shelf) {
			s.entries[0].Actor = "bob"
			resign(s, 0, 1)
		}, ledger.FlawHead},
		{"everything anew with another key", func(s *shelf) {
			s.keys = []ledger.SealKey{ledger.NewSealKey("l1", signer(9).Public().(ed25519.PublicKey), sealed, signer(9))}
			resign(s, 0, 9)
		}, ledger.FlawKey},
		{"the end is cut off", func(s *shelf) {
			s.blocks, s.entries, s.head.Seq = s.blocks[:1], s.entries[:4], 4
			s.objects = map[ledger.Ref]ledger.Entry{}
			for _, e := range s.entries {
				s.objects[e.Ref()] = ledger.Entry{Kind: e.Kind, ID: e.ID, Org: e.Org, Version: e.Version, State: e.State}
			}
		}, ledger.FlawHead},
		{"another ledger", func(s *shelf) { s.head.Ledger = "l2" }, ledger.FlawHead},
	} {
		t.Run(c.reason+", against paper", func(t *testing.T) {
			s := twelve()
			kept, err := ledger.ParseHeads([]byte(paper(s).String()))
			if err != nil {
				t.Fatal(err)
			}
			c.do(s)
			if r := s.verify(t, kept); c.kind == "" && (r.Flaw != nil || r.Heads != 1) || c.kind != "" && (r.Flaw == nil || r.Flaw.Kind != c.kind) {
				t.Errorf("it found %+v (%d heads), want %q", r.Flaw, r.Heads, c.kind)
			}
		})
	}
}

// twelve are twelve changes of four objects in three blocks.
func twelve() *shelf {
	s := &shelf{head: ledger.Head{Ledger: "l1", Epoch: 1}, objects: map[ledger.Ref]ledger.Entry{}}
	s.keys = []ledger.SealKey{ledger.NewSealKey("l1", signer(1).Public().(ed25519.PublicKey), sealed, signer(1))}
	for i := range int64(12) {
		e := ledger.Entry{Seq: i + 1, At: sealed.UnixMicro() + i, Actor: "alice", Cause: "request:r1", Op: "update", Kind: "beast",
			ID: string(rune('a' + i%4)), Version: i/4 + 1, State: fmt.Appendf(nil, `{"n":%d}`, i)}
		s.entries = append(s.entries, e)
		s.objects[e.Ref()] = ledger.Entry{Kind: e.Kind, ID: e.ID, Version: e.Version, State: e.State}
		if s.head.Seq = i + 1; i%4 == 3 {
			s.seal(1)
		}
	}
	return s
}

func TestHeadsReadBack(t *testing.T) {
	s := twelve()
	h := ledger.Heads{Ledger: "l1", Keys: []ledger.SealKey{{ID: s.keys[0].ID, Public: s.keys[0].Public, Since: sealed}}}
	for _, b := range s.blocks {
		h.Heads = append(h.Heads, ledger.SealedHead{Block: b.Number, Seq: b.Last, Epoch: 1, At: b.At, Hash: b.Hash("l1"), Key: b.Key, Signature: b.Signature})
	}
	asJSON, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	for form, data := range map[string][]byte{"lines": []byte("# kept by the auditor\n\n" + h.String()), "JSON": asJSON} {
		if got, err := ledger.ParseHeads(data); err != nil || !cmp.Equal(got, h) {
			t.Errorf("as %s they read %v:\n%s", form, err, cmp.Diff(h, got))
		}
	}
}

func FuzzHeads(f *testing.F) {
	for _, text := range []string{"", "ledger l1\n", "{}", "ledger l1\nhead 1 change 2 epoch 1 at 2026-01-02T03:04:05Z sha256:00 key k signature AA==\n",
		"ledger l1\nkey k ed25519:AA== since 2026-01-02T03:04:05Z", strings.Repeat("key ", 5)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ledger.ParseHeads(data)
		if err != nil {
			return
		}
		again, err := ledger.ParseHeads([]byte(h.String()))
		if err != nil || again.String() != h.String() {
			t.Errorf("%q is read, and what it prints is not: %v", data, err)
		}
	})
}
