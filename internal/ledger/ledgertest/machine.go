package ledgertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// soon separates what is due from what waits: the model's clock and the store's
// are not the same, so the machine knows only "now" and "in an hour".
const soon = time.Minute

// testModel runs random commands against the store and the model, and compares
// what they answer and what they hold. Runs share one store and keep apart by
// the prefix of everything they write; each leaves the queue empty.
func testModel(r *rig) {
	runs, replicas := 0, r.replicas(2)
	check(r.T, 30, func(t *rapid.T) {
		runs++
		m := &machine{
			rig: r, hand: hand{tb: t, ctx: r.ctx, Ledger: r.hand.Ledger}, model: NewModel(), replicas: &replicas,
			run: fmt.Sprintf("run%d", runs), base: r.head().Seq, claimed: map[int64]ledger.Work{},
		}
		defer m.abandon()
		t.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) { m.compare() },
			"commit":  m.commitSome,
			"commit2": m.commitSome, // the most frequent of commands
			"finish":  m.finishSome,
			"claim":   m.claimSome,
			"renew":   m.renewSome,
			"release": m.releaseSome,
			"reopen":  m.reopen,
			"switch":  m.change,
		})
		m.drain()
	})
}

type machine struct {
	rig *rig
	hand
	model    *Model
	replicas *[]ledger.Ledger
	run      string
	base     int64                 // head before the run
	claimed  map[int64]ledger.Work // by token, all that were ever given
	last     int64                 // greatest token seen
}

func (m *machine) commitSome(t *rapid.T) {
	m.do(DrawSet(t, m.model, m.run))
}

// finishSome ends a run that may have been lost long ago.
func (m *machine) finishSome(t *rapid.T) {
	w, ok := m.draw(t)
	if !ok {
		return
	}
	set := DrawSet(t, m.model, m.run)
	set.Lease = &w.Lease
	set.Finish = &ledger.Finish{
		Dirty: w.Dirty, Attempts: rapid.IntRange(0, 3).Draw(t, "attempts"),
		Next: rapid.Bool().Draw(t, "next"), After: drawDelay(t),
	}
	set.Take = DrawTake(t, time.Hour, instant)
	m.do(set)
}

// do commits to both and compares.
func (m *machine) do(set ledger.Set) {
	m.tb.Helper()
	want, failures := m.model.Commit(time.Now(), set)
	got, err := m.Commit(m.ctx, set)
	if len(failures) > 0 {
		if err == nil || !slices.Contains(failures, Failure{fault.Of(err), fault.Reason(err)}) {
			m.tb.Fatalf("commit of %+v: got %v %q (%v), want one of %+v", set, fault.Of(err), fault.Reason(err), err, failures)
		}
		return
	}
	if err != nil {
		m.tb.Fatalf("commit of %+v: %v", set, err)
	}
	m.same(got.Objects, want.Objects, "objects of the commit", lenient, ledgerTimes, emptySlices)
	if want.Seq > 0 {
		want.Seq += m.base
	}
	m.same(got.Seq, want.Seq, "sequence of the commit")
	if set.Take != nil {
		m.took(*set.Take, want.Taken, got.Taken)
	}
}

// took compares what a set has taken, and remembers it as claimed.
func (m *machine) took(req ledger.ClaimRequest, want, got []ledger.Work) {
	m.tb.Helper()
	m.model.Took(want, got, req.Lease == instant)
	m.same(got, want, "taken work", workOf, cmpopts.EquateEmpty())
	before := m.last
	for _, w := range got {
		if w.Token <= before {
			m.tb.Fatalf("token %d is not greater than %d of an earlier claim", w.Token, before)
		}
		m.last = max(m.last, w.Token)
		m.claimed[w.Token] = w
	}
}

func (m *machine) claimSome(t *rapid.T) {
	req := ledger.ClaimRequest{
		Holder: "machine", Limit: rapid.IntRange(1, 4).Draw(t, "limit"),
		Lease: rapid.SampledFrom([]time.Duration{time.Hour, instant}).Draw(t, "lease"),
		Kinds: rapid.SampledFrom([][]string{{"beast"}, {"cage"}, {"beast", "cage"}}).Draw(t, "kinds"),
	}
	m.take(req)
}

func (m *machine) take(req ledger.ClaimRequest) []ledger.Work {
	due := 0
	for ref, p := range m.model.Work {
		if slices.Contains(req.Kinds, ref.Kind) && claimable(p) {
			due++
		}
	}
	got, err := m.Claim(m.ctx, req)
	if err != nil {
		m.tb.Fatalf("cannot claim: %v", err)
	}
	if want := min(due, req.Limit); len(got.Work) > want || len(got.Work) < want && req.Lease != instant {
		m.tb.Fatalf("claimed %d pieces, want %d of %d that are due: %+v", len(got.Work), want, due, m.model.Work)
	}
	before := m.last
	for _, w := range got.Work {
		p, ok := m.model.Work[w.Ref]
		if !ok || !claimable(p) || !slices.Contains(req.Kinds, w.Kind) {
			m.tb.Fatalf("claimed %+v, which the model has as %+v", w, p)
		}
		m.same(w, ledger.Work{Lease: w.Lease, Org: p.Org, Dirty: p.Dirty, Attempts: p.Attempts, Cause: p.Cause}, "claimed work", workOf)
		if w.Token <= before {
			m.tb.Fatalf("token %d is not greater than %d of an earlier claim", w.Token, before)
		}
		m.last = max(m.last, w.Token)
		p.Token, p.Lapsed = w.Token, req.Lease == instant
		m.model.Work[w.Ref] = p
		m.claimed[w.Token] = w
	}
	if full := len(got.Work) == req.Limit; !full || due > req.Limit || got.Next != 0 {
		m.checkNext(req, got.Next, full && due > req.Limit) // a full answer may say that there is more, without looking
	}
	return got.Work
}

// checkNext compares when a claim says the next piece comes with what is left.
func (m *machine) checkNext(req ledger.ClaimRequest, next time.Duration, more bool) {
	m.tb.Helper()
	left, lapsed := 0, false
	for ref, p := range m.model.Work {
		if slices.Contains(req.Kinds, ref.Kind) {
			left++
			lapsed = lapsed || p.Lapsed
		}
	}
	switch {
	case more && next != 0:
		m.tb.Fatalf("next is in %v, want 0: more is due", next)
	case !more && !lapsed && left > 0 && (next <= soon || next > time.Hour):
		m.tb.Fatalf("next is in %v, want about an hour", next)
	case left == 0 && next >= 0:
		m.tb.Fatalf("next is in %v, want a negative time: there is nothing", next)
	}
}

func claimable(p Pending) bool {
	return (p.Token == 0 || p.Lapsed) && time.Until(p.Due) < soon
}

func (m *machine) renewSome(t *rapid.T) {
	leases := m.drawLeases(t)
	d := rapid.SampledFrom([]time.Duration{time.Hour, instant}).Draw(t, "lease")
	lost, err := m.Renew(m.ctx, leases, d)
	if err != nil {
		m.tb.Fatalf("cannot renew: %v", err)
	}
	for _, l := range leases {
		p := m.model.Work[l.Ref]
		isLost := slices.Contains(lost, l)
		switch {
		case p.Token != l.Token && !isLost:
			m.tb.Fatalf("%+v was renewed; the model has %+v", l, p)
		case p.Token == l.Token && !p.Lapsed && isLost:
			m.tb.Fatalf("%+v was lost; the model has %+v", l, p)
		case !isLost: // what has lapsed may be renewed or not, as long as nobody else has it
			p.Lapsed = d == instant
			m.model.Work[l.Ref] = p
		}
	}
}

func (m *machine) releaseSome(t *rapid.T) {
	leases := m.drawLeases(t)
	if err := m.Release(m.ctx, leases); err != nil {
		m.tb.Fatalf("cannot release: %v", err)
	}
	for _, l := range leases {
		if p := m.model.Work[l.Ref]; p.Token == l.Token {
			p.Token, p.Lapsed = 0, false
			m.model.Work[l.Ref] = p
		}
	}
}

func (m *machine) reopen(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
		return
	}
	m.rig.hand.Ledger = m.rig.store.Reopen(m.rig.T)
	m.hand.Ledger, *m.replicas = m.rig.hand.Ledger, m.rig.replicas(2)
}

// change goes on at another replica: it knows nothing of what this one has seen.
func (m *machine) change(t *rapid.T) {
	m.hand.Ledger = rapid.SampledFrom(*m.replicas).Draw(t, "replica")
}

// draw picks a piece of work that was claimed once: often one that is still held.
func (m *machine) draw(t *rapid.T) (ledger.Work, bool) {
	var all, held []int64
	for token, w := range m.claimed {
		all = append(all, token)
		if m.model.Work[w.Ref].Token == token {
			held = append(held, token)
		}
	}
	if len(all) == 0 {
		return ledger.Work{}, false
	}
	if len(held) > 0 && rapid.IntRange(0, 3).Draw(t, "held") > 0 {
		all = held
	}
	slices.Sort(all)
	return m.claimed[rapid.SampledFrom(all).Draw(t, "token")], true
}

func (m *machine) drawLeases(t *rapid.T) []ledger.Lease {
	var leases []ledger.Lease
	for range rapid.IntRange(0, 3).Draw(t, "leases") {
		if w, ok := m.draw(t); ok && !slices.Contains(leases, w.Lease) {
			leases = append(leases, w.Lease)
		}
	}
	return leases
}

// ledgerTimes are the store's to choose.
var ledgerTimes = cmpopts.IgnoreFields(ledger.Object{}, "Created", "Updated")

// compare checks that store and model hold the same.
func (m *machine) compare() {
	m.tb.Helper()
	backlog := map[string]ledger.Backlog{}
	for _, kind := range []string{"beast", "cage"} {
		var want []ledger.Object
		for _, o := range m.model.Objects {
			want = append(want, o)
		}
		q := ledger.Query{Kind: kind, Scope: map[string]any{"parent": m.run}, Deleted: true}
		m.same(m.list(q), selectObjects(want, q), kind+" objects", lenient, ledgerTimes, emptySlices)
		tally := m.model.Tally(kind, []string{"org"})
		ours := slices.DeleteFunc(m.totals(kind, []string{"org"}), func(t ledger.Total) bool { return !slices.Contains(orgsOf(m.run), t.Values[0]) })
		m.same(ours, slices.DeleteFunc(tally, func(t ledger.Total) bool { return t.Values[0] == "" }), kind+" totals", cmpopts.EquateEmpty())
		for _, t := range ours {
			m.same(m.total(ledger.Query{Kind: kind, Scope: map[string]any{"org": t.Values[0]}}), t.N, kind+" total of "+t.Values[0])
		}
		b := ledger.Backlog{Kind: kind}
		for ref, p := range m.model.Work {
			switch {
			case ref.Kind != kind:
			case claimable(p):
				b.Due++
			case p.Token != 0 && !p.Lapsed:
				b.Running++
			default:
				b.Waiting++
			}
		}
		if b.Due+b.Running+b.Waiting > 0 {
			backlog[kind] = b
		}
	}
	var log []ledger.Change
	for _, c := range m.model.Log {
		c.Seq += m.base
		log = append(log, c)
	}
	m.same(m.changes(ledger.ChangeQuery{After: m.base}), log, "log", lenient, sameJSON, ledgerTimes,
		cmpopts.IgnoreFields(ledger.Change{}, "At"), emptySlices)
	for _, name := range namesOf(m.run) {
		got, err := m.Lookup(m.ctx, name)
		if want, held := m.model.Names[name]; held && (err != nil || got != want) || !held && !fault.Is(err, fault.NotFound) {
			m.tb.Fatalf("%v is held by %v (%v), want %v", name, got, err, want)
		}
	}
	for _, name := range countersOf(m.run) {
		m.same(m.counter(name), m.model.Counters[name], "counter "+name)
	}
	got := map[string]ledger.Backlog{}
	all, err := m.Backlog(m.ctx)
	if err != nil {
		m.tb.Fatalf("cannot count the backlog: %v", err)
	}
	for _, b := range all {
		if b.Oldest = 0; b.Due+b.Running+b.Waiting > 0 {
			got[b.Kind] = b
		}
	}
	m.same(got, backlog, "backlog")
}

// drain makes everything due, claims and finishes it: nothing is left behind.
func (m *machine) drain() {
	var leases []ledger.Lease
	for ref, p := range m.model.Work {
		if p.Token != 0 {
			leases = append(leases, ledger.Lease{Ref: ref, Token: p.Token})
		}
	}
	if err := m.Release(m.ctx, leases); err != nil {
		m.tb.Fatalf("cannot release: %v", err)
	}
	wake := waking()
	for ref, p := range m.model.Work {
		p.Token, p.Lapsed = 0, false
		m.model.Work[ref] = p
		wake.Wakes = append(wake.Wakes, ledger.Wake{Ref: ref})
	}
	m.do(wake)
	for _, w := range m.take(ledger.ClaimRequest{Holder: "machine", Limit: 100, Lease: time.Hour, Kinds: []string{"beast", "cage"}}) {
		m.do(finishing(w, ledger.Finish{}))
	}
	m.compare()
}

// abandon clears what a failed run has left, so that rapid can try smaller ones.
func (m *machine) abandon() {
	if !m.tb.Failed() {
		return
	}
	l := m.rig.hand.Ledger
	var wake ledger.Set
	for token, w := range m.claimed {
		_ = l.Release(m.ctx, []ledger.Lease{{Ref: w.Ref, Token: token}})
	}
	wake = waking()
	for _, ref := range refsOf(m.run) {
		wake.Wakes = append(wake.Wakes, ledger.Wake{Ref: ref})
	}
	_, _ = l.Commit(m.ctx, wake)
	got, _ := l.Claim(m.ctx, ledger.ClaimRequest{Holder: "machine", Limit: 1000, Lease: time.Hour, Kinds: []string{"beast", "cage"}})
	for _, w := range got.Work {
		_, _ = l.Commit(m.ctx, finishing(w, ledger.Finish{}))
	}
}
