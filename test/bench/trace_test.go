//go:build bench

package bench

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/droverhq/drover/test/collector"
	"github.com/droverhq/drover/test/drover"
)

// traced is a control plane with a data plane, traced or not.
type traced struct {
	s     *drover.Server
	u     *caller
	seen  *phases
	pids  []int
	made  int
	rates []float64     // instances that became ready per second, by round
	used  time.Duration // processor time of server and agent
}

// TestTracing orders instances as fast as they become ready, by turns without and with
// every request traced, each on a server and an agent of its own, and compares. The
// collector throws away what it is sent, or its work would be counted too.
func TestTracing(t *testing.T) {
	rounds, orders := 12, 500
	if n, err := strconv.Atoi(os.Getenv("DROVER_BENCH_ROUNDS")); err == nil && n > 1 {
		rounds = n
	}
	each(t, func(t *testing.T, e engine) {
		c := collector.Start(t)
		c.Few = true
		var both [2]*traced
		for with := range both {
			var args []string
			if with == 1 {
				args = []string{"--trace-endpoint", c.URL}
			}
			s := drover.Serve(t, append(e.args(t), args...)...)
			a := drover.Join(t, s.URL(), "local", s.Cluster(t, "local"), append([]string{"--runtime", "simulated", "--capacity", "1000000"}, args...)...)
			both[with] = &traced{s: s, u: user(t, s, "alice", "acme"), seen: watch(t, s), pids: []int{s.PID(), a.PID()}}
			both[with].round(t, 100) // both are warm
			both[with].rates, both[with].used, both[with].made = nil, 0, 0
		}
		for round := range rounds {
			both[round%2].round(t, orders)
		}
		off, on := both[0].middle(), both[1].middle()
		cost := func(off, on float64) float64 { return 100 * (off - on) / off }
		each := func(b *traced) float64 { return b.used.Seconds() * 1000 / float64(b.made) }
		report("POST → ready per second without / with tracing (cost)", e.name, fmt.Sprintf("%.0f / %.0f (%.1f %%)", off, on, cost(off, on)), "< 5 %")
		report("processor time per instance, server and agent, without / with tracing", e.name,
			fmt.Sprintf("%.2f / %.2f ms (%.1f %%)", each(both[0]), each(both[1]), -cost(each(both[0]), each(both[1]))), "")
		if c.Count.Load() == 0 {
			t.Error("no span came")
		}
		t.Logf("load %s, %d messages to the collector", load1(), c.Count.Load())
	})
}

// round orders so many, and waits until the last is ready.
func (b *traced) round(t *testing.T, orders int) {
	t.Helper()
	total, round := b.total()+orders, b.total()
	before := b.cpu()
	began := time.Now()
	load(t, b.s.PID(), 16, 5*time.Minute, int64(orders), func(i int64) (int, error) { return create(b.u, fmt.Sprintf("i-%d-%d", round, i)) })
	b.seen.await(t, "ready", total, 5*time.Minute)
	took := time.Since(began)
	b.used += b.cpu() - before
	b.made += orders
	b.rates = append(b.rates, float64(orders)/took.Seconds())
}

func (b *traced) total() int {
	b.seen.mu.Lock()
	defer b.seen.mu.Unlock()
	return len(b.seen.seen)
}

func (b *traced) cpu() (sum time.Duration) {
	for _, pid := range b.pids {
		sum += cpu(pid)
	}
	return sum
}

func (b *traced) middle() float64 {
	slices.Sort(b.rates)
	return b.rates[len(b.rates)/2]
}
