package audit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
)

// TestSealing runs the work as the loop does, over months.
func TestSealing(t *testing.T) {
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, url(t))
			w.retain = 30 * 24 * time.Hour
			w.room = w.service(w.store)
			run := func() time.Duration {
				t.Helper()
				for range 100 {
					r, err := w.room.Reconcile(w.ctx, reconcile.Task{})
					if err != nil {
						t.Fatal(err)
					}
					if !r.Again {
						return r.After
					}
				}
				t.Fatal("it never rests")
				return 0
			}
			if after := run(); after != time.Minute {
				t.Errorf("it comes back after %s", after)
			}
			first, err := audit.Keys(w.ctx, w.store)
			if err != nil || len(first) != 1 {
				t.Fatalf("the keys are %v, %v", first, err)
			}
			run()
			if r := w.sound("nothing was written"); r.Blocks != 1 || r.Unsealed != 0 {
				t.Errorf("an idle ledger was sealed again: %+v", r)
			}
			for month := range 5 {
				w.write(50)
				run()
				r := w.sound(fmt.Sprintf("month %d", month))
				if r.Unsealed != 0 {
					t.Errorf("in month %d it is %+v", month, r)
				}
				w.now = w.now.Add(31 * 24 * time.Hour)
				run()
				w.sound("truncated")
			}
			keys, err := audit.Keys(w.ctx, w.store)
			if err != nil || len(keys) != 2 || keys[0].ID != first[0].ID || keys[1].By != keys[0].ID {
				t.Fatalf("after five months the keys are %+v, %v", keys, err)
			}
			head, err := w.store.Head(w.ctx)
			if err != nil || head.Whole == 0 {
				t.Fatalf("nothing was truncated: %+v, %v", head, err)
			}
			left, err := w.store.Changes(w.ctx, ledger.ChangeQuery{Left: true, Until: head.Whole})
			if err != nil || len(left) > 8 {
				t.Errorf("up to the checkpoint %d changes are left, %v", len(left), err)
			}
			found, err := w.store.List(w.ctx, ledger.Query{Kind: audit.Kind.Name})
			if err != nil || found[0].Phase != "retired" {
				t.Fatalf("the first key is %+v, %v", found[0], err)
			}
		})
	}
}

var errDead = errors.New("the process is dead")

// mortal is a store whose process is killed at its nth write: the write is done or
// not, and nobody hears of it.
type mortal struct {
	audit.Store
	left  int
	after bool
}

func (m *mortal) die(write func() error) error {
	switch m.left--; {
	case m.left < 0:
		return errDead
	case m.left == 0:
		if m.after {
			_ = write()
		}
		return errDead
	}
	return write()
}

func (m *mortal) AppendBlock(ctx context.Context, b ledger.Block) error {
	return m.die(func() error { return m.Store.AppendBlock(ctx, b) })
}

func (m *mortal) Truncate(ctx context.Context, c ledger.Checkpoint) error {
	return m.die(func() error { return m.Store.Truncate(ctx, c) })
}

func (m *mortal) Prune(ctx context.Context) (more bool, err error) {
	err = m.die(func() error { more, err = m.Store.Prune(ctx); return err })
	return more, err
}

func (m *mortal) Commit(ctx context.Context, set ledger.Set) (r ledger.Result, err error) {
	err = m.die(func() error { r, err = m.Store.Commit(ctx, set); return err })
	return r, err
}

func (m *mortal) Shred(ctx context.Context, ref string) error {
	return m.die(func() error { return m.Store.Shred(ctx, ref) })
}

// TestKilledAnywhere kills the sealer before and after each of its writes: what
// is there holds at once, and the next one goes on.
func TestKilledAnywhere(t *testing.T) {
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			for n := 1; ; n++ {
				w := newWorld(t, url(t))
				w.write(30)
				w.seal()
				w.write(30)
				w.retain = 30 * 24 * time.Hour
				w.now = w.now.Add(100 * 24 * time.Hour) // a key is due, a block, a checkpoint, and pruning
				var alive bool
				for _, after := range []bool{false, true} {
					alive = true
					room := w.service(&mortal{Store: w.store, left: n, after: after})
					for range 20 {
						r, err := room.Reconcile(w.ctx, reconcile.Task{})
						if err != nil && !errors.Is(err, errDead) {
							t.Fatal(err)
						}
						if err != nil {
							alive = false
						}
						if err != nil || !r.Again {
							break
						}
					}
					w.sound(fmt.Sprintf("killed at write %d (done: %v)", n, after))
				}
				w.room = w.service(w.store)
				for range 20 {
					r, err := w.room.Reconcile(w.ctx, reconcile.Task{})
					if err != nil {
						t.Fatalf("after it was killed at write %d: %v", n, err)
					}
					if !r.Again {
						break
					}
				}
				if r := w.sound("gone on"); r.Unsealed != 0 || r.Truncated == 0 {
					t.Fatalf("after it was killed at write %d it is %+v", n, r)
				}
				if alive {
					if n < 5 {
						t.Fatalf("there were only %d writes to be killed at", n)
					}
					return
				}
			}
		})
	}
}

// TestNothingMissingIsSealed: a hole in the log stays one.
func TestNothingMissingIsSealed(t *testing.T) {
	w := newWorld(t, engines["sqlite"](t))
	w.write(10)
	w.seal()
	w.write(10)
	w.sql(`DELETE FROM log WHERE seq = 15`)
	if _, err := w.room.Seal(w.ctx); fault.Reason(err) != "flaw" {
		t.Errorf("a log with a hole is sealed: %v", err)
	}
	w.sql(`UPDATE log SET actor = 'bob' WHERE seq = 3`)
	if err := w.room.Truncate(w.ctx, 1); fault.Reason(err) != "flaw" {
		t.Errorf("what was edited is sealed anew: %v", err)
	}
}

// counting counts how often the log is read from its beginning, and pruned.
type counting struct {
	audit.Store
	reads, prunes int
}

func (c *counting) Entries(ctx context.Context, after int64, limit int) ([]ledger.Entry, error) {
	if after < 0 {
		c.reads++
	}
	return c.Store.Entries(ctx, after, limit)
}

func (c *counting) Prune(ctx context.Context) (bool, error) {
	c.prunes++
	return c.Store.Prune(ctx)
}

// TestAFlawIsNotReadForEver: what cannot be truncated is read twice, since it may have
// been erased meanwhile, told, and tried again an hour later; meanwhile the log is sealed
// and pruned as always.
func TestAFlawIsNotReadForEver(t *testing.T) {
	w := newWorld(t, engines["sqlite"](t))
	w.write(10)
	w.seal()
	w.sql(`UPDATE log SET actor = 'bob' WHERE seq = 3`)
	w.retain, w.now = 30*24*time.Hour, w.now.Add(60*24*time.Hour)
	store := &counting{Store: w.store}
	room := w.service(store)
	for i, c := range []struct {
		reason string
		after  time.Duration
		flaw   bool
		reads  int
	}{
		{"it is found", 0, true, 2},
		{"a minute later", time.Minute, false, 2},
		{"within the hour", 58 * time.Minute, false, 2},
		{"after an hour", time.Minute, true, 4},
		{"and again not at once", time.Minute, false, 4},
	} {
		w.now = w.now.Add(c.after)
		w.write(1)
		r, err := room.Reconcile(w.ctx, reconcile.Task{})
		if c.flaw != (fault.Reason(err) == "flaw") || !c.flaw && (err != nil || r.After != time.Minute) {
			t.Errorf("%s: %+v, %v", c.reason, r, err)
		}
		if store.reads != c.reads || store.prunes != i+1 {
			t.Errorf("%s: the log was read %d times and pruned %d times", c.reason, store.reads, store.prunes)
		}
		if last, err := w.store.Blocks(w.ctx, 0, -1); err != nil || last[0].Last != int64(w.n)+1 {
			t.Errorf("%s: it is not sealed up to change %d: %+v, %v", c.reason, w.n+1, last, err)
		}
	}
}

func TestRetainIsRefused(t *testing.T) {
	for retain, ok := range map[time.Duration]bool{0: true, time.Hour: false, -1: false, 24 * time.Hour: true} {
		if _, err := audit.NewService(audit.Config{Retain: retain}); (err == nil) != ok {
			t.Errorf("to retain for %s is %v", retain, err)
		}
	}
}

// TestDue: whoever is never truncated too early is truncated at last.
func TestDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(rapid.Int64Range(1e9, 2e9).Draw(t, "now"), 0)
		retain := time.Duration(rapid.Int64Range(int64(audit.MinRetain), int64(1000*time.Hour)).Draw(t, "retain"))
		last := now.Add(-time.Duration(rapid.Int64Range(0, int64(3000*time.Hour)).Draw(t, "ago")))
		if due := audit.Due(retain, last, now); due && now.Sub(last) < retain || !due && now.Sub(last) > retain+48*time.Hour || audit.Due(0, last, now) {
			t.Fatalf("due is %v, %s after the last, and %s are retained", due, now.Sub(last), retain)
		}
	})
}

// TestFollow wakes the work at the start, and when much was written.
func TestFollow(t *testing.T) {
	w := newWorld(t, engines["sqlite"](t))
	ctx, cancel := context.WithCancel(w.ctx)
	hints, feed := w.store.Hints(ctx), ledger.NewFeed(w.store)
	ended := make(chan error, 2)
	go func() { ended <- feed.Run(ctx) }()
	go func() { ended <- w.room.Follow(ctx, feed) }()
	claim := func() ledger.Work {
		for {
			c, err := w.store.Claim(w.ctx, ledger.ClaimRequest{Holder: "me", Kinds: []string{audit.Kind.Name}, Limit: 1, Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Work) == 1 {
				return c.Work[0]
			}
			<-hints
		}
	}
	first := claim()
	if _, err := w.store.Commit(w.ctx, ledger.Set{Actor: "system", Cause: "schedule:x", Lease: &first.Lease, Finish: &ledger.Finish{Dirty: first.Dirty, Next: true, After: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	for range ledger.MaxBlock / 2 / 64 {
		set := ledger.Set{Actor: "alice", Cause: "request:1"}
		for range 64 {
			set.Puts = append(set.Puts, ledger.Put{Op: "create", Object: ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: ledger.NewID()}}})
		}
		if _, err := w.store.Commit(w.ctx, set); err != nil {
			t.Fatal(err)
		}
	}
	claim() // an hour early
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestList shows who did what, newest first and oldest first, over every page size.
func TestList(t *testing.T) {
	w := newWorld(t, engines["sqlite"](t))
	w.write(30)
	call := operation.Audit{User: "root", Method: "POST", Path: "/api/v1/tokens", Remote: "10.9.9.9", Request: "r7"}
	commit := func(put ledger.Put, err error) ledger.Object {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		r, err := w.store.Commit(w.ctx, ledger.Set{Actor: "root", Cause: ledger.ByRequest("r7"), Puts: []ledger.Put{put}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Objects[0]
	}
	begun := commit(call.Entry(operation.AuditStarted, 0, w.now))
	commit(operation.Conclude(begun, operation.AuditDone, operation.AuditStatus{Status: 201, About: "bob"}))
	commit(call.Entry(operation.AuditStarted, 0, w.now)) // killed in the middle
	commit(call.Entry(operation.AuditRefused, 409, w.now))
	if _, err := w.store.Commit(w.ctx, ledger.Set{Actor: "system", Cause: "schedule:x", Puts: []ledger.Put{{Op: "create", Object: ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: "own"}, Org: "umbrella"}}}}); err != nil {
		t.Fatal(err)
	}
	for id, cause := range map[string]ledger.Cause{"applied": ledger.ByResource("home", "Dinosaur", "team-a", "rex"), "followed": ledger.ByChange(ledger.Ref{Kind: "thing", ID: "applied"}, 1)} {
		if _, err := w.store.Commit(w.ctx, ledger.Set{Actor: "kubectl", Cause: cause, Puts: []ledger.Put{{Op: "create", Object: ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: id}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	all := func(p audit.Page) []audit.Record {
		t.Helper()
		var out []audit.Record
		for range 100 {
			page, err := w.room.List(w.ctx, p)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, page.Items...)
			if page.Next == 0 {
				return out
			}
			if p.Oldest {
				p.After = page.Next
			} else {
				p.Before = page.Next
			}
		}
		t.Fatal("the pages never end")
		return nil
	}
	middle := w.at(10)
	for _, c := range []struct {
		reason string
		filter audit.Filter
		want   int
	}{
		{"everything", audit.Filter{}, 36},
		{"what somebody asked for, by requests and by custom resources", audit.Filter{Asked: true}, 34},
		{"by a custom resource alone", audit.Filter{Asked: true, Actor: "kubectl"}, 1},
		{"of one organisation", audit.Filter{Org: "umbrella"}, 1},
		{"by one", audit.Filter{Actor: "root"}, 3},
		{"of one kind", audit.Filter{Kind: "thing"}, 33},
		{"of one object", audit.Filter{Kind: "thing", ID: "t1"}, 8},
		{"of one name", audit.Filter{ID: "name-t1"}, 8},
		{"a verb", audit.Filter{Verb: "call"}, 3},
		{"refused", audit.Filter{Outcome: "refused"}, 1},
		{"nobody knows how it ended", audit.Filter{Outcome: "started"}, 1},
		{"since", audit.Filter{Since: middle}, 27},
		{"until", audit.Filter{Until: middle}, 9},
		{"nothing", audit.Filter{Actor: "nobody"}, 0},
	} {
		for _, limit := range []int{1, 3, 100} {
			for _, oldest := range []bool{false, true} {
				if got := all(audit.Page{Filter: c.filter, Limit: limit, Oldest: oldest}); len(got) != c.want {
					t.Errorf("%s, %d at a time (oldest first: %v): %d records, want %d", c.reason, limit, oldest, len(got), c.want)
				}
			}
		}
	}
	got := all(audit.Page{Filter: audit.Filter{Outcome: "done", Verb: "call"}, Limit: 10})
	if len(got) != 1 || got[0].Actor != "root" || got[0].From != "10.9.9.9" || got[0].Request != "r7" || got[0].Status != 201 || got[0].Name != "bob" || got[0].Call != "POST /api/v1/tokens" {
		t.Errorf("an operator's call is %+v", got)
	}
	if got := all(audit.Page{Limit: 100, Filter: audit.Filter{ID: "t1"}}); got[0].From != "10.0.0.1" || got[0].Request != "r1" || got[0].Outcome != "done" {
		t.Errorf("a change is %+v", got[0])
	}
}

// at is the time of a change.
func (w *world) at(seq int64) time.Time {
	w.Helper()
	c, err := w.store.Changes(w.ctx, ledger.ChangeQuery{After: seq - 1, Limit: 1})
	if err != nil || len(c) != 1 {
		w.Fatalf("change %d: %v, %v", seq, c, err)
	}
	return c[0].At
}
