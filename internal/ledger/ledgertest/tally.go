package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// testTally moves many objects about, on several replicas, and lists every
// scope's totals on another one, before and after the store was closed.
func testTally(r *rig) {
	model, ledgers := NewModel(), r.replicas(2)
	for i, o := range herd(r, 150) {
		rnd := rand.New(rand.NewPCG(uint64(i), 5))
		if rnd.IntN(2) == 0 {
			o.Phase, o.Fields = words[rnd.IntN(len(words))], ledger.Fields{"species": "a/b=\"c\"", "tame": rnd.IntN(2) == 0}
			if o.Deleted = (time.Time{}); rnd.IntN(4) == 0 {
				o.Deleted = days[3]
			}
			o = r.on(ledgers[rnd.IntN(2)]).put(o, o.Version, "move")
		}
		model.Objects[o.Ref] = o
	}
	model.Objects[cage("c")] = ledger.Object{Ref: cage("c"), Org: "acme"}
	check := func(h hand) {
		for _, k := range Kinds() {
			for _, scope := range k.Totals {
				h.same(h.totals(k.Name, scope), model.Tally(k.Name, scope), fmt.Sprintf("totals of %s by %v", k.Name, scope), cmpopts.EquateEmpty())
			}
		}
	}
	check(r.on(ledgers[1]))
	check(r.on(r.store.Reopen(r.T)))
}

func testTallyInvalid(r *rig) {
	for reason, c := range map[string]struct {
		kind  string
		scope []string
	}{
		"unknown kind":                {"unicorn", []string{"org"}},
		"a scope that is not kept":    {"beast", []string{"name"}},
		"a part of a kept scope":      {"beast", []string{"species"}},
		"a kept scope in other order": {"beast", []string{"org", "species"}},
		"no scope":                    {"beast", nil},
	} {
		if _, err := r.Totals(r.ctx, c.kind, c.scope); !fault.Is(err, fault.Invalid) {
			r.Errorf("%s: got %v, want invalid", reason, err)
		}
	}
}

// testCounterList lists counters by the beginning of their names.
func testCounterList(r *rig) {
	set := by()
	for i, name := range []string{"a", "a/", "a/b", "a/c", "a0", "b", "ä", "a\uD7FF", "a\uE000", "a\U0010FFFF", "a\U0010FFFFz", "A/b", "a%b", "a_b"} {
		set.Counts = append(set.Counts, ledger.Count{Name: name, Delta: int64(i + 1), Max: -1})
	}
	set.Counts = append(set.Counts, ledger.Count{Name: "a/gone", Delta: 2, Max: -1})
	r.commit(set)
	gone := by()
	gone.Counts = []ledger.Count{{Name: "a/gone", Delta: -2}}
	r.commit(gone)
	for _, prefix := range []string{"", "a", "a/", "a/b", "a%", "a_", "ä", "a\uD7FF", "a\U0010FFFF", "\U0010FFFF", "z", "a\x00", "\xff"} {
		want := map[string]int64{}
		for _, c := range set.Counts {
			if strings.HasPrefix(c.Name, prefix) && c.Name != "a/gone" {
				want[c.Name] = c.Delta
			}
		}
		got, err := r.Counters(r.ctx, prefix)
		if err != nil {
			r.Fatalf("cannot list counters of %q: %v", prefix, err)
		}
		r.same(orEmpty(got), want, fmt.Sprintf("counters of %q", prefix))
	}
	got, err := r.CountersOf(r.ctx, []string{"a/b", "ä", "a%b", "a/gone", "a/b", "never", "a\x00", "\xff", `a"b`})
	if err != nil {
		r.Fatalf("cannot list counters by name: %v", err)
	}
	r.same(got, map[string]int64{"a/b": 3, "ä": 7, "a%b": 13}, "counters by name")
	if got, err := r.CountersOf(r.ctx, nil); err != nil || len(got) > 0 {
		r.Errorf("counters of no name: %v, %v", got, err)
	}
}

func (h hand) totals(kind string, scope []string) []ledger.Total {
	h.tb.Helper()
	got, err := h.Totals(h.ctx, kind, scope)
	if err != nil {
		h.tb.Fatalf("cannot list totals of %s by %v: %v", kind, scope, err)
	}
	return got
}

// Tally counts the objects of a kind that are not deleted, by their values.
func (m *Model) Tally(kind string, scope []string) []ledger.Total {
	var out []ledger.Total
	for _, o := range m.Objects {
		if o.Kind != kind || !o.Deleted.IsZero() {
			continue
		}
		var values []string
		for _, c := range scope {
			text := ""
			switch v := o.Value(c).(type) {
			case string:
				text = v
			case int64:
				if v != 0 {
					text = fmt.Sprintf("%d", v)
				}
			case bool:
				if v {
					text = "true"
				}
			case time.Time:
				text = v.UTC().Format("2006-01-02T15:04:05.999999Z")
			}
			values = append(values, text)
		}
		i := slices.IndexFunc(out, func(t ledger.Total) bool { return slices.Equal(t.Values, values) })
		if i < 0 {
			i, out = len(out), append(out, ledger.Total{Values: values})
		}
		out[i].N++
	}
	slices.SortFunc(out, func(a, b ledger.Total) int { return slices.Compare(a.Values, b.Values) })
	return out
}
