// Package graph is a directed acyclic graph of names: what needs what. It is
// pure, knows nothing of what the names stand for, and gives the same order for
// the same input.
package graph

import (
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

// Node is a name with the names that must come before it.
type Node struct {
	Name  string
	Needs []string
}

// Graph is a set of nodes that has been found to be in order. It is immutable.
type Graph struct {
	names []string // as they were given
	needs map[string][]string
	depth map[string]int
}

// Problem is one thing that keeps nodes from being a graph.
type Problem struct {
	Node, Need string   // where it is; Need is empty where the node itself is wrong
	Cycle      []string // from a node back to itself
	Message    string
}

// Problems is everything that is wrong, in the order of the nodes.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Message
	}
	return strings.Join(lines, "\n")
}

// New makes a graph. The error is fault.Invalid (reason "graph") and wraps
// Problems: names that are there twice, needs that nobody has, and each cycle
// once.
func New(nodes []Node) (*Graph, error) {
	g := &Graph{needs: make(map[string][]string, len(nodes)), depth: make(map[string]int, len(nodes))}
	var wrong Problems
	for _, n := range nodes {
		if _, twice := g.needs[n.Name]; twice {
			wrong = append(wrong, Problem{Node: n.Name, Message: quote(n.Name) + " is there twice"})
			continue
		}
		g.names, g.needs[n.Name] = append(g.names, n.Name), n.Needs
	}
	for _, name := range g.names {
		for _, need := range g.needs[name] {
			if _, known := g.needs[need]; !known {
				wrong = append(wrong, Problem{Node: name, Need: need, Message: quote(name) + " needs " + quote(need) + ", which is not there"})
			}
		}
	}
	wrong = append(wrong, g.sort()...)
	if len(wrong) > 0 {
		return nil, fault.New(fault.Invalid, "%w", wrong).Because("graph")
	}
	return g, nil
}

func quote(name string) string { return `"` + name + `"` }

// Marks of a depth that is not known yet.
const (
	fresh = iota
	open  // on the way from the root
	done
)

// sort finds the depth of every node, and the cycles. It keeps its way in a
// list: a chain may be longer than a stack is deep.
func (g *Graph) sort() (cycles Problems) {
	type step struct {
		name string
		next int // index of the need to look at
	}
	state := make(map[string]int, len(g.names))
	for _, root := range g.names {
		if state[root] != fresh {
			continue
		}
		way := []step{{name: root}}
		state[root] = open
		for len(way) > 0 {
			at := &way[len(way)-1]
			needs := g.needs[at.name]
			if at.next == len(needs) {
				state[at.name] = done
				depth := 0
				for _, need := range needs {
					depth = max(depth, g.depth[need]+1)
				}
				g.depth[at.name], way = depth, way[:len(way)-1]
				continue
			}
			need := needs[at.next]
			at.next++
			if _, known := g.needs[need]; !known {
				continue
			}
			switch state[need] {
			case fresh:
				state[need] = open
				way = append(way, step{name: need})
			case open:
				from := slices.IndexFunc(way, func(s step) bool { return s.name == need })
				var cycle []string
				for _, s := range way[from:] {
					cycle = append(cycle, s.name)
				}
				cycle = append(cycle, need)
				cycles = append(cycles, Problem{Node: way[len(way)-1].name, Need: need, Cycle: cycle,
					Message: "these need each other: " + strings.Join(cycle, " → ")})
			}
		}
	}
	return cycles
}

// Order lists all names, each after what it needs and otherwise as they were
// given.
func (g *Graph) Order() []string {
	out := make([]string, 0, len(g.names))
	for _, wave := range g.Waves() {
		out = append(out, wave...)
	}
	return out
}

// Waves lists the names in as few groups as there can be: a group needs only
// names of those before it, so that all of it can be done at once.
func (g *Graph) Waves() [][]string {
	var out [][]string
	for _, name := range g.names {
		depth := g.depth[name]
		for len(out) <= depth {
			out = append(out, nil)
		}
		out[depth] = append(out[depth], name)
	}
	return out
}

// Needs lists everything that must come before a name, directly or not, in the
// order of Order; nil for a name that is not there.
func (g *Graph) Needs(name string) []string {
	return g.closure(name, func(of string) []string { return g.needs[of] })
}

// Needed lists everything that cannot be without a name, directly or not, in
// the order of Order.
func (g *Graph) Needed(name string) []string {
	users := map[string][]string{}
	for _, n := range g.names {
		for _, need := range g.needs[n] {
			users[need] = append(users[need], n)
		}
	}
	return g.closure(name, func(of string) []string { return users[of] })
}

func (g *Graph) closure(name string, next func(string) []string) []string {
	seen, todo := map[string]bool{}, slices.Clone(next(name))
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !seen[at] {
			seen[at] = true
			todo = append(todo, next(at)...)
		}
	}
	if len(seen) == 0 {
		return nil
	}
	return slices.DeleteFunc(g.Order(), func(n string) bool { return !seen[n] })
}
