package ledgertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// naming is an object that names blobs in its status.
func naming(ref ledger.Ref, digests ...string) ledger.Object {
	status, _ := json.Marshal(map[string]any{"at": digests})
	return ledger.Object{Ref: ref, Org: "acme", Status: status}
}

func (h hand) blob(text string) string {
	h.tb.Helper()
	digest, err := h.PutBlob(h.ctx, []byte(text))
	if err != nil {
		h.tb.Fatalf("cannot put a blob: %v", err)
	}
	return digest
}

// has reports whether the blob is there.
func (h hand) has(digest string) bool {
	h.tb.Helper()
	_, err := h.Blob(h.ctx, digest)
	if err != nil && !fault.Is(err, fault.NotFound) {
		h.tb.Fatalf("cannot read a blob: %v", err)
	}
	return err == nil
}

func (h hand) sweep(young, keep time.Duration) ledger.Swept {
	h.tb.Helper()
	out, err := h.Sweep(h.ctx, ledger.Sweep{Young: young, Keep: keep})
	if err != nil {
		h.tb.Fatalf("cannot sweep: %v", err)
	}
	return out
}

// testSweep erases blobs that nobody names, and no other.
func testSweep(r *rig) {
	named, bare, inSpec, shown := r.blob("named"), r.blob("named without its prefix"), r.blob("named in a spec"), r.blob("named in a view")
	left, unnamed, gone := r.blob("of an object that names another now"), r.blob("never named"), r.blob("of an object that is gone")
	o := naming(beast("a"), named, strings.TrimPrefix(bare, "sha256:"))
	o.Spec, o.View = json.RawMessage(fmt.Sprintf(`{"files": %q}`, inSpec)), json.RawMessage(fmt.Sprintf(`{"x": "see %s."}`, shown))
	r.put(o, 0, "create")
	r.put(naming(cage("b"), left), 0, "create")
	r.put(naming(cage("b"), named), 1, "update")
	last := r.put(naming(cage("c"), gone), 0, "create")
	last.Deleted = r.head().At
	r.put(last, 1, "delete")
	all := []string{named, bare, inSpec, shown, left, unnamed, gone}

	for range 3 {
		if out := r.sweep(time.Hour, 0); out.Erased != 0 {
			r.Fatalf("young ones were erased: %+v", out)
		}
	}
	for range 3 {
		if out := r.sweep(0, time.Hour); out.Erased != 0 || out.Named != 4 || out.Blobs != len(all) {
			r.Fatalf("what is kept for the past was erased, or others are named: %+v", out)
		}
	}
	for _, digest := range all {
		if !r.has(digest) {
			r.Fatalf("%s is gone too early", digest)
		}
	}
	other := r.on(r.replicas(2)[1])
	if out := other.sweep(0, 0); out.Erased != 3 || out.Named != 4 {
		r.Fatalf("swept %+v, want 3 of 7 erased", out)
	}
	for i, digest := range all {
		if got, want := r.has(digest), i < 4; got != want {
			r.Errorf("%s is there: %v, want %v", digest, got, want)
		}
	}

	r.refused(by(create(naming(beast("d"), left))), fault.Conflict, "blob")
	if r.blob("of an object that names another now") != left || !r.has(left) {
		r.Fatal("what was erased cannot be put again")
	}
	r.put(naming(beast("d"), left), 0, "create")
	r.put(naming(beast("e"), "sha256:"+strings.Repeat("0", 64)), 0, "create") // of an image, say: never a blob of ours
	for range 3 {
		r.sweep(0, 0)
	}
	if !r.has(left) {
		r.Fatal("what was put again and named was erased")
	}

	late := r.blob("named late")
	r.sweep(0, time.Hour) // nobody names it
	r.put(naming(beast("f"), late), 0, "create")
	r.put(naming(beast("f")), 1, "update")
	if r.sweep(0, 0); !r.has(late) {
		r.Fatal("what was named meanwhile is erased as if nobody had since it was first looked at")
	}
	if r.sweep(0, 0); r.has(late) {
		r.Fatal("what nobody names any more stays")
	}
}

// testSweepRace has objects name blobs, and hand them on to each other, while all
// replicas sweep with no patience at all. Whatever an object names is there.
func testSweepRace(r *rig) {
	const objects, rounds = 6, 60
	ledgers := r.replicas(2)
	var busy atomic.Int64
	busy.Store(objects)
	race(ledgers, objects+2, func(i int, l ledger.Ledger) {
		h := r.on(l)
		if i >= objects {
			for busy.Load() > 0 {
				if _, err := h.Sweep(r.ctx, ledger.Sweep{}); err != nil {
					r.Errorf("cannot sweep: %v", err)
					return
				}
			}
			return
		}
		defer busy.Add(-1)
		ref := beast(fmt.Sprint(i))
		var version int64
		for n := 0; n < rounds; n++ {
			// Its own, one that all have in turns, or what its neighbour named a while ago.
			digest := ledger.Digest(fmt.Appendf(nil, "shared %d", n%3))
			switch n % 3 {
			case 0:
				digest = h.blob(fmt.Sprintf("%d of %d", n, i))
			case 1:
				h.blob(fmt.Sprintf("shared %d", n%3))
			default:
				if o, err := h.Get(r.ctx, beast(fmt.Sprint((i+1)%objects))); err == nil {
					if d := ledger.Named(&o); len(d) > 0 {
						digest = d[0]
					}
				}
			}
			res, err := h.Commit(r.ctx, by(ledger.Put{Object: naming(ref, digest), Expect: version, Op: "write"}))
			if fault.Reason(err) == "blob" {
				continue
			}
			if err != nil {
				r.Errorf("cannot commit: %v", err)
				return
			}
			version = res.Objects[0].Version
			// Nobody else writes it, so what it names must be there now. What never was
			// a blob is no name.
			if digest != ledger.Digest([]byte("shared 2")) && !h.has(digest) {
				r.Errorf("%s names a blob that was erased", ref)
				return
			}
		}
	})
	for _, o := range r.list(ledger.Query{Kind: "beast"}) {
		for _, digest := range ledger.Named(&o) {
			if digest != ledger.Digest([]byte("shared 2")) && !r.has(digest) {
				r.Errorf("%s names a blob that is not there", o.Ref)
			}
		}
	}
}
