//go:build e2e

package site

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/consul"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/toxiproxy"
)

// act is one write that was acknowledged, by this process's clock.
type act struct {
	name      string
	sent, got time.Time
}

// history is what one site has acknowledged.
type history struct {
	mu   sync.Mutex
	acts []act
}

func (h *history) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.acts)
}

// write orders again and again, whatever it is answered, until ctx ends.
func (h *history) write(ctx context.Context, wg *sync.WaitGroup, c *client.Client, prefix string, callers int) {
	for i := range callers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				a := act{name: fmt.Sprintf("%s%d-%d", prefix, i, n), sent: time.Now()}
				err := order(ctx, c, a.name)
				if a.got = time.Now(); err == nil {
					h.mu.Lock()
					h.acts = append(h.acts, a)
					h.mu.Unlock()
				}
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond): // nobody waits for it: there is no end of orders
				}
			}
		})
	}
}

// split finds a write that was acknowledged by the old site, and sent to it after the new
// one had acknowledged another.
func split(old, fresh []act) error {
	for _, f := range fresh {
		for _, o := range old {
			if o.sent.After(f.got) {
				return fmt.Errorf("%s began at the old site %s after the new one had acknowledged %s, and was acknowledged", o.name, o.sent.Sub(f.got), f.name)
			}
		}
	}
	return nil
}

func TestCheckerFindsSplits(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	old := []act{{"a", at(0), at(5)}, {"b", at(20), at(25)}}
	if err := split(old, []act{{"c", at(22), at(30)}}); err != nil {
		t.Errorf("one after the other: %v", err)
	}
	if split(old, []act{{"c", at(6), at(10)}}) == nil {
		t.Error("b began after c was acknowledged elsewhere")
	}
}

// The primary is cut off from the witness and from the other site, and is alive: its
// clients and an agent reach it. Nothing is acknowledged by it, and nothing written, once the
// other one has begun the second epoch; no instance is applied by the orders of both, and the
// agent applies nothing of the first once it follows the second.
func TestPrimaryCutOffButAlive(t *testing.T) {
	witness, bad := consul.Start(t), toxiproxy.Start(t)
	toWitness := bad.Proxy(t, witness.Addr) // the primary's way to the witness
	var toPrimary *toxiproxy.Proxy          // the secondary's to the primary
	front := drover.FreeAddress(t)
	toSecondary := bad.Proxy(t, front) // and back
	w := pair(t, given{
		listen: front,
		args: func(site string) []string {
			at := "consul:" + witness.URL + "/drover/leader"
			if site == "east" {
				return []string{"--witness", strings.Replace(at, witness.Addr, toWitness.Addr, 1)}
			}
			return []string{"--witness", at, "--public-url", "http://" + toSecondary.Addr}
		},
		primary: func(url string) string {
			toPrimary = bad.Proxy(t, strings.TrimPrefix(url, "http://"))
			return "http://" + toPrimary.Addr
		},
	})
	a, b := call(t, w.a), call(t, w.b)
	if _, stderr, code := w.b.Run("dr", "promote", "--primary-is-gone"); code == 0 || !strings.Contains(stderr, "leads") {
		t.Fatalf("a site is promoted beside one that leads: %d %s", code, stderr)
	}

	agent := tend(t, w.a.URL(), "edge", w.a.Cluster(t, "edge"))

	ctx, end := context.WithCancel(t.Context())
	defer end()
	var wg sync.WaitGroup
	var old, fresh history
	old.write(ctx, &wg, a, "a", 4)
	fresh.write(ctx, &wg, b, "b", 4)
	drover.Until(t, "writes at the primary", func() bool { return old.count() >= 20 })
	drover.Until(t, "effects of them", func() bool { return len(agent.applied()) >= 10 })
	for _, way := range []*toxiproxy.Proxy{toWitness, toPrimary, toSecondary} {
		way.Add(t, toxiproxy.Timeout(0)) // open connections, too; nothing comes through
	}
	cut := time.Now()
	// It waits for the lease: the word alone is not enough.
	stdout, stderr, code := w.b.Run("dr", "promote", "--timeout", "4m")
	if code != 0 {
		t.Fatalf("drover dr promote: %d %s%s", code, stdout, stderr)
	}
	t.Logf("promoted %s after the cut", time.Since(cut).Round(time.Millisecond))
	drover.Until(t, "writes at the promoted site", func() bool { return fresh.count() >= 20 })
	if at := awaitState(t, w.b, "leading"); at.Epoch != 2 || at.Lease == nil || at.Lease.Until == nil {
		t.Errorf("it leads as %+v", at)
	}
	stopped := old.count()
	for _, way := range []*toxiproxy.Proxy{toWitness, toPrimary, toSecondary} {
		way.Heal(t)
	}
	at := awaitState(t, w.a, "fenced")
	if !strings.Contains(at.Why, "epoch 2") {
		t.Errorf("the old primary does not say why: %s", at.Why)
	}
	more := fresh.count() + 20
	drover.Until(t, "writes after the cut is over", func() bool { return fresh.count() >= more })
	end()
	wg.Wait()
	if n := old.count(); n != stopped {
		t.Errorf("the old primary has acknowledged %d more since the other one leads", n-stopped)
	}
	if err := split(old.acts, fresh.acts); err != nil {
		t.Error(err)
	}
	t.Logf("%d were acknowledged by the old primary, %d by the new one", len(old.acts), len(fresh.acts))
	for _, f := range fresh.acts {
		if got := phase(b, f.name); strings.Contains(got, "no dinosaur") {
			t.Errorf("%s was acknowledged by the new primary, and is lost", f.name)
		}
	}

	// What the ledgers hold: nothing of the first epoch comes after the second has begun.
	l := readLogs(t, w)
	if !l.ended.Before(l.begun) {
		t.Errorf("the old site has written %s after the second epoch had begun", l.ended.Sub(l.begun))
	}
	var all map[string]v1.Change // an order that nobody waited for any more may have been written late
	drover.Until(t, "everything to be applied", func() bool {
		all = born(t, b)
		return len(agent.applied()) >= len(all)
	})
	for name, change := range all {
		if first := strings.HasPrefix(name, "a"); first != (change.Seq <= l.after) {
			t.Errorf("%s is change %d, and the first epoch ends with %d", name, change.Seq, l.after)
		}
	}
	// What was done: everything once, by one epoch's orders.
	awaitPhase(t, b, fresh.acts[len(fresh.acts)-1].name, "ready")
	if err := undue(agent.history()); err != nil {
		t.Error(err)
	}
	done := agent.applied()
	epochs := map[int64]int{}
	for _, e := range done {
		epochs[e.epoch]++
	}
	if len(done) != len(all) || epochs[1] == 0 || epochs[2] == 0 {
		t.Errorf("of %d instances %v were applied, by epoch", len(all), epochs)
	}
	t.Logf("by epoch: %v were applied", epochs)
}
