//go:build bench

package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
)

// turns are rates that were measured by turns, without and with something beside.
type turns struct{ fours [][2]float64 }

// byTurns measures without, with, with, without, so many times: what a disk or a
// neighbour does to one of them in the course of it, it does to the other too.
func byTurns(n int, measure func(with bool) float64) (t turns) {
	for range n {
		var four [2]float64
		for _, with := range []int{0, 1, 1, 0} {
			four[with] += measure(with == 1) / 2
		}
		t.fours = append(t.fours, four)
	}
	return t
}

// middle is the median rate without and with.
func (t turns) middle() (without, with float64) {
	var all [2][]float64
	for _, four := range t.fours {
		for i := range all {
			all[i] = append(all[i], four[i])
		}
	}
	for i := range all {
		slices.Sort(all[i])
	}
	return all[0][len(all[0])/2], all[1][len(all[1])/2]
}

// cost is what is lost, in percent of all that was done without, and between what it
// is in nine of ten drawings of as many fours from these.
func (t turns) cost() (cost, low, high float64) {
	of := func(pick func(i int) int) float64 {
		var sum [2]float64
		for i := range t.fours {
			four := t.fours[pick(i)]
			sum[0], sum[1] = sum[0]+four[0], sum[1]+four[1]
		}
		return 100 * (sum[0] - sum[1]) / sum[0]
	}
	r := rand.New(rand.NewPCG(1, 2))
	drawn := make([]float64, 2000)
	for i := range drawn {
		drawn[i] = of(func(int) int { return r.IntN(len(t.fours)) })
	}
	slices.Sort(drawn)
	return of(func(i int) int { return i }), drawn[len(drawn)/20], drawn[len(drawn)-len(drawn)/20-1]
}

func (t turns) String() string {
	without, with := t.middle()
	cost, low, high := t.cost()
	return fmt.Sprintf("%.0f / %.0f per second, %.1f %% (%.1f to %.1f)", without, with, cost, low, high)
}

// rounds is how often something is measured: DROVER_BENCH_ROUNDS times, or that often.
func rounds(n int) int {
	if asked, err := strconv.Atoi(os.Getenv("DROVER_BENCH_ROUNDS")); err == nil && asked > 0 {
		return asked
	}
	return n
}
