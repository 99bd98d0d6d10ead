package template

import (
	"github.com/droverhq/drover/internal/graph"
)

// Layout is a template with parameters: the resources that there should be. It is
// immutable and safe for concurrent use.
type Layout struct {
	Template *Template
	Nodes    []Node // each after what it needs
	Groups   []Part
	Graph    *graph.Graph // of addresses
	index    map[string]int
	root     *scope
	scopes   map[string]*scope // of groups that are templates, by their addresses
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
	resource *resource
}

// Part is one group that there should be.
type Part struct {
	Address, Name, Description string
	Tags                       []string
	Template                   string   // that makes it: the nested one's "<name>@<version>", else the outer one's
	Nodes                      []string // addresses, of those in nested groups too
}

// Given is what a template is laid out with.
type Given struct {
	Params map[string]any // as Validate returned them
	Env    EnvFacts
}

// EnvFacts are what expressions know of the environment.
type EnvFacts struct {
	Name        string
	ID          string // empty: there is none yet, and what depends on it is unknown
	Org, Owner  string
	Description string
	Tags        []string
}

// Known is what is known of a resource when another refers to it.
type Known struct {
	Outputs map[string]any // as an executor gave them: with Secret and Unknown in them
}

// Lookup tells what is known of the resource at an address; false: nothing, and
// all of its outputs are unknown.
type Lookup = func(address string) (Known, bool)

// Node of an address.
func (l *Layout) Node(address string) (Node, bool) {
	i, ok := l.index[address]
	if !ok {
		return Node{}, false
	}
	return l.Nodes[i], true
}

// scope is where expressions of one template are evaluated: the root's, or that
// of a group that is a template.
type scope struct {
	t      *Template
	prefix string // of addresses: "" or "front."
	parent *scope
	group  *group // of the parent's template; nil: it is the root
	env    map[string]any
	params map[string]any // with Unknown where a nested one's depend on outputs
	open   bool           // params hold an Unknown
	there  map[string]int // by keys of resources and names of groups that are templates
	inner  map[string]*scope
}

// How many of a resource there are: so many by index, or
const (
	single = -1 // one without an index
	absent = -2 // none, since its condition or that of its group is false
)

// names of what there is for people.
func missing(key string, n int) string {
	if n == absent {
		return key + " is not there with these parameters (its condition is false)"
	}
	return key + " is not there with these parameters (its count is 0)"
}
