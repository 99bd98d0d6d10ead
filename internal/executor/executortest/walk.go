package executortest

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
)

// walk lets a resource live any life: it is shaped anew, applied, applied by
// callers who die before they write anything down, edited and removed behind its
// back, and destroyed. Whatever came before, Apply makes it right, and Destroy
// leaves what was there in the beginning.
func walk(t *testing.T, b *bench) {
	lives := 0
	rapid.Check(t, func(rt *rapid.T) {
		if lives++; lives > b.Lives {
			return // a real server has no time for all
		}
		start := b.Look(t)
		x := b.thing(Plain)
		shapes := []Shape{Plain}
		for _, s := range []Shape{Changed, Moved, Veiled} {
			if b.Inputs(x.n, s) != nil {
				shapes = append(shapes, s)
			}
		}
		var now Shape // as it was applied last
		at, loose := false, false
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			// Hands reach the place of all shapes but Moved; and what is not recorded
			// yet and changed by somebody is rightly taken for his.
			reach := at && !loose && now != Moved
			switch step := rapid.SampledFrom([]string{"apply", "apply", "die", "edit", "delete", "destroy"}).Draw(rt, "step"); {
			case step == "apply" || step == "die":
				now = rapid.SampledFrom(shapes).Draw(rt, "shape")
				x.shape(now)
				res, err := x.try(t.Context())
				if err != nil {
					rt.Fatalf("cannot apply shape %d: %v (%v)", now, err, fault.Of(err))
				}
				at, loose = true, step == "die"
				if loose {
					continue
				}
				x.r.Outputs = res.Outputs
				o, err := x.Executor.Observe(t.Context(), x.call(false))
				if err != nil || !o.Exists || len(o.Drift) > 0 {
					rt.Fatalf("after it was applied: %+v, %v", o, err)
				}
			case step == "edit" && reach && b.Edit != nil:
				b.Edit(t, x.n)
			case step == "delete" && reach && b.Delete != nil:
				b.Delete(t, x.n)
				at = false
			case step == "destroy":
				x.destroy(t)
				x.r.Outputs, x.r.State = nil, nil
				at, loose = false, false
			}
		}
		x.destroy(t)
		b.look(t, "after its life", start)
		if t.Failed() {
			rt.FailNow()
		}
	})
}
