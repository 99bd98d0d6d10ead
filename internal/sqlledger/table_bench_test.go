//go:build bench

package sqlledger_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

// TestTransitionTable prints how many durable transitions a second the ledger
// makes, and bare driver code in commits of the same size, by turns: whatever
// else the machine does is then done to both.
func TestTransitionTable(t *testing.T) {
	const rounds, slice = 5, 2 * time.Second
	for _, c := range []struct{ name, engine, aim string }{
		{"SQLite", "sqlite", ">= 5,000/s, >= 60 %"},
		{"PostgreSQL", "postgres", ">= 2,000/s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := engines[c.engine]
			if c.engine == "postgres" { // a server that flushes to the disk, which the tests' shared one need not
				server := postgres.Start(t)
				url = func(t testing.TB) string { return postgres.Fresh(t, server.URL("postgres")) }
			}
			var seen tally
			m := newMover(t, open(t, sqlledger.Config{URL: url(t), Kinds: things, Observer: &seen}))
			bare := newBare(t, c.engine, url(t))
			var ours, theirs, sizes []float64
			for round := range rounds + 1 { // the first one warms up
				var made atomic.Int64
				seen.batches.Store(0)
				start := time.Now()
				m.run(t, func() bool {
					if time.Since(start) > slice {
						return false
					}
					made.Add(1)
					return true
				})
				rate, size := float64(made.Load())/time.Since(start).Seconds(), float64(made.Load())/float64(seen.batches.Load())
				start = time.Now()
				n := 0
				for time.Since(start) < slice {
					bare(int(math.Round(size)))
					n += int(math.Round(size))
				}
				if round > 0 {
					ours, theirs, sizes = append(ours, rate), append(theirs, float64(n)/time.Since(start).Seconds()), append(sizes, size)
				}
			}
			fmt.Printf("| durable state transitions per second, %d callers | %s | %s/s, %.0f %% of bare driver code (%s/s) in batches of %.0f | %s |\n",
				committers, c.name, thousands(median(ours)), 100*median(ours)/median(theirs), thousands(median(theirs)), median(sizes), c.aim)
		})
	}
}

func median(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}

func thousands(x float64) string {
	s := strconv.Itoa(int(math.Round(x)))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
