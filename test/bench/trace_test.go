//go:build bench

package bench

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/droverhq/drover/test/collector"
	"github.com/droverhq/drover/test/drover"
)

// traced is a control plane with a data plane, traced or not.
type traced struct {
	s    *drover.Server
	u    *caller
	seen *phases
	pids []int
	made int
	used time.Duration // processor time of server and agent
}

// TestTracing orders instances as fast as they become ready, by turns without and with
// every request traced, each on a server and an agent of its own, and compares. No two
// servers are equally fast, traced or not, so there are many of them. The collector
// throws away what it is sent, or its work would be counted too.
func TestTracing(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := collector.Start(t)
		c.Few = true
		var measured turns
		var used [2]time.Duration
		made := 0
		for pair := range rounds(12) {
			t.Run(strconv.Itoa(pair), func(t *testing.T) { // which ends its servers
				const orders = 500
				var both [2]*traced
				for i := range both {
					with := (i + pair) % 2
					var args []string
					if with == 1 {
						args = []string{"--trace-endpoint", c.URL}
					}
					s := drover.Serve(t, append(e.args(t), args...)...)
					a := drover.Join(t, s.URL(), "local", s.Cluster(t, "local"), append([]string{"--runtime", "simulated", "--capacity", "1000000"}, args...)...)
					both[with] = &traced{s: s, u: user(t, s, "alice", "acme"), seen: watch(t, s), pids: []int{s.PID(), a.PID()}}
					both[with].round(t, 100) // both are warm
					both[with].used = 0
				}
				measured.fours = append(measured.fours, byTurns(1, func(with bool) float64 {
					if with {
						return both[1].round(t, orders)
					}
					return both[0].round(t, orders)
				}).fours...)
				made += 2 * orders
				for i := range both {
					used[i] += both[i].used
				}
			})
		}
		report("POST → ready without / with tracing", e.name, fmt.Sprint(measured), "< 5 %")
		each := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(made) }
		report("processor time per instance, server and agent, without / with tracing", e.name,
			fmt.Sprintf("%.2f / %.2f ms (%.1f %%)", each(used[0]), each(used[1]), 100*(used[1]-used[0]).Seconds()/used[0].Seconds()), "")
		if c.Count.Load() == 0 {
			t.Error("no span came")
		}
		t.Logf("load %s, %d messages to the collector", load1(), c.Count.Load())
	})
}

// round orders so many, waits until the last is ready, and tells how many a second were.
func (b *traced) round(t *testing.T, orders int) (rate float64) {
	t.Helper()
	total, round := b.total()+orders, b.total()
	before := b.cpu()
	began := time.Now()
	load(t, b.s.PID(), 16, 5*time.Minute, int64(orders), func(i int64) (int, error) { return create(b.u, fmt.Sprintf("i-%d-%d", round, i)) })
	b.seen.await(t, "ready", total, 5*time.Minute)
	took := time.Since(began)
	b.used += b.cpu() - before
	return float64(orders) / took.Seconds()
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
