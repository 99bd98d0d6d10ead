package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		reason, text string
		total, want  int64
	}{
		{"few: the number counts", "5,5%", 40, 5},
		{"many: the share does", "5,5%", 1000, 50},
		{"a share is whole objects", "0,5%", 39, 1},
		{"nothing at all goes by itself", "0,0%", 1000, 0},
		{"a part of a percent", "0, 0.5%", 1000, 5},
	} {
		l, err := breaker.ParseLimit(tc.text)
		if err != nil || l.Of(tc.total) != tc.want {
			t.Errorf("%s: %d of %d, %v", tc.reason, l.Of(tc.total), tc.total, err)
		}
		if back, err := breaker.ParseLimit(l.String()); err != nil || back != l {
			t.Errorf("%s: %q reads %v, %v", tc.reason, l, back, err)
		}
	}
	for _, text := range []string{"", "5", "5%", "5,5", "-1,5%", "5,-1%", "5,101%", "5,NaN%", "x,5%", "5,5%,5%", "off"} {
		if l, err := breaker.ParseLimit(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q reads %v, %v", text, l, err)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, text := range []string{"5,5%", "0,0%", "1000000,100%", "5,0.25%", ",%", "1e3,5%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := breaker.ParseLimit(text)
		if err != nil {
			return
		}
		if back, err := breaker.ParseLimit(l.String()); err != nil || back != l {
			t.Errorf("%q: %v became %v, %v", text, l, back, err)
		}
	})
}

// Three replicas take what they can at the same moment: together no more than
// the limit, and the rest is asked for once.
func TestReplicasAtOnce(t *testing.T) {
	databases(t, func(t *testing.T, url string) {
		c := newClock()
		var stores []*sqlledger.Ledger
		var guards []*breaker.Service
		for i := range 3 {
			if i == 0 || strings.HasPrefix(url, "postgres") { // SQLite is one process's
				stores = append(stores, open(t, url))
			} else {
				stores = append(stores, stores[0])
			}
			guards = append(guards, breaker.NewService(breaker.Config{Store: stores[len(stores)-1], Limit: breaker.Limit{Objects: 5}, Now: c.Now}))
		}
		var wg sync.WaitGroup
		errs := make([]error, 30)
		for i := range errs {
			wg.Go(func() { errs[i] = remove(stores[i%3], guards[i%3], removal("things", "a list", fmt.Sprint("t", i))) })
		}
		wg.Wait()
		gone := 0
		for _, err := range errs {
			switch {
			case err == nil:
				gone++
			case !fault.Is(err, fault.Exhausted):
				t.Errorf("got %v", err)
			}
		}
		if gone == 0 || gone > 5 {
			t.Errorf("%d went", gone)
		}
		for i := range 30 { // what lost a race asks again, as rooms do
			if err := remove(stores[i%3], guards[i%3], removal("things", "a list", fmt.Sprint("again", i))); err == nil {
				gone++
			}
		}
		if all := list(t, stores[0]); gone != 5 || len(all) != 1 || all[0].Phase != breaker.Open {
			t.Errorf("%d went, %v", gone, all)
		}
	})
}

func list(t *testing.T, store *sqlledger.Ledger) []ledger.Object {
	t.Helper()
	all, err := store.List(t.Context(), ledger.Query{Kind: breaker.KindApproval.Name})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestApproval(t *testing.T) {
	databases(t, func(t *testing.T, url string) {
		c, store := newClock(), open(t, url)
		guard := breaker.NewService(breaker.Config{Store: store, Limit: breaker.Limit{Objects: 5, Percent: 5}, Now: c.Now})
		n := 0
		take := func(version int64, most int) (gone int) {
			t.Helper()
			for range most {
				n++
				r := removal("things/of-one", "the list", fmt.Sprint("t", n))
				r.Version = version
				err := remove(store, guard, r)
				var waits *breaker.Waiting
				switch {
				case err == nil:
					gone++
				case !errors.As(err, &waits) || fault.Reason(err) != "breaker" || !fault.Is(err, fault.Exhausted):
					t.Fatalf("got %v", err)
				}
			}
			return gone
		}
		want := func(reason string, got, want int) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %d went, want %d", reason, got, want)
			}
		}
		want("the limit", take(1, 20), 5)
		asked := list(t, store)[0]
		a, err := breaker.Decode(asked)
		if err != nil || a.Phase != breaker.Open || len(a.Status.Samples) != 5 ||
			!strings.Contains(a.Status.Message, "more than 5 of 40 things") || !strings.Contains(a.Status.Message, "`drover approve "+a.ID+"`") {
			t.Fatalf("%s %+v, %v", a.Phase, a.Status, err)
		}
		c.pass(3 * time.Hour)
		want("who is asked for stays until somebody decides", take(1, 3), 0)

		for reason, tc := range map[string]struct {
			ctx   context.Context
			id    string
			allow breaker.Allow
			want  fault.Kind
		}{
			"a tenant decides nothing":  {access.With(t.Context(), access.Principal{User: "eve", Org: "acme", OrgAdmin: true}), a.ID, breaker.Allow{}, fault.Denied},
			"there is no such approval": {operator, "nonsense", breaker.Allow{}, fault.NotFound},
			"less than none":            {operator, a.ID, breaker.Allow{Count: -1}, fault.Invalid},
			"for ever":                  {operator, a.ID, breaker.Allow{For: 1000 * time.Hour}, fault.Invalid},
		} {
			if _, err := guard.Approve(tc.ctx, tc.id, tc.allow); !fault.Is(err, tc.want) {
				t.Errorf("%s: %v", reason, err)
			}
		}
		decide := func(o ledger.Object, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		decide(guard.Approve(operator, a.ID, breaker.Allow{Count: 7}))
		want("as many as were approved", take(1, 20), 7)
		if o := list(t, store)[0]; o.Phase != breaker.Open {
			t.Errorf("the others: %s", o.Phase)
		}
		decide(guard.Approve(operator, a.ID, breaker.Allow{For: time.Hour}))
		want("all of them", take(1, 20), 20)
		decide(guard.Refuse(operator, a.ID))
		c.pass(2 * time.Hour)
		want("none", take(1, 3), 0)
		want("an older view changes nothing", take(0, 3), 0)
		want("another version is another rule", take(2, 20), 5)
		decide(guard.Approve(operator, a.ID, breaker.Allow{For: time.Hour}))
		c.pass(time.Hour)
		want("after its time the limit counts", take(2, 20), 0)
		c.pass(2 * time.Hour)
		decide(guard.Approve(operator, a.ID, breaker.Allow{For: time.Hour}))
		want("what was approved of one version", take(2, 3), 3)
		want("does not hold for the next", take(3, 20), 5)
		decide(guard.Approve(operator, a.ID, breaker.Allow{For: time.Hour}))
		want("nor does the next one's for the old", take(2, 3), 0)
		want("and stays in force meanwhile", take(3, 3), 3)
		if all := list(t, store); len(all) != 1 {
			t.Errorf("%d approvals of one rule", len(all))
		}
	})
}

// The rule of rules: whatever happens, no more than the limit goes within any
// hour unless it was approved, approved amounts are exact, and rules and scopes
// do not mix. Replicas start anew at any time; the clock goes back now and then.
func TestNeverMoreWithinAnHour(t *testing.T) {
	databases(t, func(t *testing.T, url string) {
		store, runs := open(t, url), 0
		rapid.Check(t, func(rt *rapid.T) {
			runs++
			c := newClock()
			limit := rapid.Int64Range(0, 4).Draw(rt, "limit")
			guards := make([]*breaker.Service, 3)
			start := func(i int) {
				guards[i] = breaker.NewService(breaker.Config{Store: store, Limit: breaker.Limit{Objects: limit}, Now: c.Now})
			}
			for i := range guards {
				start(i)
			}
			scope, version := fmt.Sprint("run", runs), int64(0)
			changing := rapid.Bool().Draw(rt, "rules change all the time")
			var gone []time.Time // without an approval
			approved, used := map[string]int64{}, map[string]int64{}
			for n := range rapid.IntRange(1, 60).Draw(rt, "steps") {
				i := rapid.IntRange(0, 2).Draw(rt, "replica")
				rule := rapid.SampledFrom([]string{"red", "blue"}).Draw(rt, "rule")
				switch rapid.IntRange(0, 9).Draw(rt, "what") {
				case 0:
					start(i)
				case 1:
					c.pass(-time.Duration(rapid.IntRange(1, 90).Draw(rt, "back")) * time.Minute)
				case 2, 3:
					c.pass(time.Duration(rapid.SampledFrom([]int{1, 4, 5, 6, 20, 49, 54, 59, 60, 61, 80}).Draw(rt, "on")) * time.Minute)
				case 4:
					for _, o := range list(t, store) {
						a, err := breaker.Decode(o)
						if err != nil {
							rt.Fatal(err)
						}
						if a.Spec.Scope != scope || a.Spec.Rule != rule || a.Phase != breaker.Open {
							continue
						}
						count := rapid.Int64Range(1, 5).Draw(rt, "count")
						if _, err := guards[i].Approve(operator, o.ID, breaker.Allow{Count: count}); err != nil {
							rt.Fatal(err)
						}
						approved[rule] += count
					}
				default:
					r := removal(scope, rule, fmt.Sprint(runs, "-", n))
					if changing { // who is asked about one version is measured again with the next
						version++
					}
					r.Version = version
					counts, err := guards[i].Take(t.Context(), r)
					if err != nil {
						if fault.Reason(err) != "breaker" {
							rt.Fatal(err)
						}
						continue
					}
					if _, err := store.Commit(t.Context(), ledger.Set{Actor: "system", Cause: "schedule:test", Counts: counts}); err != nil {
						rt.Fatal(err) // nobody else is at work
					}
					if strings.Contains(counts[0].Name, "approved") {
						if used[rule]++; used[rule] > approved[rule] {
							rt.Fatalf("%d went for %s, approved were %d", used[rule], rule, approved[rule])
						}
						continue
					}
					now, within := c.Now(), int64(1)
					for _, at := range gone {
						// A clock that went back says of what it calls the future that it has just been.
						if at.After(now.Add(-breaker.Window)) {
							within++
						}
					}
					if within > limit {
						rt.Fatalf("%d went within an hour, the limit is %d: %v and %v", within, limit, gone, now)
					}
					gone = append(gone, now)
				}
			}
		})
	})
}

// After a quiet hour the whole share is there again, for ever, and what it takes
// to know that does not grow.
func TestTheShareComesBack(t *testing.T) {
	c, store := newClock(), open(t, t.TempDir()+"/ledger.db")
	guard := breaker.NewService(breaker.Config{Store: store, Limit: breaker.Limit{Objects: 5}, Now: c.Now})
	for hour := range 50 {
		for i := range 5 {
			if err := remove(store, guard, removal("things", "a list", fmt.Sprint(hour, "-", i))); err != nil {
				t.Fatalf("hour %d, %d: %v", hour, i, err)
			}
			c.pass(time.Minute)
		}
		c.pass(breaker.Window + 5*time.Minute)
	}
	counters, err := store.Counters(t.Context(), "breaker/")
	if err != nil || len(counters) != 1 {
		t.Errorf("counters %v, %v", counters, err)
	}
	marks, err := store.List(t.Context(), ledger.Query{Kind: breaker.KindWindow.Name})
	if err != nil || len(marks) != 1 || len(marks[0].Status) > 1000 {
		t.Errorf("marks %v, %v", marks, err)
	}
}

// What was taken just after a mark is not over when the mark is an hour old.
func TestAMarkIsNoExactTime(t *testing.T) {
	c, store, version := newClock(), open(t, t.TempDir()+"/ledger.db"), int64(0)
	guard := breaker.NewService(breaker.Config{Store: store, Limit: breaker.Limit{Objects: 2}, Now: c.Now})
	for _, tc := range []struct {
		reason string
		pass   time.Duration
		goes   bool
	}{
		{"the first makes a mark", 0, true},
		{"the second stands on it", 4 * time.Minute, true},
		{"an hour after the mark the second is not an hour old", 57 * time.Minute, false},
		{"an hour after both", 4 * time.Minute, true},
		{"and the whole share is there", 0, true},
		{"no more", 0, false},
	} {
		c.pass(tc.pass)
		version++
		r := removal("things", "a list", fmt.Sprint("t", version))
		r.Version = version
		if err := remove(store, guard, r); (err == nil) != tc.goes {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
}

// A rule without a version may take others tomorrow: as many are approved as wait.
func TestARuleWithoutAVersion(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		waiters map[string]breaker.Waiters
		want    int
	}{
		{"those who wait are counted", map[string]breaker.Waiters{things.Name: &queue{ids: []string{"t1", "t2", "t3"}}}, 3},
		{"nobody has written down yet that it waits", map[string]breaker.Waiters{things.Name: &queue{}}, 2},
		{"nobody can count", nil, 2},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			c, store := newClock(), open(t, t.TempDir()+"/ledger.db")
			guard := breaker.NewService(breaker.Config{Store: store, Now: c.Now})
			guard.Waiters = tc.waiters
			for i := range 2 {
				if err := remove(store, guard, removal("things", "a list", fmt.Sprint("t", i))); fault.Reason(err) != "breaker" {
					t.Fatal(err)
				}
			}
			if _, err := guard.Approve(operator, list(t, store)[0].ID, breaker.Allow{For: breaker.MaxFor}); err != nil {
				t.Fatal(err)
			}
			gone := 0
			for i := range 10 {
				if remove(store, guard, removal("things", "a list", fmt.Sprint("later", i))) == nil {
					gone++
				}
			}
			if gone != tc.want {
				t.Errorf("%d went, want %d", gone, tc.want)
			}
		})
	}
}

// What goes together is counted together: all of it or none, and what was refused
// has used up nothing.
func TestManyInOneRemoval(t *testing.T) {
	c, store := newClock(), open(t, t.TempDir()+"/ledger.db")
	guard := breaker.NewService(breaker.Config{Store: store, Limit: breaker.Limit{Objects: 5}, Now: c.Now})
	for i, tc := range []struct {
		reason, rule string
		count        int64
		goes         bool
	}{
		{"more than the limit", "red", 6, false},
		{"the whole limit is left", "blue", 4, true},
		{"one too many", "green", 2, false},
		{"the last one", "blue", 1, true},
	} {
		r := removal("things", tc.rule, fmt.Sprint("t", i))
		r.Count = tc.count
		if err := remove(store, guard, r); (err == nil) != tc.goes {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
	for _, o := range list(t, store) {
		a, err := breaker.Decode(o)
		if err != nil || a.Spec.Rule == "red" && a.Status.Waiting != 6 {
			t.Fatalf("%+v, %v", a.Status, err)
		}
		if a.Spec.Rule != "red" {
			continue
		}
		if _, err := guard.Approve(operator, a.ID, breaker.Allow{Count: 8}); err != nil {
			t.Fatal(err)
		}
	}
	for i, goes := range []bool{true, false} {
		r := removal("things", "red", fmt.Sprint("red", i))
		r.Count = 6
		if err := remove(store, guard, r); (err == nil) != goes {
			t.Errorf("%d of six, eight were approved: %v", i+1, err)
		}
	}
}
