package ledger

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
)

// Bounds of what is found and of what is found by.
const (
	MaxLinks = 10_000   // of one object
	MaxLink  = 512      // bytes of one end
	MaxWords = 16 << 10 // bytes

	maxReached = 10_000
	maxFound   = 100
)

// Finder answers what goes across kinds: what depends on what, and what has these
// words.
type Finder interface {
	// Reach returns what an end of links leads to, transitively and each once,
	// nearest first: with Back those that point at it. The ends of one length are
	// in the order of the ends before them, then of their names. An object that
	// is gone may be reached, but is not passed through.
	Reach(ctx context.Context, reach Reach) ([]Reached, error)
	// Search returns objects whose name or words match, best first; those that
	// match equally well in the order of names, kinds and ids. Where very many
	// match, the best are those of the ones that were looked at.
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
	// Scope holds equalities on "org", "owner" and "parent": {"org": "acme"}.
	Scope map[string]any
	Limit int // default 20, at most 100
}

// Check fills in the defaults, and refuses what cannot be asked.
func (r *Reach) Check() error {
	if r.Limit == 0 {
		r.Limit = 1000
	}
	if r.From == "" || !plain(r.From) {
		return fault.New(fault.Invalid, "links are followed from an end of 1 to %d bytes of plain text", MaxText)
	}
	if r.Depth < 0 || r.Limit < 0 || r.Limit > maxReached {
		return fault.New(fault.Invalid, "links are followed to a depth from 0, and to at most %d ends", maxReached)
	}
	return nil
}

// Check fills in the defaults, refuses what cannot be asked of the kinds, and
// returns what to match with.
func (s *Search) Check(kinds map[string]Kind) (*Matcher, error) {
	if s.Limit == 0 {
		s.Limit = 20
	}
	if s.Limit < 0 || s.Limit > maxFound {
		return nil, fault.New(fault.Invalid, "a search finds at most %d objects", maxFound)
	}
	all := len(s.Kinds) == 0
	s.Kinds = sorted(slices.Clone(s.Kinds), strings.Compare)
	for _, name := range s.Kinds {
		if k, ok := kinds[name]; !ok || !k.Searched {
			return nil, fault.New(fault.Invalid, "%.64q is not a kind that is searched", name)
		}
	}
	if all {
		for name, k := range kinds {
			if k.Searched {
				s.Kinds = append(s.Kinds, name)
			}
		}
		slices.Sort(s.Kinds)
	}
	for column, v := range s.Scope {
		text, ok := v.(string)
		if !ok || !plain(text) || column != "org" && column != "owner" && column != "parent" {
			return nil, fault.New(fault.Invalid, "a search is limited by org, owner or parent to plain text, not by %.64q", column)
		}
	}
	return NewMatcher(s.Text)
}

// checkFound refuses links and words that the kind does not have or that are too
// large.
func (k Kind) checkFound(o *Object) error {
	switch {
	case len(o.Links) > 0 && !k.Linked:
		return fault.New(fault.Invalid, "%s: objects of this kind have no links", o.Ref)
	case o.Words != "" && !k.Searched:
		return fault.New(fault.Invalid, "%s: objects of this kind are not found by words", o.Ref)
	case len(o.Links) > MaxLinks:
		return fault.New(fault.Invalid, "%s has %d links; an object has at most %d", o.Ref, len(o.Links), MaxLinks).Because("too-large")
	case len(o.Words) > MaxWords:
		return fault.New(fault.Invalid, "%s has %d bytes of words; an object has at most %d", o.Ref, len(o.Words), MaxWords).Because("too-large")
	case !utf8.ValidString(o.Words) || strings.IndexByte(o.Words, 0) >= 0:
		return fault.New(fault.Invalid, "%s: its words are not plain text", o.Ref)
	}
	for _, end := range o.Links {
		if end == "" || len(end) > MaxLink || !plain(end) {
			return fault.New(fault.Invalid, "%s: a link leads to plain text of 1 to %d bytes, not to %.64q", o.Ref, MaxLink, end)
		}
	}
	return nil
}

// Found is an object with how well it matched: a greater rank is better, and
// ranks of one answer can be compared.
type Found struct {
	Object
	Rank float64
}
