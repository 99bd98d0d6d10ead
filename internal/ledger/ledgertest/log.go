package ledgertest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// testLog checks what a change holds, and every way to select changes.
func testLog(r *rig) {
	set := by(create(ledger.Object{Ref: beast("a"), Org: "acme", Spec: json.RawMessage(`{"n":1}`)}))
	set.Actor, set.Cause, set.From = "bob", ledger.ByChange(cage("c"), 4), "10.1.2.3"
	first := r.commit(set).Objects[0]
	want := []ledger.Change{{Seq: 1, At: first.Updated, Actor: "bob", Cause: "change:cage/c@4", Op: "create", From: "10.1.2.3", Object: first}}
	r.same(r.changes(ledger.ChangeQuery{}), want, "the first change", lenient, sameJSON)
	if _, err := r.Commit(ledger.WithOrigin(r.ctx, "10.9.9.9"), by(create(ledger.Object{Ref: beast("z")}))); err != nil {
		r.Fatal(err)
	}
	if got := r.changes(ledger.ChangeQuery{After: 1}); len(got) != 1 || got[0].From != "10.9.9.9" {
		r.Fatalf("what the context says of the origin is lost: %+v", got)
	}
	want = append(want, r.changes(ledger.ChangeQuery{After: 1})...)

	rnd := rand.New(rand.NewPCG(1, 2))
	now := map[ledger.Ref]ledger.Object{first.Ref: first}
	orgs := []string{"acme", "umbrella", ""}
	for n := range 60 {
		ref := []ledger.Ref{beast("a"), beast("b"), cage("a"), cage("c")}[rnd.IntN(4)]
		o := now[ref]
		expect := o.Version
		o.Ref, o.Org, o.Name = ref, orgs[rnd.IntN(3)], fmt.Sprint(n)
		res := r.commit(by(ledger.Put{Object: o, Expect: expect, Op: "step"}))
		now[ref] = res.Objects[0]
		want = append(want, ledger.Change{Seq: res.Seq, At: now[ref].Updated, Actor: "alice", Cause: "request:r1", Op: "step", Object: now[ref]})
	}
	for range 150 {
		q := ledger.ChangeQuery{After: rnd.Int64N(70) - 3, Until: rnd.Int64N(70), Limit: rnd.IntN(20), Reverse: rnd.IntN(2) == 0}
		q.Kind = []string{"", "", "beast", "cage", "unicorn"}[rnd.IntN(5)]
		if q.Kind != "" {
			q.ID = []string{"", "a", "none"}[rnd.IntN(3)]
		}
		q.Org = []string{"", "", "acme", "nobody"}[rnd.IntN(4)]
		r.same(r.changes(q), selectChanges(want, q), fmt.Sprintf("changes of %+v", q), lenient, sameJSON)
	}
}

// selectChanges is what a ChangeQuery means.
func selectChanges(log []ledger.Change, q ledger.ChangeQuery) []ledger.Change {
	var out []ledger.Change
	for _, c := range log {
		if c.Seq > q.After && (q.Until == 0 || c.Seq <= q.Until) && (q.Kind == "" || c.Object.Kind == q.Kind) &&
			(q.ID == "" || c.Object.ID == q.ID) && (q.Org == "" || c.Object.Org == q.Org) {
			out = append(out, c)
		}
	}
	if q.Reverse {
		slices.Reverse(out)
	}
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[:q.Limit]
	}
	return out
}

// testLogDense has many writers on several replicas, and readers that resume.
// A reader must see every sequence, and each object's versions, in order.
func testLogDense(r *rig) {
	const writers, each, objects = 8, 30, 5
	ledgers := r.replicas(3)
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	var written atomic.Int64 // greatest sequence that a writer was told
	var readers sync.WaitGroup
	logs := make([][]ledger.Change, 3)
	done := make(chan struct{})
	for i := range logs {
		readers.Go(func() { logs[i] = follow(ctx, r, ledgers[i%len(ledgers)], done, &written) })
	}
	race(ledgers, writers, func(i int, l ledger.Ledger) {
		rnd := rand.New(rand.NewPCG(uint64(i), 7))
		for n := 0; n < each; {
			set := by()
			for _, k := range rnd.Perm(objects)[:1+rnd.IntN(3)] {
				ref := beast(id("o", k))
				o, err := l.Get(ctx, ref)
				if err != nil && !fault.Is(err, fault.NotFound) {
					r.Errorf("cannot get: %v", err)
					return
				}
				expect := o.Version
				o.Ref, o.Name = ref, fmt.Sprintf("%d-%d", i, n)
				set.Puts = append(set.Puts, ledger.Put{Object: o, Expect: expect, Op: "step"})
			}
			res, err := l.Commit(ctx, set)
			if fault.Is(err, fault.Conflict) {
				continue // another writer was faster; its change makes progress
			}
			if err != nil {
				r.Errorf("cannot commit: %v", err)
				return
			}
			n++
			for old := written.Load(); res.Seq > old && !written.CompareAndSwap(old, res.Seq); old = written.Load() {
			}
		}
	})
	close(done)
	readers.Wait()
	head := r.head().Seq
	if head != written.Load() {
		r.Fatalf("head is %d, the last commit was told %d", head, written.Load())
	}
	for i, log := range logs {
		versions := map[ledger.Ref]int64{}
		var at time.Time
		for n, c := range log {
			if c.Seq != int64(n)+1 {
				r.Fatalf("reader %d: change %d has sequence %d: a gap or a repetition", i, n+1, c.Seq)
			}
			if versions[c.Object.Ref]++; versions[c.Object.Ref] != c.Object.Version {
				r.Fatalf("reader %d: %s@%d came at place %d", i, c.Object.Ref, c.Object.Version, versions[c.Object.Ref])
			}
			if c.At.Before(at) {
				r.Fatalf("reader %d: change %d happened at %v, before the one ahead of it at %v", i, c.Seq, c.At, at)
			}
			at = c.At
		}
		if int64(len(log)) != head {
			r.Fatalf("reader %d saw %d changes, want %d", i, len(log), head)
		}
	}
}

// follow reads the log page by page until it has everything that was written
// when done closed. It waits for hints, and polls besides, since a hint may be lost.
func follow(ctx context.Context, r *rig, l ledger.Ledger, done <-chan struct{}, written *atomic.Int64) []ledger.Change {
	var log []ledger.Change
	rnd := rand.New(rand.NewPCG(3, 3))
	hints := l.Hints(ctx)
	for {
		var after int64
		if len(log) > 0 {
			after = log[len(log)-1].Seq
		}
		page, err := l.Changes(ctx, ledger.ChangeQuery{After: after, Limit: 1 + rnd.IntN(20)})
		if err != nil {
			r.Errorf("cannot follow: %v", err)
			return log
		}
		log = append(log, page...)
		if len(page) > 0 {
			continue
		}
		select {
		case <-done:
			if after >= written.Load() {
				return log
			}
		case <-hints:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// testPast asks for every version at every sequence and time.
func testPast(r *rig) {
	refs := []ledger.Ref{beast("a"), beast("b")}
	o := map[ledger.Ref]ledger.Object{}
	var log []ledger.Change
	for n := range 12 {
		ref := refs[n*n%3%2]
		next := o[ref]
		expect := next.Version
		next.Ref, next.Name = ref, fmt.Sprint("v", n)
		if n == 9 {
			next.Deleted = time.Now()
		}
		set := by(ledger.Put{Object: next, Expect: expect, Op: fmt.Sprint("op", n)})
		if n%4 == 3 { // two changes in one commit have one time
			set.Puts = append(set.Puts, create(ledger.Object{Ref: cage(fmt.Sprint(n))}))
		}
		o[ref] = r.commit(set).Objects[0]
	}
	log = r.changes(ledger.ChangeQuery{})
	want := func(ref ledger.Ref, in func(c ledger.Change) bool) (last ledger.Change) {
		for _, c := range log {
			if c.Object.Ref == ref && in(c) {
				last = c
			}
		}
		return last
	}
	ask := func(ref ledger.Ref, m ledger.Moment, in func(c ledger.Change) bool) {
		r.Helper()
		got, err := r.At(r.ctx, ref, m)
		exp := want(ref, in)
		if exp.Seq == 0 {
			r.wantFault(err, fault.NotFound, "")
			return
		}
		if err != nil {
			r.Fatalf("%s at %+v: %v", ref, m, err)
		}
		r.same(got, exp, fmt.Sprintf("%s at %+v", ref, m))
	}
	for _, ref := range append(refs, cage("3"), cage("none")) {
		for seq := int64(1); seq < int64(len(log))+3; seq++ {
			ask(ref, ledger.Moment{Seq: seq}, func(c ledger.Change) bool { return c.Seq <= seq })
		}
		for _, c := range log {
			for _, at := range []time.Time{c.At.Add(-time.Microsecond), c.At, c.At.Add(time.Microsecond), c.At.In(time.FixedZone("", 7200))} {
				ask(ref, ledger.Moment{Time: at}, func(c ledger.Change) bool { return !c.At.After(at) })
			}
		}
		ask(ref, ledger.Moment{Time: time.Now().Add(time.Hour)}, func(ledger.Change) bool { return true })
		ask(ref, ledger.Moment{Time: log[0].At.Add(-time.Hour)}, func(ledger.Change) bool { return false })
		ask(ref, ledger.Moment{}, func(ledger.Change) bool { return false })
		// A sequence goes before a time.
		ask(ref, ledger.Moment{Seq: 2, Time: time.Now()}, func(c ledger.Change) bool { return c.Seq <= 2 })
	}
}

func testHead(r *rig) {
	head := r.head()
	if head.Ledger == "" || head.Seq != 0 {
		r.Fatalf("a new ledger has head %+v, want a name and no changes", head)
	}
	res := r.commit(by(create(ledger.Object{Ref: beast("a")}), create(ledger.Object{Ref: beast("b")})))
	for i, l := range r.replicas(3) {
		got := r.on(l).head()
		if got.Ledger != head.Ledger || got.Epoch != head.Epoch || got.Seq != res.Seq {
			r.Fatalf("replica %d has head %+v, want that of one ledger: %+v with seq %d", i, got, head, res.Seq)
		}
		if !got.At.Equal(res.Objects[0].Updated) && time.Since(got.At).Abs() > time.Hour {
			r.Fatalf("replica %d says the newest change was at %v", i, got.At)
		}
	}
}

// testHints waits for signals of commits by any replica, for changes and for work.
func testHints(r *rig) {
	ledgers := r.replicas(3)
	for from, writer := range ledgers {
		for to, reader := range ledgers {
			ctx, cancel := context.WithCancel(r.ctx)
			hints := reader.Hints(ctx)
			drain(hints)
			for n := 0; ; n++ { // a hint may be lost; the next commit gives another
				set := waking(ledger.Wake{Ref: cage("w")})
				if n%2 == 0 {
					set = by(create(ledger.Object{Ref: beast(fmt.Sprintf("%d-%d-%d", from, to, n))}))
				}
				r.on(writer).commit(set)
				if heard(r.ctx, hints, 2*time.Second) {
					break
				}
				if n == 5 {
					r.Fatalf("replica %d hears nothing of commits by replica %d", to, from)
				}
			}
			cancel()
			for open := true; open; {
				select {
				case _, open = <-hints:
				case <-r.ctx.Done():
					r.Fatal("the channel of hints stays open when its context has ended")
				}
			}
		}
	}
}

func drain(hints <-chan struct{}) {
	for {
		select {
		case <-hints:
		default:
			return
		}
	}
}

func heard(ctx context.Context, hints <-chan struct{}, d time.Duration) bool {
	select {
	case _, ok := <-hints:
		return ok
	case <-time.After(d):
	case <-ctx.Done():
	}
	return false
}
