package ledgertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func testBlobs(r *rig) {
	rnd := rand.New(rand.NewPCG(5, 5))
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	plain := []byte(strings.Repeat("a plan that nobody may read. ", 100))
	other := r.on(r.replicas(2)[1])
	for _, data := range [][]byte{{}, {0}, []byte("x"), plain, noise} {
		sum := sha256.Sum256(data)
		want := "sha256:" + hex.EncodeToString(sum[:])
		for range 2 { // what is there already is no error
			digest, err := r.PutBlob(r.ctx, data)
			if err != nil || digest != want {
				r.Fatalf("put %d bytes: got %q, %v; want %q", len(data), digest, err, want)
			}
		}
		got, err := other.Blob(r.ctx, want)
		if err != nil || !bytes.Equal(got, data) {
			r.Fatalf("blob of %d bytes came back with %d: %v", len(data), len(got), err)
		}
	}
	sum := sha256.Sum256([]byte("never stored"))
	_, err := r.Blob(r.ctx, "sha256:"+hex.EncodeToString(sum[:]))
	r.wantFault(err, fault.NotFound, "")
	if r.store.Raw != nil && bytes.Contains(r.store.Raw(r.T), plain[:20]) {
		r.Fatal("a blob lies in clear on the disk")
	}
}

func testSecrets(r *rig) {
	plaintext := []byte("hunter2-correct-horse-battery-staple")
	ref, err := r.Seal(r.ctx, plaintext)
	if err != nil || !strings.HasPrefix(ref, "secret:") {
		r.Fatalf("seal: %q, %v", ref, err)
	}
	second, err := r.Seal(r.ctx, plaintext)
	if err != nil || second == ref {
		r.Fatalf("a second secret has the reference of the first: %q, %v", second, err)
	}
	other := r.on(r.replicas(2)[1])
	for _, ref := range []string{ref, second} {
		if got, err := other.Unseal(r.ctx, ref); err != nil || !bytes.Equal(got, plaintext) {
			r.Fatalf("unsealed %q, %v", got, err)
		}
	}
	empty, err := r.Seal(r.ctx, nil)
	if err != nil {
		r.Fatal(err)
	}
	if got, err := r.Unseal(r.ctx, empty); err != nil || len(got) != 0 {
		r.Fatalf("an empty secret came back as %q, %v", got, err)
	}
	r.put(ledger.Object{Ref: beast("a"), Name: ref}, 0, "create") // references stand in objects and in the log

	if err := other.Shred(r.ctx, ref); err != nil {
		r.Fatal(err)
	}
	for _, h := range []hand{r.hand, other} { // gone everywhere at once, memory included
		_, err := h.Unseal(r.ctx, ref)
		h.wantFault(err, fault.NotFound, "")
	}
	if err := r.Shred(r.ctx, ref); err != nil && !fault.Is(err, fault.NotFound) {
		r.Fatalf("shredding again: %v", err)
	}
	if got, err := r.Unseal(r.ctx, second); err != nil || !bytes.Equal(got, plaintext) {
		r.Fatalf("shredding one secret took another with it: %q, %v", got, err)
	}
	if r.store.Raw != nil && bytes.Contains(r.store.Raw(r.T), plaintext) {
		r.Fatal("a secret lies in clear on the disk")
	}
	r.hand.Ledger = r.store.Reopen(r.T)
	_, err = r.Unseal(r.ctx, ref)
	r.wantFault(err, fault.NotFound, "")
	if got, err := r.Unseal(r.ctx, second); err != nil || !bytes.Equal(got, plaintext) {
		r.Fatalf("after reopening: unsealed %q, %v", got, err)
	}
}

// testReopen checks that everything outlives the process.
func testReopen(r *rig) {
	objects := herd(r, 30)
	set := waking(ledger.Wake{Ref: cage("held"), Org: "acme"})
	name := ledger.Name{Space: "host", Name: "n"}
	set.Claims = []ledger.Claim{{Name: name, Holder: cage("held")}}
	set.Counts = []ledger.Count{{Name: "quota", Delta: 2, Max: 2}}
	r.commit(set)
	held := r.one(time.Hour)
	r.commit(waking(ledger.Wake{Ref: cage("due"), Org: "acme"}, ledger.Wake{Ref: cage("later"), After: time.Hour}))
	digest, err := r.PutBlob(r.ctx, []byte("blob"))
	if err != nil {
		r.Fatal(err)
	}
	head, log := r.head(), r.changes(ledger.ChangeQuery{})

	for range 2 {
		r.hand.Ledger = r.store.Reopen(r.T)
		r.same(r.head(), head, "head")
		r.same(r.changes(ledger.ChangeQuery{}), log, "log")
		q := ledger.Query{Kind: "beast", Deleted: true}
		r.same(r.list(q), selectObjects(objects, q), "objects", lenient)
		q = ledger.Query{Kind: "beast", Scope: map[string]any{"org": "acme"}}
		r.same(r.total(q), int64(len(selectObjects(objects, q))), "total")
		if h, err := r.Lookup(r.ctx, name); err != nil || h != cage("held") {
			r.Fatalf("name is held by %v, %v", h, err)
		}
		full := by()
		full.Counts = []ledger.Count{{Name: "quota", Delta: 1, Max: 2}}
		r.refused(full, fault.Exhausted, "counter:quota")
		if got, err := r.Blob(r.ctx, digest); err != nil || string(got) != "blob" {
			r.Fatalf("blob is %q, %v", got, err)
		}
		w := r.one(time.Hour)
		if w.Ref != cage("due") || w.Dirty != 1 || w.Org != "acme" || w.Token <= held.Token {
			r.Fatalf("claimed %+v, want what was due, under a token greater than %d", w, held.Token)
		}
		if err := r.Release(r.ctx, []ledger.Lease{w.Lease}); err != nil {
			r.Fatal(err)
		}
	}
	r.commit(finishing(held, ledger.Finish{})) // a lease outlives the handle that took it
}

// testCrashImage copies the store in full flight. The copy must hold everything
// that was acknowledged before, and nothing that is not a prefix of the log.
func testCrashImage(r *rig) {
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	var acked atomic.Int64
	var wg sync.WaitGroup
	first := make(chan struct{}, 4)
	for i := range 4 { // four writers, stopped below
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				ref := beast(fmt.Sprintf("%d-%d", i, n))
				set := by(create(ledger.Object{Ref: ref, Org: "acme"}), create(ledger.Object{Ref: cage(ref.ID), Org: "acme"}))
				set.Wakes = []ledger.Wake{{Ref: ref}}
				set.Claims = []ledger.Claim{{Name: ledger.Name{Space: "s", Name: ref.ID}, Holder: ref}}
				set.Counts = []ledger.Count{{Name: "n", Delta: 1, Max: -1}}
				res, err := r.Commit(ctx, set)
				if err != nil {
					if ctx.Err() == nil {
						r.Errorf("cannot commit: %v", err)
					}
					return
				}
				for old := acked.Load(); res.Seq > old && !acked.CompareAndSwap(old, res.Seq); old = acked.Load() {
				}
				if n == 5 {
					first <- struct{}{}
				}
			}
		})
	}
	for range 4 {
		select {
		case <-first:
		case <-r.ctx.Done():
			r.Fatal("writers do not get on")
		}
	}
	type shot struct {
		acked int64
		h     hand
	}
	var shots []shot
	for range 5 {
		before := acked.Load()
		shots = append(shots, shot{before, r.on(r.store.Image(r.T))})
	}
	stop()
	wg.Wait()
	log := r.changes(ledger.ChangeQuery{Limit: 10_000})
	for i, s := range shots {
		head := s.h.head()
		if head.Seq < s.acked {
			r.Fatalf("image %d ends at %d, but %d was acknowledged", i, head.Seq, s.acked)
		}
		got := s.h.changes(ledger.ChangeQuery{Limit: 10_000})
		if head.Seq < int64(len(log)) {
			r.same(got, log[:head.Seq], fmt.Sprintf("log of image %d", i))
		} else if int64(len(got)) != min(head.Seq, 10_000) {
			r.Fatalf("image %d has %d changes up to %d", i, len(got), head.Seq)
		}
		// Sets are whole: each has left a beast, a cage, a name, a count and work.
		sets := head.Seq / 2
		if head.Seq%2 != 0 {
			r.Fatalf("image %d ends within a set, at %d", i, head.Seq)
		}
		acme := map[string]any{"org": "acme"}
		r.same(s.h.total(ledger.Query{Kind: "beast", Scope: acme}), sets, "beasts")
		r.same(int64(len(s.h.list(ledger.Query{Kind: "cage", Limit: ledger.MaxPage}))), sets, "cages")
		for _, c := range got {
			if c.Object.Kind != "beast" {
				continue
			}
			r.same(s.h.get(c.Object.Ref), c.Object, "object and log", lenient)
			if h, err := s.h.Lookup(r.ctx, ledger.Name{Space: "s", Name: c.Object.ID}); err != nil || h != c.Object.Ref {
				r.Fatalf("image %d: name of %s: %v, %v", i, c.Object.Ref, h, err)
			}
		}
		r.same(s.h.counter("n"), sets, "counter")
		down := by()
		down.Counts = []ledger.Count{{Name: "n", Delta: -sets}}
		s.h.commit(down)
		down.Counts[0].Delta = -1
		s.h.refused(down, fault.Conflict, "counter:n")
		backlog, err := s.h.Backlog(r.ctx)
		if err != nil || len(backlog) == 0 || backlog[0].Due != sets {
			r.Fatalf("image %d: backlog %+v, %v; want %d due", i, backlog, err, sets)
		}
	}
}
