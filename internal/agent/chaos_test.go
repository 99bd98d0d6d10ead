package agent_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// wire loses, doubles, delays and swaps messages while it is bad.
type wire struct {
	*server
	mu   sync.Mutex
	dice *rand.Rand
	bad  bool
	old  []v1.Synced // answers that may come again
}

func (w *wire) roll(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.bad {
		return -1
	}
	return w.dice.IntN(n)
}

func (w *wire) Sync(ctx context.Context, cluster string, m v1.Sync) (v1.Synced, error) {
	if d := w.roll(4); d > 0 { // late, and so out of order
		select {
		case <-time.After(time.Duration(d*d) * 300 * time.Millisecond):
		case <-ctx.Done():
			return v1.Synced{}, ctx.Err()
		}
	}
	what := w.roll(8)
	if what == 0 {
		return v1.Synced{}, errors.New("lost on the way there")
	}
	if what == 1 {
		twin := m
		twin.Wait = false
		if _, err := w.server.Sync(ctx, cluster, twin); err != nil {
			return v1.Synced{}, err
		}
	}
	a, err := w.server.Sync(ctx, cluster, m)
	if err != nil {
		return a, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.old = append(w.old, a)
	switch what {
	case 2:
		return v1.Synced{}, errors.New("lost on the way back")
	case 3:
		return w.old[w.dice.IntN(len(w.old))], nil
	}
	return a, nil
}

// spy is a runtime that watches what must never happen.
type spy struct {
	*simulated.Runtime
	mu      sync.Mutex
	asked   map[string]bool  // ids whose removal the control plane has asked for
	removed map[string]int64 // generations in which ids were removed
	anew    map[string]int64 // epochs in which they were wanted again since
	wrong   []string
}

// bars reports whether a generation is one of what was removed, and not wanted again since:
// an epoch that follows may list what it remembers of what is there again.
func (r *spy) bars(id string, generation, epoch int64) bool {
	since, anew := r.anew[id]
	return generation <= r.removed[id] && !(anew && epoch > since)
}

func (r *spy) Apply(ctx context.Context, it runtime.Item) error {
	err := r.Runtime.Apply(ctx, it)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		if fault.Reason(err) != "fenced" && ctx.Err() == nil {
			r.wrong = append(r.wrong, err.Error())
		}
	case it.Delete && !r.asked[it.ID]:
		r.wrong = append(r.wrong, fmt.Sprintf("%s was removed and nobody asked for it", it.ID))
	case it.Delete:
		r.removed[it.ID] = max(r.removed[it.ID], it.Generation)
		delete(r.anew, it.ID)
	case r.bars(it.ID, it.Generation, it.Epoch):
		r.wrong = append(r.wrong, fmt.Sprintf("%s was removed at generation %d and made again at %d", it.ID, r.removed[it.ID], it.Generation))
	case it.Generation > r.removed[it.ID]:
		if _, anew := r.anew[it.ID]; !anew {
			r.anew[it.ID] = it.Epoch
		}
	}
	return err
}

// world is a control plane, its backup, a bad wire and an agent.
type world struct {
	w      *wire
	rt     *spy
	born   map[string]int64 // generations: those of one life of the ledger only ever grow
	backup map[string]v1.Item
	then   map[string]int64
	dir    string
	stop   func()
}

func (c *world) change(f func(items map[string]v1.Item)) {
	s := c.w.server
	s.mu.Lock()
	items, seq := maps.Clone(s.items), s.seq+1
	s.mu.Unlock()
	f(items)
	for id, it := range items {
		if it.Delete {
			c.rt.mu.Lock()
			c.rt.asked[id] = true
			c.rt.mu.Unlock()
		}
	}
	s.say(seq, slices.Collect(maps.Values(items))...)
}

// day is one thing that happens, and how long it is quiet after it.
type day struct {
	what, id string
	flag     bool
	quiet    time.Duration
}

// Whatever is lost, doubled, late, restarted or restored: nothing is stopped
// that nobody asked to remove, nothing that was removed comes back, and once
// messages arrive again both sides agree, and rest.
func TestBadDays(t *testing.T) {
	words := rapid.SampledFrom([]string{"want", "want", "remove", "drop", "restart", "backup", "restore", "power", "vanish", "break"})
	ids := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	days := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) day {
		return day{words.Draw(r, "what"), ids.Draw(r, "id"), rapid.Bool().Draw(r, "flag"),
			time.Duration(rapid.IntRange(0, 8000).Draw(r, "ms")) * time.Millisecond}
	}), 5, 25)
	rapid.Check(t, func(r *rapid.T) {
		plan, dice, dir := days.Draw(r, "days"), rapid.Uint64().Draw(r, "dice"), t.TempDir()
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = live(t, plan, dice, dir) })
		for _, what := range wrong {
			r.Error(what)
		}
	})
}

// What was removed, wanted anew and then restored to an order from before its removal is
// not brought back: it is there.
func TestRestoreOfWhatIsWantedAnew(t *testing.T) {
	long := 8 * time.Second
	plan := []day{{"want", "a", false, long}, {"backup", "", false, 0}, {"remove", "a", false, long}, {"drop", "a", false, long},
		{"want", "a", false, long}, {"restore", "", false, long}}
	for dice := range uint64(20) {
		dir := t.TempDir()
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = live(t, plan, dice, dir) })
		for _, what := range wrong {
			t.Errorf("dice %d: %s", dice, what)
		}
	}
}

// live goes through the days and returns what was wrong.
func live(t *testing.T, plan []day, dice uint64, dir string) []string {
	s := newServer()
	c := &world{
		w: &wire{server: s, dice: rand.New(rand.NewPCG(dice, 1)), bad: true},
		rt: &spy{Runtime: simulated.New(simulated.Config{Delay: func(runtime.Item) time.Duration { return time.Second }}),
			asked: map[string]bool{}, removed: map[string]int64{}, anew: map[string]int64{}},
		dir: dir, born: map[string]int64{},
	}
	begin := func() { c.stop = start(t, c.w, c.rt, c.dir) }
	begin()
	for _, d := range plan {
		switch d.what {
		case "want":
			c.change(func(items map[string]v1.Item) {
				if !items[d.id].Delete {
					c.born[d.id]++
					items[d.id] = item(d.id, c.born[d.id])
				}
			})
		case "remove":
			c.change(func(items map[string]v1.Item) {
				if was, ok := items[d.id]; ok && !was.Delete {
					c.born[d.id]++
					items[d.id] = removal(d.id, c.born[d.id])
				}
			})
		case "drop": // what is known to be removed is no longer listed
			c.change(func(items map[string]v1.Item) {
				s.mu.Lock()
				gone := s.observed[d.id].State == "deleted"
				s.mu.Unlock()
				if items[d.id].Delete && gone {
					delete(items, d.id)
				}
			})
		case "vanish": // as no control plane should
			c.change(func(items map[string]v1.Item) { delete(items, d.id) })
		case "backup":
			s.mu.Lock()
			c.backup, c.then = maps.Clone(s.items), maps.Clone(c.born)
			s.mu.Unlock()
		case "restore":
			if c.backup != nil {
				c.born = maps.Clone(c.then)
				s.do(func() { s.epoch++; s.seq /= 2; clear(s.observed); clear(s.changed) })
				c.change(func(items map[string]v1.Item) { clear(items); maps.Copy(items, c.backup) })
			}
		case "restart":
			c.stop()
			begin()
		case "power":
			s.goDown(d.flag)
		case "break":
			if observed(t, c.rt)[d.id].State == runtime.Ready {
				c.rt.Set(d.id, runtime.Error, "it fell over")
			}
		}
		settle(d.quiet)
	}
	wrong := c.agree()
	c.stop()
	return wrong
}

// agree heals the wire, compares the two sides and says how they differ.
func (c *world) agree() (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	s := c.w.server
	c.w.mu.Lock()
	c.w.bad = false
	c.w.mu.Unlock()
	s.goDown(false)
	settle(3 * time.Minute)
	before := s.count()
	settle(time.Minute)
	if n := s.count() - before; n < 5 || n > 7 {
		complain("%d messages in a quiet minute", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.messages[len(s.messages)-1]
	if a := s.answer(last); len(a.Desired)+len(a.Bodies)+len(a.Observed) > 0 || !last.Ready || last.Epoch != s.epoch {
		complain("the two sides do not agree: %+v wants %+v", last, a)
	}
	all, _ := c.rt.Observe(context.Background())
	runs := map[string]runtime.Observed{}
	for _, o := range all {
		runs[o.ID] = o
	}
	c.rt.mu.Lock()
	defer c.rt.mu.Unlock()
	for id, it := range s.items {
		o, there := runs[id]
		removed := it.Delete || c.rt.bars(id, it.Generation, s.epoch)
		switch {
		case removed && there && o.State != runtime.Deleted:
			complain("%s is to be removed and is %+v", id, o)
		case removed && s.observed[id].State != "deleted":
			complain("the control plane takes %s, which is removed, for %+v", id, s.observed[id])
		case !removed && (o.Generation != it.Generation || o.State != runtime.Ready && o.Message != "it fell over"):
			complain("%s is %+v, want generation %d", id, o, it.Generation)
		}
	}
	return append(wrong, c.rt.wrong...)
}
