//go:build linux

package process_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/process"
)

// second is another program of the same directory.
func (w *world) second(inputs map[string]any) *world {
	o := &world{t: w.t, dir: w.dir, c: w.c}
	inputs["name"] = "two"
	o.r = executor.Resource{ID: "r2-" + rand.Text(), Address: "two", Connection: w.c, Inputs: inputs, Log: &o.log}
	o.r.Save = func(_ context.Context, state []byte) error { o.r.State = state; return nil }
	return o
}

func (w *world) all(name string) []int {
	return carriers(w.t, filepath.Join(w.dir, ".programs", name, "output.log"))
}

func (w *world) slay(name string) {
	w.t.Helper()
	for len(w.all(name)) > 0 {
		for _, pid := range w.all(name) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// edit changes what is known of the program.
func (w *world) edit(change func(rec map[string]any)) {
	w.t.Helper()
	data, err := os.ReadFile(w.record())
	rec := map[string]any{}
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	change(rec)
	data, _ = json.Marshal(rec)
	if err := os.WriteFile(w.record(), data, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// A keeper that comes back starts a program in its own way while others are still
// being revived: it is left as the keeper has it.
func TestReviveLeavesWhatItsKeeperHasStarted(t *testing.T) {
	one := newWorld(t, shell(sleeper))
	one.must()
	two := one.second(shell(sleeper))
	two.must()
	one.kill()
	one.slay("two")
	var kept []int
	err := process.Revive(t.Context(), one.c, func(name, what string) {
		if name == "one" && kept == nil {
			two.r.Inputs["env"] = map[string]any{"SIZE": "large"}
			two.must()
			kept = one.all("two")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	now := one.all("two")
	if len(kept) == 0 || leader(t, kept) != leader(t, now) {
		t.Errorf("the keeper has started %v, now there are %v", kept, now)
	}
	if o, err := process.New().Observe(t.Context(), two.r); err != nil || len(o.Drift) > 0 {
		t.Errorf("it is seen as %+v, %v", o, err)
	}
	if len(one.pids()) == 0 {
		t.Error("the first does not run")
	}
}

func TestReviveAdoptsWhatWorks(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	before := leader(t, w.pids())
	w.edit(func(rec map[string]any) { delete(rec, "pid"); delete(rec, "birth") })
	if err := process.Revive(t.Context(), w.c, func(string, string) {}); err != nil {
		t.Fatal(err)
	}
	if now := leader(t, w.pids()); now != before {
		t.Errorf("process %d was ended for %d", before, now)
	}
	if o := w.observe(); !o.Exists || len(o.Drift) > 0 {
		t.Errorf("it is seen as %+v", o)
	}
}

// What does not work is started anew, and has its own time to end.
func TestReviveHasGrace(t *testing.T) {
	in := shell(`trap 'sleep 2; touch bye; exit' TERM; touch ok; while :; do sleep 0.05; done`)
	in["health"] = map[string]any{"command": []any{"test", "-e", "ok"}}
	w := newWorld(t, in)
	w.must()
	if err := os.Remove(filepath.Join(w.home(), "ok")); err != nil {
		t.Fatal(err)
	}
	w.edit(func(rec map[string]any) { delete(rec, "pid"); delete(rec, "birth") })
	if err := process.Revive(t.Context(), w.c, func(string, string) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(w.home(), "bye")); err != nil {
		t.Errorf("it was killed before it had ended: %v", err)
	}
}

// A keeper is alive while programs are ended, and makes one anew.
func TestEndLeavesNothing(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	other := w.second(shell(sleeper))
	other.must()
	again := false
	err := process.End(t.Context(), w.c, func(name, what string) {
		if name == "two" && !again {
			again = true
			other.r.State = nil
			other.must()
		}
	})
	if err != nil || !again {
		t.Fatal(again, err)
	}
	left, err := os.ReadDir(filepath.Join(w.dir, ".programs"))
	if err != nil || len(left) > 0 || len(w.all("two"))+len(w.all("one")) > 0 {
		t.Errorf("there are %v and the processes %v, %v: %v", left, w.all("one"), w.all("two"), err)
	}
}

// Whoever waits for a program that is removed meanwhile makes it under a lock of its
// own: two never act at once.
func TestManyAtOnce(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	done := make(chan error, 8)
	for range 4 {
		go func() { done <- w.once() }()
		go func() { done <- process.Revive(t.Context(), w.c, func(string, string) {}) }()
	}
	for range 8 {
		if err := <-done; err != nil && !strings.Contains(err.Error(), "context") {
			t.Error(err)
		}
	}
	leader(t, w.pids())
}

// once ends it and applies it again, by a copy.
func (w *world) once() error {
	r := w.r
	r.Log = &strings.Builder{}
	r.Save = func(context.Context, []byte) error { return nil }
	for _, pid := range carriers(w.t, filepath.Join(w.dir, ".programs", "one", "output.log")) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for {
		res, err := process.New().Apply(w.t.Context(), r)
		if err != nil && strings.Contains(err.Error(), "ended soon") {
			continue // another one has killed it
		}
		if err != nil || res.Done {
			return err
		}
	}
}
