package graph_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/graph"
)

func TestMistakesAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		nodes  []graph.Node
		want   string
	}{
		"fine":    {"an order there is", []graph.Node{{"b", []string{"a"}}, {"a", nil}}, ""},
		"empty":   {"nothing is in order", nil, ""},
		"unknown": {"a need must be there", []graph.Node{{"a", []string{"x"}}}, `"a" needs "x", which is not there`},
		"self":    {"nothing needs itself", []graph.Node{{"a", []string{"a"}}}, "these need each other: a → a"},
		"two":     {"a cycle is printed as one", []graph.Node{{"a", []string{"b"}}, {"b", []string{"a"}}}, "these need each other: a → b → a"},
		"tail":    {"what leads into a cycle is no part of it", []graph.Node{{"x", []string{"a"}}, {"a", []string{"b"}}, {"b", []string{"a"}}}, "these need each other: a → b → a"},
		"twice":   {"a name is one node", []graph.Node{{"a", nil}, {"a", nil}}, `"a" is there twice`},
		"all": {"all mistakes are told at once", []graph.Node{{"a", []string{"x", "b"}}, {"b", []string{"a"}}},
			"\"a\" needs \"x\", which is not there\nthese need each other: a → b → a"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := graph.New(c.nodes)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want || err != nil && (!fault.Is(err, fault.Invalid) || fault.Reason(err) != "graph") {
				t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
			}
		})
	}
}

func TestOrderIsThatOfTheFileWhereItMay(t *testing.T) {
	g, err := graph.New([]graph.Node{{"d", []string{"b", "c"}}, {"c", []string{"a"}}, {"b", []string{"a"}}, {"a", nil}, {"e", nil}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"a", "e"}, {"c", "b"}, {"d"}}, g.Waves()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "c", "b"}, g.Needs("d")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"c", "b", "d"}, g.Needed("a")); diff != "" {
		t.Error(diff)
	}
}

// drawn makes any nodes: some of them no graph at all.
func drawn(t *rapid.T) []graph.Node {
	n := rapid.IntRange(0, 12).Draw(t, "n")
	nodes := make([]graph.Node, n)
	for i := range nodes {
		nodes[i].Name = fmt.Sprint("n", i)
		for _, need := range rapid.SliceOfNDistinct(rapid.IntRange(0, max(n-1, 0)), 0, min(3, n), rapid.ID[int]).Draw(t, "needs") {
			nodes[i].Needs = append(nodes[i].Needs, fmt.Sprint("n", need))
		}
	}
	return nodes
}

// Either there is an order, and it is one, or there is a cycle, and it is one.
func TestAnyNodesHaveAnOrderOrACycle(t *testing.T) {
	orders, cycles := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawn(t)
		needs := map[string][]string{}
		for _, n := range nodes {
			needs[n.Name] = n.Needs
		}
		g, err := graph.New(nodes)
		if err != nil {
			cycles++
			var wrong graph.Problems
			if !errors.As(err, &wrong) {
				t.Fatalf("an error without its problems: %v", err)
			}
			for _, p := range wrong {
				c := p.Cycle
				if len(c) < 2 || c[0] != c[len(c)-1] || !strings.HasSuffix(p.Message, strings.Join(c, " → ")) {
					t.Fatalf("%v is no cycle", c)
				}
				for i := range c[:len(c)-1] {
					if !slices.Contains(needs[c[i]], c[i+1]) {
						t.Fatalf("%s does not need %s", c[i], c[i+1])
					}
				}
			}
			return
		}
		orders++
		at := map[string]int{}
		for i, name := range g.Order() {
			at[name] = i
		}
		if len(at) != len(nodes) || len(g.Order()) != len(nodes) {
			t.Fatalf("the order has %v of %d names", g.Order(), len(nodes))
		}
		for name, list := range needs {
			for _, need := range list {
				if at[need] >= at[name] {
					t.Fatalf("%s comes after %s", need, name)
				}
			}
		}
		checkWaves(t, g, needs)
	})
	if orders == 0 || cycles == 0 {
		t.Errorf("%d orders and %d cycles were drawn: this shows nothing", orders, cycles)
	}
}

// A wave is as early as it can be, and needs are exactly what can be reached.
func checkWaves(t *rapid.T, g *graph.Graph, needs map[string][]string) {
	wave := map[string]int{}
	for i, names := range g.Waves() {
		for _, name := range names {
			wave[name] = i
		}
	}
	for name := range needs {
		want := 0
		reach := map[string]bool{}
		for _, need := range needs[name] {
			want = max(want, wave[need]+1)
			reach[need] = true
			for _, further := range g.Needs(need) {
				reach[further] = true
			}
		}
		if wave[name] != want {
			t.Fatalf("%s is in wave %d, and could be in %d", name, wave[name], want)
		}
		got := g.Needs(name)
		if len(got) != len(reach) {
			t.Fatalf("%s needs %v, got %v", name, reach, got)
		}
		for _, n := range got {
			if !slices.Contains(g.Needed(n), name) {
				t.Fatalf("%s needs %s, which does not know", name, n)
			}
		}
	}
}
