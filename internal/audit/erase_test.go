package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// What was written by mistake is erased: it is nowhere in the database any more, the
// ledger holds, also by heads from before, and it is told which change it was.
func TestErase(t *testing.T) {
	const secret = "4111-1111-1111-1111"
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, url(t))
			w.write(20)
			ref := ledger.Ref{Kind: "thing", ID: "t1"}
			o, err := w.store.Get(w.ctx, ref)
			if err != nil {
				t.Fatal(err)
			}
			spec := o.Spec
			put := func(text []byte) int64 {
				t.Helper()
				o.Spec = text
				res, err := w.store.Commit(w.ctx, ledger.Set{Actor: "alice", Cause: ledger.ByRequest("r2"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}})
				if err != nil {
					t.Fatal(err)
				}
				o = res.Objects[0]
				head, err := w.store.Head(w.ctx)
				if err != nil {
					t.Fatal(err)
				}
				return head.Seq
			}
			seq := put(fmt.Appendf(nil, `{"card":%q}`, secret))
			w.write(8)
			if o, err = w.store.Get(w.ctx, ref); err != nil {
				t.Fatal(err)
			}
			put(spec)
			w.seal()
			heads, err := w.room.Heads(w.ctx, 1)
			if err != nil {
				t.Fatal(err)
			}
			// Where it is SQLite: in the file, once what was written is in it.
			if engine == "sqlite" && !w.holds(secret) {
				t.Fatal("the test looks for it in the wrong place")
			}
			if of, err := w.room.Erase(w.ctx, seq); err != nil || of != ref {
				t.Fatalf("of %s: %v", of, err)
			}
			if engine == "sqlite" && w.holds(secret) {
				t.Error("it is still in the file")
			}
			if r := w.verify(heads); r.Flaw != nil || r.Heads != 1 || r.Erased != 1 || len(r.Erasures) != 1 || r.Erasures[0] != (ledger.Erasure{Seq: seq, Ref: ref}) {
				t.Errorf("it is %+v, %+v", r, r.Flaw)
			}
			keys, err := w.store.Changes(w.ctx, ledger.ChangeQuery{Kind: "sealkey", Limit: 1})
			if err != nil || len(keys) != 1 {
				t.Fatal(keys, err)
			}
			if _, err := w.room.Erase(w.ctx, keys[0].Seq); fault.Reason(err) != "record" {
				t.Errorf("a key of the log: %v", err)
			}
			for n, want := range map[int64]fault.Kind{0: fault.NotFound, -1: fault.NotFound, 9999: fault.NotFound} {
				if _, err := w.room.Erase(w.ctx, n); !fault.Is(err, want) {
					t.Errorf("change %d: %v", n, err)
				}
			}
		})
	}
}

// holds reports whether something is in the files of a SQLite.
func (w *world) holds(text string) bool {
	w.Helper()
	path := strings.TrimPrefix(w.url, "sqlite://")
	for _, file := range []string{path, path + "-wal"} {
		data, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			w.Fatal(err)
		}
		if bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}
