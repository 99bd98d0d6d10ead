package simulated_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/runtimetest"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

func body(host, word string, suspended bool) json.RawMessage {
	return fmt.Appendf(nil, `{"spec":{"endpoint":{"host":%q},"versions":{"app":%q},"suspended":%v}}`, host, word, suspended)
}

func TestConformance(t *testing.T) {
	runtimetest.Run(t, runtimetest.Config{
		Open: func(*testing.T, string) (runtime.Runtime, func()) {
			return simulated.New(simulated.Config{}), func() {}
		},
		Body: body,
	})
}

func TestConformanceWithDelay(t *testing.T) {
	delay := func(runtime.Item) time.Duration { return time.Millisecond }
	runtimetest.Run(t, runtimetest.Config{
		Open: func(*testing.T, string) (runtime.Runtime, func()) {
			return simulated.New(simulated.Config{Delay: delay}), func() {}
		},
		Body: body,
	})
}

func state(t *testing.T, rt runtime.Runtime, id string) runtime.Observed {
	t.Helper()
	all, err := rt.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.ID == id {
			return o
		}
	}
	t.Fatalf("%s is not there", id)
	return runtime.Observed{}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := simulated.New(simulated.Config{Delay: func(runtime.Item) time.Duration { return time.Minute }})
		if err := rt.Apply(t.Context(), runtime.Item{ID: "a", Generation: 1, Body: body("h", "1", false)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		if got := state(t, rt, "a").State; got != runtime.Installing {
			t.Errorf("before the delay: %s", got)
		}
		if err := rt.Apply(t.Context(), runtime.Item{ID: "a", Generation: 2, Body: body("h", "2", false)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := state(t, rt, "a").State; got != runtime.Installing {
			t.Errorf("the older item's delay made the newer one %s", got)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if got := state(t, rt, "a"); got.State != runtime.Ready || got.Generation != 2 {
			t.Errorf("after the delay: %+v", got)
		}
	})
}

func TestFailures(t *testing.T) {
	rt := simulated.New(simulated.Config{
		Capacity: 2,
		Fail: func(it runtime.Item) string {
			if it.ID == "broken" {
				return "no legs"
			}
			return ""
		},
		Refuse: func(it runtime.Item) error {
			if it.ID == "refused" {
				return fault.New(fault.Unavailable, "later")
			}
			return nil
		},
	})
	apply := func(id string) error {
		return rt.Apply(t.Context(), runtime.Item{ID: id, Generation: 1, Body: body(id, "1", false)})
	}
	if err := apply("refused"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("refused: %v", err)
	}
	for _, id := range []string{"broken", "good", "more"} {
		if err := apply(id); err != nil {
			t.Fatal(err)
		}
	}
	if got := state(t, rt, "broken"); got.State != runtime.Error || got.Message != "no legs" {
		t.Errorf("broken: %+v", got)
	}
	if got := state(t, rt, "more"); got.State != runtime.Rejected {
		t.Errorf("beyond the capacity: %+v", got)
	}
	if err := rt.Apply(t.Context(), runtime.Item{ID: "good", Generation: 2, Delete: true}); err != nil {
		t.Fatal(err)
	}
	if err := apply("more"); err != nil {
		t.Fatal(err)
	}
	if got := state(t, rt, "more"); got.State != runtime.Ready {
		t.Errorf("with room again: %+v", got)
	}
	rt.Set("more", runtime.Error, "it fell over")
	if got := state(t, rt, "more"); got.Message != "it fell over" {
		t.Errorf("after Set: %+v", got)
	}
}
