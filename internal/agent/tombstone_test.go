package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// A control plane that was restored from a backup remembers what was removed
// since. It is told so, and nothing comes back; what was made since keeps running.
func TestRestoredControlPlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt, dir := newServer(), simulated.New(simulated.Config{}), t.TempDir()
		stop := start(t, s, rt, dir)
		s.say(1, item("gone", 1), item("kept", 5))
		settle(time.Second)
		s.say(2, removal("gone", 2), item("kept", 5), item("since", 1))
		settle(time.Second)
		s.say(3, item("kept", 6), item("since", 1))
		settle(20 * time.Second)
		if _, ok := observed(t, rt)["gone"]; ok {
			t.Fatal("the runtime was not told to forget")
		}
		stop()
		s.do(func() { s.epoch = 4; clear(s.observed) })
		s.say(1, item("gone", 1), item("kept", 5)) // as it was then
		stop = start(t, s, rt, dir)
		defer func() { stop() }()
		settle(time.Minute)
		seen := observed(t, rt)
		if _, ok := seen["gone"]; ok {
			t.Errorf("what was removed came back: %v", seen["gone"])
		}
		if seen["since"].State != runtime.Ready || seen["kept"].State != runtime.Ready {
			t.Errorf("what runs was harmed: %v", seen)
		}
		if got := s.known()["gone"]; got.State != "deleted" || got.Generation != 1 || !strings.Contains(got.Message, "deleted here at generation 2") {
			t.Errorf("of what was removed the control plane knows %+v", got)
		}
		if got := s.known()["since"]; got.State != "ready" {
			t.Errorf("of what it does not know it is told %+v", got)
		}
		before := s.count()
		settle(time.Minute)
		if n := s.count() - before; n != 6 {
			t.Errorf("%d messages in a minute after it, want 6", n)
		}
		s.say(2, item("gone", 3), item("kept", 5)) // placed here again, later
		settle(20 * time.Second)
		if got := observed(t, rt)["gone"]; got.State != runtime.Ready {
			t.Errorf("a newer generation is not made: %v", got)
		}
	})
}

// The same holds while the removal goes on, and in the same life of the ledger.
func TestOlderViewDuringARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newServer(), t.TempDir()
		rt := simulated.New(simulated.Config{Delay: func(runtime.Item) time.Duration { return 5 * time.Second }})
		stop := start(t, s, rt, dir)
		defer func() { stop() }()
		s.say(1, item("a", 1))
		settle(10 * time.Second)
		s.say(2, removal("a", 2))
		settle(time.Second)
		old := item("a", 1)
		old.Token = 9 // no fence stops it
		s.say(3, old)
		settle(20 * time.Second)
		if got := observed(t, rt)["a"]; got.State != runtime.Deleted {
			t.Errorf("an older view stopped or undid the removal: %+v", got)
		}
		if got := s.known()["a"]; got.State != "deleted" {
			t.Errorf("the server knows %+v", got)
		}
	})
}

func TestMemoryOfRemovalsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt, dir := newServer(), simulated.New(simulated.Config{}), t.TempDir()
		stop := start(t, s, rt, dir)
		defer func() { stop() }()
		var ids []string // of one bucket: each has its share of the memory
		for i := 0; len(ids) < 200; i++ {
			if id := fmt.Sprintf("i%05d", i); v1.BucketOf(id) == 7 {
				ids = append(ids, id)
			}
		}
		for round := range 2 {
			var items []v1.Item
			for _, id := range ids[100*round : 100*round+100] {
				it := removal(id, 2)
				it.Body = nil
				items = append(items, it)
			}
			s.say(int64(2*round+1), items...)
			settle(20 * time.Second)
			s.say(int64(2*round + 2))
			settle(20 * time.Second)
		}
		if got := len(observed(t, rt)); got != 0 {
			t.Errorf("the runtime still holds %d removed items", got)
		}
		text, err := os.ReadFile(filepath.Join(dir, "items-07.json"))
		if err != nil {
			t.Fatal(err)
		}
		if graves := strings.Count(string(text), `"generation":2`); graves != 160 || !strings.Contains(string(text), ids[199]) || strings.Contains(string(text), ids[0]) {
			t.Errorf("%d of 200 removals are remembered, want the newest 160", graves)
		}
	})
}
