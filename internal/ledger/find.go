package ledger

import "context"

// Finder answers what goes across kinds: what depends on what, and what has these
// words.
type Finder interface {
	// Reach returns what an end of links leads to, transitively and each once,
	// nearest first: with Back those that point at it. An object that is gone is
	// not passed through.
	Reach(ctx context.Context, reach Reach) ([]Reached, error)
	// Search returns objects whose name or words match, best first.
	Search(ctx context.Context, search Search) ([]Found, error)
}

// Reach asks for one direction of links.
type Reach struct {
	From string // an end, as in Object.Links
	Back bool   // against the links: who depends on it
	// Depth is how many links to follow; 0: all.
	Depth int
	Limit int // default 1000, at most 10000
}

// Reached is an end that links lead to.
type Reached struct {
	End    string // "<kind>/<id>" of an object, anything else for what is outside
	Via    string // the end before it
	Depth  int
	Object *Object // nil for what is outside
}

// Search asks for words.
type Search struct {
	Text  string   // words, all of which must match; the last may be the beginning of one
	Kinds []string // default: all that are searched
	// Scope holds equalities on columns that every kind has ({"org": "acme"}).
	Scope map[string]any
	Limit int // default 20, at most 100
}

// Found is an object with how well it matched: a greater rank is better, and
// ranks of one answer can be compared.
type Found struct {
	Object
	Rank float64
}
