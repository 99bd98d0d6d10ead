package template

import (
	"github.com/droverhq/drover/internal/graph"
)

// Layout is a template with parameters: the resources that there should be. It is
// immutable and safe for concurrent use.
type Layout struct {
	Nodes  []Node // each after what it needs
	Groups []Part
	Graph  *graph.Graph // of addresses
	index  map[string]int
}

// Node is one resource that there should be.
type Node struct {
	Resource          // as the template has it
	Address  string   // "db", "web[0]", "front.api", "front.web[1]"
	Index    int      // -1 without a count
	Group    string   // address of the innermost group; empty: none
	Template string   // "<name>@<version>" of the template that it is said in
	Needs    []string // addresses, sorted
	scope    *scope
}

// Part is one group that there should be.
type Part struct {
	Address, Name, Description string
	Tags                       []string
	Template                   string   // that makes it: the nested one's "<name>@<version>", else the outer one's
	Nodes                      []string // addresses
}

// scope is where a node's expressions are evaluated.
type scope struct{}

// Known is what is known of a resource when another refers to it.
type Known struct {
	Outputs map[string]any // as an executor gave them: with Secret and Unknown in them
}

// Node of an address.
func (l *Layout) Node(address string) (Node, bool) {
	i, ok := l.index[address]
	if !ok {
		return Node{}, false
	}
	return l.Nodes[i], true
}
