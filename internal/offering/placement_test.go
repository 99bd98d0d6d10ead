package offering_test

import (
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/offering"
)

func TestPlacementIsChecked(t *testing.T) {
	const from = "  components: ["
	for name, c := range map[string]struct{ reason, placement, want string }{
		"Spread":   {"everything that there is", "{strategy: spread, by: tenant, labels: {disk: ssd}, tolerates: [gpu], slack: {trial: 3}}", ""},
		"None":     {"nothing said", "{}", ""},
		"Strategy": {"a strategy that does not exist", "{strategy: worst-fit}", "spec.placement.strategy: must be one of first-fit, best-fit, spread"},
		"By":       {"what nothing can be spread by", "{strategy: spread, by: colour}", "spec.placement.by: must be one of zone, tenant"},
		"Alone":    {"spread by something, but not spread", "{by: zone}", "spec.placement.by: is for the strategy spread"},
		"Label":    {"a label with a blank", `{labels: {"a b": c}}`, "is not a name of a label"},
		"Taint":    {"a taint without a name", `{tolerates: [""]}`, "spec.placement.tolerates[0]: is required"},
		"Twice":    {"a taint twice", "{tolerates: [gpu, gpu]}", "is there twice"},
		"Slack":    {"slack for what is not sold", "{slack: {triall: 1}}", `spec.placement.slack.triall: there is no instance type "triall"`},
		"Negative": {"slack below zero", "{slack: {trial: -1}}", "spec.placement.slack.trial: must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(string(teapot(t)), from, "  placement: "+c.placement+"\n"+from, 1)
			_, err := offering.Parse("teapot.yaml", []byte(text))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v", c.reason, err)
			}
		})
	}
}

func TestLargest(t *testing.T) {
	typ := offering.Type{Sizes: []offering.Size{{Capacity: 2}, {Capacity: 8}, {Capacity: 5}}}
	for left, want := range map[int64]int64{-1: 8, 8: 8, 7: 5, 4: 2, 1: 0} {
		if got := typ.Largest(left); got != want {
			t.Errorf("of %d units left the largest size takes %d, not %d", left, want, got)
		}
	}
}
