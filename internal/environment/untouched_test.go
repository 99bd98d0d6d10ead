package environment_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
)

// Nobody has to agree that what was never made goes; what was begun is another matter.
func TestNothingIsLost(t *testing.T) {
	for _, c := range []struct {
		reason  string
		trouble map[string]string
		begun   bool
		want    string
	}{
		{"the first has failed, and the others were never begun", map[string]string{"db": "broken"}, false, environment.Destroyed},
		{"one of them was made", map[string]string{"web": "broken"}, false, environment.Fail},
		{"one of them was begun", map[string]string{"db": "broken"}, true, environment.Fail},
	} {
		w := begin(t)
		st := shop("db", "web<db", "more<web")
		st.judge = func(changes []environment.PlannedChange) (out []environment.Verdict) {
			for _, c := range changes {
				if c.Action == "destroy" {
					out = append(out, environment.Verdict{Policy: "data", Address: c.Address, Effect: "approve", Message: "data would be lost"})
				}
			}
			return out
		}
		w.add("1", st)
		if c.begun {
			w.forge.slow = map[string]int{"db": 1}
			w.forge.meanwhile = []func(){func() { w.forge.trouble = c.trouble }}
		} else {
			w.forge.trouble = c.trouble
		}
		o, _, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop"})
		w.must(err)
		w.work(time.Minute)
		if e := w.env(o.ID); e.Phase != environment.Fail {
			t.Fatalf("%s: %s %q", c.reason, e.Phase, e.Status.Message)
		}
		w.forge.trouble = nil
		_, _, err = w.s.Destroy(alice, o.ID, "")
		w.must(err)
		w.work(time.Minute)
		if e := w.env(o.ID); e.Phase != c.want {
			t.Errorf("%s: it is %s: %q", c.reason, e.Phase, e.Status.Message)
		}
	}
}
