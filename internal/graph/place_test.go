package graph_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/graph"
)

func TestPlaced(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		nodes  []graph.Node
		want   [][]string
	}{
		"nothing": {"A graph may be empty.", nil, nil},
		"uncrossed": {
			"Lines that would cross do not when the wave is turned around.",
			[]graph.Node{{Name: "a"}, {Name: "b"}, {Name: "of-b", Needs: []string{"b"}}, {Name: "of-a", Needs: []string{"a"}}},
			[][]string{{"a", "b"}, {"of-a", "of-b"}},
		},
		"diamond": {
			"What cannot be better stays as it was given.",
			[]graph.Node{{Name: "a"}, {Name: "b", Needs: []string{"a"}}, {Name: "c", Needs: []string{"a"}}, {Name: "d", Needs: []string{"b", "c"}}},
			[][]string{{"a"}, {"b", "c"}, {"d"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := graph.New(tc.nodes)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, g.Placed()); d != "" {
				t.Errorf("%s\n%s", tc.reason, d)
			}
		})
	}
}

// Nothing is lost or told twice, whatever the order.
func TestPlacedIsWhole(t *testing.T) {
	var nodes []graph.Node
	for i := range 300 {
		n := graph.Node{Name: fmt.Sprint(i)}
		for j := 1; j <= i%4; j++ {
			n.Needs = append(n.Needs, fmt.Sprint((i*7+j*13)%max(i, 1)))
		}
		slices.Sort(n.Needs)
		n.Needs = slices.Compact(n.Needs)
		nodes = append(nodes, n)
	}
	g, err := graph.New(nodes)
	if err != nil {
		t.Fatal(err)
	}
	waves := g.Waves()
	for i, wave := range g.Placed() {
		got, want := slices.Sorted(slices.Values(wave)), slices.Sorted(slices.Values(waves[i]))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("wave %d: %s", i, d)
		}
	}
}
