package ledger_test

import (
	"fmt"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/ledger"
)

// flood wakes n pieces of an organisation in one set.
func flood(org string, n int, after time.Duration) ledger.Set {
	set := ledger.Set{Actor: "a", Cause: "c"}
	for i := range n {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: ledger.Ref{Kind: "beast", ID: fmt.Sprint(org, i)}, Org: org, After: after})
	}
	return set
}

// order returns the organisations of all work in the order of turns.
func order(m *memory) []string {
	rows := make([]ledger.WorkRow, 0, len(m.state.Work))
	for _, r := range m.state.Work {
		rows = append(rows, r)
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].Turn.Before(rows[j].Turn) })
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.Org
	}
	return out
}

func TestAnotherOrganisationOvertakes(t *testing.T) {
	m := newMemory(t)
	m.decide(flood("big", 10_000, 0))
	m.state.Now = m.state.Now.Add(time.Second)
	m.decide(flood("small", 1, 0))
	for i, org := range order(m) {
		if org == "small" {
			if i > 250 {
				t.Fatalf("the small organisation comes %dth, after a second of a flood whose turns lie 20 ms apart", i+1)
			}
			return
		}
	}
	t.Fatal("the small organisation has no turn")
}

func TestLaterWorkDoesNotDelayPresentWork(t *testing.T) {
	m := newMemory(t)
	m.decide(flood("later", 1000, time.Hour))
	for ref, row := range m.state.Work {
		if !row.Turn.Equal(row.Due) {
			t.Fatalf("%s is due at %v and has its turn at %v", ref, row.Due, row.Turn)
		}
	}
	now := ledger.Ref{Kind: "cage", ID: "now"}
	m.decide(ledger.Set{Actor: "a", Cause: "c", Wakes: []ledger.Wake{{Ref: now, Org: "later"}}})
	if row := m.state.Work[now]; row.Turn.Sub(m.state.Now) > time.Second {
		t.Fatalf("work that is due now has its turn in %v", row.Turn.Sub(m.state.Now))
	}
}

// TestTurns checks for any order of floods that turns stay within the horizon
// and that of k organisations woken together each has its share of the first turns.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory(t)
		sizes := rapid.SliceOfN(rapid.IntRange(1, 300), 1, 6).Draw(t, "pieces per organisation")
		var sets []ledger.Set
		for i, n := range sizes {
			sets = append(sets, flood(fmt.Sprint("org", i, "-"), n, 0))
		}
		m.decide(sets...)
		least := sizes[0]
		for _, n := range sizes {
			least = min(least, n)
		}
		for _, row := range m.state.Work {
			if late := row.Turn.Sub(row.Due); late < 0 || late > ledger.LaneHorizon {
				t.Fatalf("a turn comes %v after the work is due", late)
			}
		}
		seen := map[string]int{}
		for _, org := range order(m)[:least*len(sizes)] {
			seen[org]++
		}
		for org, n := range seen {
			if n != least {
				t.Fatalf("%s has %d of the first %d turns of %d organisations", org, n, least*len(sizes), len(sizes))
			}
		}
	})
}

func TestTurnsEndAtTheHorizon(t *testing.T) {
	m := newMemory(t)
	m.decide(flood("big", 30_000, 0)) // ten minutes of turns, if there were no horizon
	for ref, row := range m.state.Work {
		if row.Turn.Sub(row.Due) > ledger.LaneHorizon {
			t.Fatalf("%s has its turn %v after it is due: a claim would not see it", ref, row.Turn.Sub(row.Due))
		}
	}
}

// One organisation brings more, steadily, than is done; after minutes another one's
// few pieces are next all the same, and so is what falls due of it later.
func TestASteadyFloodIsOvertaken(t *testing.T) {
	m := newMemory(t)
	next := func() ledger.WorkRow {
		var first ledger.WorkRow
		for _, r := range m.state.Work {
			if !r.Due.After(m.state.Now) && (first.Kind == "" || r.Turn.Before(first.Turn)) {
				first = r
			}
		}
		m.lanes.Claimed(m.state.Now, first.Turn)
		delete(m.state.Work, first.Ref)
		return first
	}
	bring := func(i int) {
		m.decide(ledger.Set{Actor: "a", Cause: "c", Wakes: []ledger.Wake{{Ref: ledger.Ref{Kind: "beast", ID: fmt.Sprint(i)}, Org: "big"}}})
		m.state.Now = m.state.Now.Add(50 * time.Millisecond)
		if i%2 == 1 {
			next()
		}
	}
	soon := func(org string, n, most int) {
		t.Helper()
		for i := 0; n > 0; i++ {
			if i > most {
				t.Fatalf("%d of %s are not among the next %d, while %d wait", n, org, i, len(m.state.Work))
			}
			if next().Org == org {
				n--
			}
		}
	}
	for i := range 3000 {
		bring(i)
	}
	m.decide(flood("small", 3, 0))
	soon("small", 3, 10)
	m.decide(flood("later", 1, 5*time.Second))
	for i := range 100 { // five seconds
		bring(3000 + i)
	}
	soon("later", 1, 300)
}

// Where nothing waits nobody is late, however often somebody claims a moment afterwards.
func TestNobodyIsLateForNothing(t *testing.T) {
	m := newMemory(t)
	for i := range 100 {
		ref := ledger.Ref{Kind: "beast", ID: fmt.Sprint(i)}
		m.decide(ledger.Set{Actor: "a", Cause: "c", Wakes: []ledger.Wake{{Ref: ref, Org: fmt.Sprint("org", i)}}})
		row := m.state.Work[ref]
		if late := row.Due.Sub(row.Turn); late > 0 {
			t.Fatalf("after %d a turn is %s before it is due", i, late)
		}
		m.state.Now = m.state.Now.Add(5 * time.Millisecond)
		m.lanes.Claimed(m.state.Now, row.Turn)
		m.lanes.Claimed(m.state.Now, m.state.Now)
		delete(m.state.Work, ref)
	}
}
