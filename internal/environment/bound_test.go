package environment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
)

// Parameters fit an environment together with those before them: what is too large
// is refused at once, and not when it is taken up.
func TestLargeParameters(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db"))
	large := func(kib int, of string) map[string]any {
		return map[string]any{"size": "s", "more": strings.Repeat(of, kib<<10)}
	}
	o, _, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop", Parameters: large(30, "x")})
	w.must(err)
	w.work(time.Minute)
	for _, kib := range []int{31, 100, 200, 1000} {
		_, op, err := w.s.Change(alice, environment.PlanOrder{Environment: "staging", Parameters: large(kib, "y")})
		if fault.Is(err, fault.Invalid) && fault.Reason(err) == "parameters" {
			continue
		}
		w.must(err)
		w.work(time.Minute)
		if phase, reason := w.operation(op); phase != "succeeded" {
			t.Errorf("with %d KiB: %s %q, %s", kib, phase, reason, w.env(o.ID).Status.Message)
		}
	}
}
