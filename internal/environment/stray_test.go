package environment_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
)

// However many strays there are, each is told once, and ends once it is gone.
func TestManyStrays(t *testing.T) {
	w, g := plant(t)
	w.add("1", shop("db"))
	e := w.up("staging", nil)
	for i := range 450 {
		g.weeds = append(g.weeds, executor.Stray{Name: fmt.Sprintf("kv/old-%03d", i), Where: "db"})
	}
	count := func() (open, ended int) {
		for _, d := range w.left("drift") {
			if d.Phase == environment.DriftOpen {
				open++
			} else {
				ended++
			}
		}
		return open, ended
	}
	w.look(e)
	w.work(30 * time.Minute)
	if open, ended := count(); open != 450 || ended != 0 {
		t.Fatalf("%d are told, %d have ended", open, ended)
	}
	slices.Reverse(g.weeds)
	w.work(30 * time.Minute)
	if open, ended := count(); open != 450 || ended != 0 {
		t.Errorf("in another order %d are told, %d have ended", open, ended)
	}
	g.weeds = slices.Clone(g.weeds[:20])
	w.work(40 * time.Minute)
	if open, ended := count(); open != 20 || ended != 430 {
		t.Errorf("%d are told, %d have ended", open, ended)
	}
}
