package cluster_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/offering"
)

const (
	tick     = 2 * time.Minute
	capacity = 10
	largest  = 4
	patience = 2 * time.Hour
)

// weeks is a fleet under load, in virtual time. Nothing of it knows how Scale decides.
type weeks struct {
	*rand.Rand
	now      time.Time
	policy   cluster.Scaling
	slack    int64
	fails    float64 // of clusters that do not come
	silences float64 // per cluster and tick
	steady   bool
	hosts    []*simulated
	queue    []waiting
	last     time.Time
	made     int
	ups      int
	downs    int
	fatal    func(format string, args ...any)
}

type simulated struct {
	cluster.Host
	used   int64
	until  time.Time // it comes, speaks again or is gone
	failed bool
	empty  time.Time // since when it is empty and speaks
	leaves []leave
}

type leave struct {
	at    time.Time
	units int64
}

type waiting struct {
	units int64
	since time.Time
}

func (w *weeks) arrive(rate float64) {
	for n := w.ExpFloat64() / rate; n < 1; n += w.ExpFloat64() / rate {
		w.queue = append(w.queue, waiting{[]int64{1, 1, 2, largest}[w.IntN(4)], w.now})
	}
}

// place puts those who wait on the first cluster with room.
func (w *weeks) place() {
	w.queue = slices.DeleteFunc(w.queue, func(q waiting) bool {
		for _, h := range w.hosts {
			if h.Stand == cluster.Serving && capacity-h.used >= q.units {
				h.used += q.units
				life := time.Duration(w.ExpFloat64() * float64(6*time.Hour))
				if w.steady {
					life = 1000 * time.Hour
				}
				h.leaves = append(h.leaves, leave{w.now.Add(life), q.units})
				return true
			}
		}
		return w.now.Sub(q.since) > patience // gives up
	})
}

// pass lets time do what it does to clusters.
func (w *weeks) pass() {
	w.now = w.now.Add(tick)
	for _, h := range w.hosts {
		h.leaves = slices.DeleteFunc(h.leaves, func(l leave) bool {
			if l.at.After(w.now) {
				return false
			}
			h.used -= l.units
			return true
		})
		due := !h.until.IsZero() && !h.until.After(w.now)
		switch {
		case h.Stand == cluster.Serving && w.Float64() < w.silences:
			h.Stand, h.Since, h.until = cluster.Silent, w.now, w.now.Add(time.Duration(w.IntN(600))*time.Minute)
		case h.Stand == cluster.Coming && due && h.failed:
			h.Stand, h.Since, h.until = cluster.Broken, w.now, w.now.Add(24*time.Hour) // until somebody looks
		case (h.Stand == cluster.Coming || h.Stand == cluster.Silent) && due:
			h.Stand, h.Since, h.until = cluster.Serving, w.now, time.Time{}
		}
		if h.used > 0 || h.Stand != cluster.Serving {
			h.empty = time.Time{}
		} else if h.empty.IsZero() {
			h.empty = w.now
		}
	}
	w.hosts = slices.DeleteFunc(w.hosts, func(h *simulated) bool {
		return (h.Stand == cluster.Going || h.Stand == cluster.Broken) && !h.until.After(w.now)
	})
}

func (w *weeks) fleet() cluster.Place {
	p := cluster.Place{Profile: "small", Units: capacity, Last: w.last,
		Needs: []cluster.Need{{Offering: "kafka", Type: "standard", Ours: true, Largest: largest, Slack: w.slack}}}
	for _, q := range w.queue {
		p.Needs[0].Queued = append(p.Needs[0].Queued, q.units)
	}
	for _, h := range w.hosts {
		h.Free, h.Empty = []int64{capacity - h.used}, h.used == 0
		p.Hosts = append(p.Hosts, h.Host)
	}
	return p
}

// room is what is free on clusters that speak, but for one.
func (w *weeks) room(without string) (free, best int64) {
	for _, h := range w.hosts {
		if h.Stand == cluster.Serving && h.ID != without {
			free, best = free+capacity-h.used, max(best, capacity-h.used)
		}
	}
	return free, best
}

func (w *weeks) decide() {
	d := cluster.Scale(w.fleet(), w.policy, w.now)
	for _, h := range w.hosts {
		h.Spare = d.Spare[h.ID]
	}
	cooldown, idle := time.Duration(w.policy.Cooldown), time.Duration(w.policy.Idle)
	var mine, coming, broken int64
	for _, h := range w.hosts {
		if h.Profile == "small" && h.Stand != cluster.Going {
			mine++
		}
		switch h.Stand {
		case cluster.Coming:
			coming++
		case cluster.Broken:
			broken++
		}
	}
	free, best := w.room("")
	var queued, most int64
	for _, q := range w.queue {
		queued, most = queued+q.units, max(most, q.units)
	}
	if d.Do != cluster.Stay && !w.last.IsZero() && w.now.Sub(w.last) < cooldown {
		w.fatal("%s %v after the last decision", d.Do, w.now.Sub(w.last))
	}
	switch d.Do {
	case cluster.Up:
		if coming > 0 || w.policy.Max > 0 && mine >= w.policy.Max || mine > 60 {
			w.fatal("another one beside %d (%d come): %s", mine, coming, d.Reason)
		}
		if best >= largest && best >= most && free-queued >= w.slack && mine-broken >= w.policy.Min {
			w.fatal("made for nothing: %s", d.Reason)
		}
		w.made++
		w.ups++
		w.last = w.now
		w.hosts = append(w.hosts, &simulated{
			Host:  cluster.Host{ID: fmt.Sprintf("m%d", w.made), Profile: "small", Fleet: true, Stand: cluster.Coming, Since: w.now, Created: w.now},
			until: w.now.Add(time.Hour), failed: w.Float64() < w.fails,
		})
	case cluster.Down:
		i := slices.IndexFunc(w.hosts, func(h *simulated) bool { return h.ID == d.Cluster })
		h := w.hosts[i]
		free, best := w.room(h.ID)
		if h.used > 0 || h.Stand != cluster.Serving || !h.Fleet || h.empty.IsZero() || w.now.Sub(h.empty) < idle || mine-broken <= w.policy.Min {
			w.fatal("%s goes: %+v", h.ID, h)
		}
		if best < largest || best < most || free-queued < w.slack {
			w.fatal("%s goes, and the rest has %d units, %d in one piece", h.ID, free, best)
		}
		w.downs++
		w.last = w.now
		h.Stand, h.until = cluster.Going, w.now.Add(10*time.Minute)
	default:
		cooling := !w.last.IsZero() && w.now.Sub(w.last) < cooldown
		silent := slices.ContainsFunc(w.hosts, func(h *simulated) bool { return h.Stand == cluster.Silent })
		if most > best && coming == 0 && !cooling && !silent && broken < 3 && (w.policy.Max == 0 || mine < w.policy.Max) {
			w.fatal("an order of %d units waits, and nothing is done: %s", most, d.Reason)
		}
	}
}

// Under any load the fleet grows and shrinks without flapping: decisions are a
// cooldown apart, nothing that is needed or silent goes, nothing is made for
// nothing, and whoever waits is served if that can be.
func TestWeeksOfAnyLoad(t *testing.T) {
	acted := 0
	rapid.Check(t, func(t *rapid.T) {
		minutes := func(from, to int, what string) offering.Duration {
			return offering.Duration(time.Duration(rapid.IntRange(from, to).Draw(t, what)) * time.Minute)
		}
		w := &weeks{
			Rand: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), now: day, fatal: t.Fatalf,
			policy: cluster.Scaling{
				Min: rapid.Int64Range(0, 2).Draw(t, "min"), Max: rapid.SampledFrom([]int64{0, 3, 8}).Draw(t, "max"),
				Cooldown: minutes(2, 60, "cooldown"), Idle: minutes(2, 120, "idle"),
			},
			slack:    rapid.Int64Range(0, 12).Draw(t, "slack"),
			fails:    rapid.SampledFrom([]float64{0, 0.2, 1}).Draw(t, "fails"),
			silences: rapid.SampledFrom([]float64{0, 0.001, 0.02}).Draw(t, "silences"),
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "registered") {
			w.hosts = append(w.hosts, &simulated{Host: cluster.Host{ID: fmt.Sprintf("r%d", i), Created: day}})
		}
		rate, swing := rapid.Float64Range(0, 0.4).Draw(t, "rate"), rapid.Float64Range(0, 1).Draw(t, "swing")
		period := float64(rapid.IntRange(1, 48).Draw(t, "period"))
		for end := day.AddDate(0, 0, 7*rapid.IntRange(1, 2).Draw(t, "weeks")); w.now.Before(end); {
			w.pass()
			hours := w.now.Sub(day).Hours()
			if r := rate * (1 + swing*math.Sin(2*math.Pi*hours/period)); r > 0 {
				w.arrive(r)
			}
			w.place()
			w.decide()
		}
		acted += w.ups + w.downs
	})
	if acted < 100 {
		t.Errorf("only %d decisions in all weeks: the loads are no loads", acted)
	}
}

// Under a load that does not change, everything settles, and nothing is done any more.
func TestSteadyLoadSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &weeks{
			Rand: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), now: day, fatal: t.Fatalf, steady: true,
			policy: cluster.Scaling{Cooldown: offering.Duration(10 * time.Minute), Idle: offering.Duration(30 * time.Minute)},
			slack:  rapid.Int64Range(0, 12).Draw(t, "slack"),
		}
		run := func(d time.Duration) {
			for end := w.now.Add(d); w.now.Before(end); {
				w.pass()
				w.place()
				w.decide()
			}
		}
		for range rapid.IntRange(0, 12).Draw(t, "orders") {
			w.queue = append(w.queue, waiting{rapid.Int64Range(1, largest).Draw(t, "units"), w.now})
		}
		run(24 * time.Hour)
		before := w.ups + w.downs
		run(7 * 24 * time.Hour)
		if after := w.ups + w.downs; after != before || len(w.queue) > 0 {
			t.Fatalf("%d decisions after all was settled, %d wait", after-before, len(w.queue))
		}
	})
}
