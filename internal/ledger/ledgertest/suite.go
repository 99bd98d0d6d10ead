// Package ledgertest checks that a store keeps the contract of package ledger.
//
// It owns the suite that every store must pass (Run), and Model, a naive
// reference that the suite and the tests of ledger.Decide compare with. It must
// not know any store: a store hands in how to open it, and nothing else.
package ledgertest

import (
	"context"
	"flag"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Open makes a fresh, empty store that knows the kinds. What it opens it closes
// in t.Cleanup.
type Open func(t testing.TB, kinds []ledger.Kind) Store

// Store is one store under test.
type Store struct {
	// Replica opens a handle of its own, as another process would. A store
	// that only one process may open returns the same handle every time.
	Replica func(t testing.TB) ledger.Ledger
	// Reopen closes every handle and opens the store anew.
	Reopen func(t testing.TB) ledger.Ledger
	// Image opens a copy of what is on disk at this moment, with writers in
	// full flight: what a crash would leave. Nil if it cannot be had.
	Image func(t testing.TB) ledger.Ledger
	// Raw returns every byte that the store has on disk. Nil if it cannot be had.
	Raw func(t testing.TB) []byte
	// Shift moves the store's clock, for good. Nil if the clock is not the
	// store's to move.
	Shift func(d time.Duration)
}

// patience bounds everything that the suite waits for.
const patience = 5 * time.Minute

// Run checks a store against the whole contract. Its tests run side by side:
// most of their time they wait for the disk.
func Run(t *testing.T, open Open) {
	run(t, open, []testCase{
		{"Put", testPut},
		{"PutRoundTrip", testRoundTrip},
		{"NothingChangedNothingWritten", testNoop},
		{"Invalid", testInvalid},
		{"Garbage", testGarbage},
		{"Atomic", testAtomic},
		{"FailsAlone", testFailsAlone},
		{"Names", testNames},
		{"NameRace", testNameRace},
		{"NamePassing", testNamePassing},
		{"Counters", testCounters},
		{"CounterRace", testCounterRace},
		{"SoftDelete", testSoftDelete},
		{"LargeSet", testLargeSet},
		{"Cancelled", testCancelled},
		{"Closed", testClosed},

		{"Wake", testWake},
		{"WakeLater", testWakeLater},
		{"WakeIfIdle", testWakeIfIdle},
		{"Finish", testFinish},
		{"LeaseGuards", testLeaseGuards},
		{"LeaseExpires", testLeaseExpires},
		{"Take", testTake},
		{"Renew", testRenew},
		{"Release", testRelease},
		{"LostHoldsNothing", testLostHoldsNothing},
		{"Claim", testClaim},
		{"ClaimRace", testClaimRace},
		{"Fair", testFair},
		{"Backlog", testBacklog},
		{"RenewRace", testRenewRace},

		{"Log", testLog},
		{"LogDense", testLogDense},
		{"Trace", testTrace},
		{"Past", testPast},
		{"Head", testHead},
		{"Hints", testHints},
		{"Proof", testProof},
		{"ProofRace", testProofRace},
		{"Truncate", testTruncate},
		{"Erase", testErase},

		{"List", testList},
		{"ListAgrees", testListAgrees},
		{"ListInvalid", testListInvalid},
		{"Pages", testPages},
		{"TextSearch", testTextSearch},
		{"Totals", testTotals},
		{"Tally", testTally},
		{"TallyInvalid", testTallyInvalid},
		{"CounterList", testCounterList},

		{"Reach", testReach},
		{"ReachAgrees", testReachAgrees},
		{"Search", testSearch},
		{"SearchAgrees", testSearchAgrees},
		{"SearchMany", testSearchMany},
		{"FindInvalid", testFindInvalid},

		{"Blobs", testBlobs},
		{"Sweep", testSweep},
		{"SweepRace", testSweepRace},
		{"Secrets", testSecrets},
		{"Reopen", testReopen},

		{"Model", testModel},
		{"Serial", testSerial},
		{"HistoryRegister", testHistoryRegister},
		{"HistoryLeases", testHistoryLeases},
	})
}

// RunLocal checks what shows only where the store's files and clock are at hand:
// Image and Shift must be there.
func RunLocal(t *testing.T, open Open) {
	run(t, open, []testCase{
		{"CrashImage", testCrashImage},
		{"Clock", testClock},
	})
}

type testCase struct {
	name string
	test func(r *rig)
}

func run(t *testing.T, open Open, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			store := open(t, Kinds())
			l := store.Replica(t)
			c.test(&rig{T: t, store: store, hand: hand{tb: t, ctx: ctx, Ledger: l}})
		})
	}
}

// Kinds are the kinds that the suite writes.
func Kinds() []ledger.Kind {
	return []ledger.Kind{
		{
			Name: "beast",
			Fields: []ledger.Field{
				{Name: "species", Type: ledger.Text}, {Name: "legs", Type: ledger.Int},
				{Name: "tame", Type: ledger.Bool}, {Name: "born", Type: ledger.Time},
			},
			Scope:  []string{"species", "org"},
			Totals: [][]string{{"org"}, {"species", "org"}, {"legs"}, {"phase", "species", "legs", "tame", "born"}, {"species", "born"}},
			Text:   []string{"name", "owner", "species"},
			Linked: true, Searched: true,
		},
		{Name: "cage", Totals: [][]string{{"org"}, {}}},
	}
}

// rig is what one test of the suite works with.
type rig struct {
	*testing.T
	store Store
	hand
}

// replicas opens n handles, the first one among them.
func (r *rig) replicas(n int) []ledger.Ledger {
	all := []ledger.Ledger{r.hand.Ledger}
	for len(all) < n {
		all = append(all, r.store.Replica(r.T))
	}
	return all
}

// on returns a hand on another handle.
func (r *rig) on(l ledger.Ledger) hand { return hand{tb: r.T, ctx: r.ctx, Ledger: l} }

// hand is a ledger whose calls end the test if they fail.
type hand struct {
	tb  rapid.TB
	ctx context.Context
	ledger.Ledger
}

func (h hand) commit(set ledger.Set) ledger.Result {
	h.tb.Helper()
	res, err := h.Commit(h.ctx, set)
	if err != nil {
		h.tb.Fatalf("cannot commit %+v: %v", set, err)
	}
	return res
}

// put commits one object and returns it as stored.
func (h hand) put(o ledger.Object, expect int64, op string) ledger.Object {
	h.tb.Helper()
	return h.commit(by(ledger.Put{Object: o, Expect: expect, Op: op})).Objects[0]
}

// refused commits a set that must fail, and checks how.
func (h hand) refused(set ledger.Set, kind fault.Kind, reason string) {
	h.tb.Helper()
	_, err := h.Commit(h.ctx, set)
	h.wantFault(err, kind, reason)
}

func (h hand) wantFault(err error, kind fault.Kind, reason string) {
	h.tb.Helper()
	if !fault.Is(err, kind) || reason != "" && fault.Reason(err) != reason {
		h.tb.Fatalf("got fault %v %q (%.300v), want %v %q", fault.Of(err), fault.Reason(err), err, kind, reason)
	}
}

func (h hand) get(ref ledger.Ref) ledger.Object {
	h.tb.Helper()
	o, err := h.Get(h.ctx, ref)
	if err != nil {
		h.tb.Fatalf("cannot get %s: %v", ref, err)
	}
	return o
}

func (h hand) absent(refs ...ledger.Ref) {
	h.tb.Helper()
	for _, ref := range refs {
		_, err := h.Get(h.ctx, ref)
		h.wantFault(err, fault.NotFound, "")
	}
}

func (h hand) head() ledger.Head {
	h.tb.Helper()
	head, err := h.Head(h.ctx)
	if err != nil {
		h.tb.Fatalf("cannot read the head: %v", err)
	}
	return head
}

func (h hand) changes(q ledger.ChangeQuery) []ledger.Change {
	h.tb.Helper()
	got, err := h.Changes(h.ctx, q)
	if err != nil {
		h.tb.Fatalf("cannot read changes %+v: %v", q, err)
	}
	return got
}

func (h hand) list(q ledger.Query) []ledger.Object {
	h.tb.Helper()
	got, err := h.List(h.ctx, q)
	if err != nil {
		h.tb.Fatalf("cannot list %+v: %v", q, err)
	}
	return got
}

func (h hand) total(q ledger.Query) int64 {
	h.tb.Helper()
	n, err := h.Total(h.ctx, q)
	if err != nil {
		h.tb.Fatalf("cannot total %+v: %v", q, err)
	}
	return n
}

func (h hand) counter(name string) int64 {
	h.tb.Helper()
	n, err := h.Counter(h.ctx, name)
	if err != nil {
		h.tb.Fatalf("cannot read counter %s: %v", name, err)
	}
	return n
}

func (h hand) claim(limit int, lease time.Duration) ledger.Claimed {
	h.tb.Helper()
	got, err := h.Claim(h.ctx, ledger.ClaimRequest{Holder: "suite", Kinds: []string{"beast", "cage"}, Limit: limit, Lease: lease})
	if err != nil {
		h.tb.Fatalf("cannot claim: %v", err)
	}
	return got
}

// one claims exactly one piece of work, the only one due.
func (h hand) one(lease time.Duration) ledger.Work {
	h.tb.Helper()
	got := h.claim(10, lease)
	if len(got.Work) != 1 {
		h.tb.Fatalf("claimed %+v, want one piece of work", got)
	}
	return got.Work[0]
}

// none checks that nothing is due, and returns when something will be.
func (h hand) none() time.Duration {
	h.tb.Helper()
	got := h.claim(10, time.Hour)
	if len(got.Work) != 0 {
		h.tb.Fatalf("claimed %+v, want no work", got.Work)
	}
	return got.Next
}

func (h hand) same(got, want any, what string, opts ...cmp.Option) {
	h.tb.Helper()
	if d := cmp.Diff(want, got, opts...); d != "" {
		h.tb.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// instant is a lease that has run out when the call that took it returns.
const instant = time.Microsecond

// by makes a set of puts with an actor and a cause.
func by(puts ...ledger.Put) ledger.Set {
	return ledger.Set{Actor: "alice", Cause: ledger.ByRequest("r1"), Puts: puts}
}

// waking makes a set that only wakes.
func waking(wakes ...ledger.Wake) ledger.Set {
	s := by()
	s.Wakes = wakes
	return s
}

// finishing makes a set that ends leased work.
func finishing(w ledger.Work, f ledger.Finish) ledger.Set {
	s := by()
	f.Dirty = w.Dirty
	s.Lease, s.Finish = &w.Lease, &f
	return s
}

func beast(id string) ledger.Ref { return ledger.Ref{Kind: "beast", ID: id} }
func cage(id string) ledger.Ref  { return ledger.Ref{Kind: "cage", ID: id} }

func create(o ledger.Object) ledger.Put { return ledger.Put{Object: o, Op: "create"} }

// race runs f(0..n-1) at once, each on one of the ledgers, and waits for all.
func race(ledgers []ledger.Ledger, n int, f func(i int, l ledger.Ledger)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i, ledgers[i%len(ledgers)])
		})
	}
	close(start)
	wg.Wait()
}

// check runs a property n times, or as often as -rapid.checks says if that was
// given: a database makes each run dearer than rapid's default allows for.
func check(t *testing.T, n int, prop func(t *rapid.T)) {
	t.Helper()
	if f := flag.Lookup("rapid.checks"); f.Value.String() != f.DefValue {
		n = math.MaxInt
	}
	runs, failed := 0, false
	rapid.Check(t, func(t *rapid.T) {
		if runs++; runs > n && !failed { // once it has failed, rapid looks for a smaller case
			return
		}
		ended := false
		defer func() { failed = failed || !ended }()
		prop(t)
		ended = true
	})
}

func id(prefix string, n int) string { return fmt.Sprintf("%s%05d", prefix, n) }
