//go:build bench

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

// finder opens a ledger of environments and resources.
func finder(t *testing.T, e engine) *sqlledger.Ledger {
	t.Helper()
	url := filepath.Join(t.TempDir(), "l.db")
	if args := e.args(t); len(args) > 0 {
		url = args[1]
	}
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: url, Kinds: environment.Kinds(), MaxBatch: 4096, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// load1 is how busy the machine is, for whoever reads the figures.
func load1() string {
	data, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(data), " ")
	return first
}

// TestDependents follows links over environments of a hundred resources each: in
// every one ten chains of ten hang on one network, all networks on one of ten
// zones, and the zones on something outside.
func TestDependents(t *testing.T) {
	n := setting("DROVER_BENCH_RESOURCES", 100_000)
	each(t, func(t *testing.T, e engine) {
		l := finder(t, e)
		id := func(i int) string { return fmt.Sprintf("r%07d", i) }
		end := func(i int) string { return environment.KindResource.Name + "/" + id(i) }
		began := time.Now()
		seedWith(t, l, 0, n, func(set *ledger.Set, i int) {
			first, at := i/100*100, i%100
			var links []string
			switch {
			case at == 0:
				links = []string{fmt.Sprintf("external/zone-%d", i/100%10)}
			case at%10 == 1:
				links = []string{end(first)}
			default:
				links = []string{end(i - 1), end(first)}
			}
			set.Puts = append(set.Puts, ledger.Put{Op: "create", Object: ledger.Object{
				Ref: ledger.Ref{Kind: environment.KindResource.Name, ID: id(i)}, Org: fmt.Sprintf("org-%d", i/10_000),
				Parent: fmt.Sprintf("env-%d", i/100), Name: fmt.Sprintf("env-%d/part[%d]", i/100, at), Phase: environment.Ready,
				Fields: ledger.Fields{"executor": "file"}, Spec: []byte(`{"with":{"size":"small"}}`), Links: links,
			}})
		})
		t.Logf("seeded %d resources in %s", n, time.Since(began).Round(time.Second))
		var one, all, down []time.Duration
		measure := func(into *[]time.Duration, r ledger.Reach, want int) {
			began := time.Now()
			got, err := l.Reach(t.Context(), r)
			*into = append(*into, time.Since(began))
			if err != nil || len(got) != want {
				t.Fatalf("%+v led to %d ends, want %d: %v", r, len(got), want, err)
			}
		}
		for i := range 500 {
			env := i * 7919 % (n / 100) * 100
			measure(&one, ledger.Reach{From: end(env), Back: true}, 99)
			measure(&down, ledger.Reach{From: end(env + 99)}, 10)
			if i%5 == 0 {
				measure(&all, ledger.Reach{From: fmt.Sprintf("external/zone-%d", i%10), Back: true}, 1000)
			}
		}
		for _, x := range []struct {
			what string
			took []time.Duration
		}{{"dependents of a network (99)", one}, {"of a zone (the nearest 1,000 of 10,000)", all}, {"what a resource depends on (10)", down}} {
			slices.Sort(x.took)
			report(fmt.Sprintf("%s over %d resources, objects and all: p50 / p99", x.what, n), e.name,
				ms(quantile(x.took, .5))+" / "+ms(quantile(x.took, .99)), "p99 < 50 ms")
		}
		t.Logf("load %s", load1())
	})
}

// TestSearch looks for words in a million objects of a thousand organisations: a
// word that all have in their name, one that all have besides, rare ones,
// beginnings of one letter and of many, and a tenant's own.
func TestSearch(t *testing.T) {
	n := many()
	each(t, func(t *testing.T, e engine) {
		l := finder(t, e)
		tiers, colours := []string{"db", "web", "cache", "queue", "gateway"}, []string{"red", "green", "blue", "payments", "orders", "invoices", "search"}
		began := time.Now()
		seedWith(t, l, 0, n, func(set *ledger.Set, i int) {
			set.Puts = append(set.Puts, ledger.Put{Op: "create", Object: ledger.Object{
				Ref: ledger.Ref{Kind: environment.KindResource.Name, ID: ledger.NewID()}, Org: fmt.Sprintf("org-%03d", i%1000),
				Owner: fmt.Sprintf("user-%d", i%97), Parent: fmt.Sprintf("env-%d", i/20), Phase: environment.Ready,
				Name:   fmt.Sprintf("shop-%s/%s%d", colours[i/7%len(colours)], tiers[i%len(tiers)], i*7919%10_000_019),
				Fields: ledger.Fields{"executor": "file"}, Spec: []byte(`{"with":{"size":"small"}}`),
				Words: fmt.Sprintf("common description of a resource, tag:%s ticket %d", colours[i%len(colours)], i),
			}})
		})
		t.Logf("seeded %d resources in %s", n, time.Since(began).Round(time.Second))
		everyone, tenant := []time.Duration{}, []time.Duration{}
		slowest, slowestText := time.Duration(0), ""
		for i := range 40 {
			number := i * 7919 % n
			for _, text := range []string{
				"shop", "s", "common", "common description of a resource", "resou", "payments", "paym", "red invoices",
				fmt.Sprintf("ticket %d", number), fmt.Sprint(number), "shop-red/db", "gateway1234", "q", "nowhere", "common nowhere",
			} {
				for _, scope := range []map[string]any{nil, {"org": fmt.Sprintf("org-%03d", number%1000)}} {
					began := time.Now()
					_, err := l.Search(t.Context(), ledger.Search{Text: text, Scope: scope})
					took := time.Since(began)
					if err != nil {
						t.Fatalf("%q: %v", text, err)
					}
					if scope == nil {
						everyone = append(everyone, took)
					} else {
						tenant = append(tenant, took)
					}
					if took > slowest {
						slowest, slowestText = took, text
					}
				}
			}
		}
		for _, x := range []struct {
			what string
			took []time.Duration
		}{{"everybody's", everyone}, {"a tenant's own", tenant}} {
			slices.Sort(x.took)
			report(fmt.Sprintf("search over %d objects, %s, common words and rare, whole and begun: p50 / p99", n, x.what), e.name,
				ms(quantile(x.took, .5))+" / "+ms(quantile(x.took, .99)), "p99 < 100 ms")
		}
		t.Logf("load %s; the slowest was %q with %s", load1(), slowestText, slowest)
	})
}
