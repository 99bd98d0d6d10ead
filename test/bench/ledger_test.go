//go:build bench

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// rounds of the comparison, ledger and bare driver by turns: the machine's mood
// changes, and the ratio is taken within one round.
const rounds = 3

// TestTransitions measures the ledger itself against bare driver code, which
// lives beside it because no other room may touch the databases' drivers.
func TestTransitions(t *testing.T) {
	rates := map[string]map[string][]float64{"Transition": {}, "Bare": {}}
	sizes := map[string][]float64{}
	for range rounds {
		for _, m := range benchmark(t) {
			rates[m.name][m.engine] = append(rates[m.name][m.engine], m.rate)
			if m.size > 0 {
				sizes[m.engine] = append(sizes[m.engine], m.size)
			}
		}
	}
	for _, e := range []struct{ name, key, aim string }{{"SQLite", "sqlite", ">= 5,000/s"}, {"PostgreSQL", "postgres", ">= 2,000/s"}} {
		ours, bare := rates["Transition"][e.key], rates["Bare"][e.key]
		if len(ours) != rounds || len(bare) != rounds {
			t.Fatalf("%s: %d and %d results of %d", e.name, len(ours), len(bare), rounds)
		}
		var ratios []float64
		for i := range ours {
			ratios = append(ratios, ours[i]/bare[i])
		}
		report("durable transitions/s, 64 callers", e.name,
			fmt.Sprintf("%.0f/s (%.0f per commit)", median(ours), median(sizes[e.key])), e.aim)
		report("the same rows by bare driver code, 32 per commit", e.name,
			fmt.Sprintf("%.0f/s: the ledger reaches %.0f %%", median(bare), 100*median(ratios)), ">= 60 %")
	}
}

type measure struct {
	name, engine string
	rate, size   float64
}

var (
	result = regexp.MustCompile(`(?m)^Benchmark(Transition|Bare)/(\w+?)(?:-\d+)?\s.*$`)
	perSec = regexp.MustCompile(`([\d.e+]+) transitions/s`)
	perSet = regexp.MustCompile(`([\d.e+]+) sets/commit`)
)

func benchmark(t *testing.T) []measure {
	t.Helper()
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^Benchmark(Transition|Bare)$", "-benchtime", "20000x", "-count", "1",
		"github.com/droverhq/drover/internal/sqlledger")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var all []measure
	for _, line := range result.FindAllStringSubmatch(string(out), -1) {
		m := measure{name: line[1], engine: line[2], rate: number(perSec, line[0]), size: number(perSet, line[0])}
		if m.rate == 0 {
			t.Fatalf("no rate in %q", line[0])
		}
		all = append(all, m)
	}
	return all
}

func number(in *regexp.Regexp, text string) float64 {
	found := in.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return 0
	}
	return n
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}
