package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Bounds of one search: so many things a pattern may mean, so many that hang on
// them.
const (
	maxMeant   = 100
	maxHanging = 5_000
)

func (o *own) routesSearch() {
	huma.Register(o.api, huma.Operation{
		OperationID: "search", Method: http.MethodGet, Path: "/api/v1/search", Tags: []string{"environments"},
		Summary: "Find anything by words in names, descriptions, tags and types, best first",
		Description: "All words must match; the last may be the beginning of one. dependsOn:db* finds what depends on anything named so, usedBy:web what anything named so depends on, both transitively. " +
			"Only what the caller may see is found.",
	}, o.search)
}

type searchInput struct {
	Q     string `query:"q" required:"true" minLength:"1" maxLength:"1024" example:"payments dependsOn:db*"`
	Kind  string `query:"kind" maxLength:"64" doc:"Only of this kind: environments, resources, templates, ..."`
	Limit int    `query:"limit" default:"20" minimum:"1" maximum:"100"`
}

// wanted is a search, taken apart.
type wanted struct {
	words             []string
	dependsOn, usedBy []string // patterns
}

// parseWanted reads a search. Faults: Invalid.
func parseWanted(q string) (wanted, error) {
	var w wanted
	for _, word := range strings.Fields(q) {
		key, pattern, found := strings.Cut(word, ":")
		to := map[string]*[]string{"dependson": &w.dependsOn, "usedby": &w.usedBy}[strings.ToLower(key)]
		switch {
		case !found || to == nil:
			w.words = append(w.words, word)
		case strings.Trim(pattern, "*") == "":
			return w, fault.New(fault.Invalid, "%.32s: wants a name, or the beginning of one with * behind it", key).Because("list")
		default:
			*to = append(*to, pattern)
		}
	}
	if len(w.dependsOn)+len(w.usedBy) > 4 {
		return w, fault.New(fault.Invalid, "a search goes along the dependencies of at most four names").Because("list")
	}
	return w, nil
}

func (o *own) search(ctx context.Context, in *searchInput) (*body[v1.SearchResults], error) {
	w, err := parseWanted(in.Q)
	if err != nil {
		return nil, err
	}
	var kinds []string
	if in.Kind != "" {
		r, err := o.resource(in.Kind)
		if err != nil {
			return nil, err
		}
		kinds = []string{r.Kind}
	}
	var found []ledger.Found
	if len(w.dependsOn)+len(w.usedBy) > 0 {
		found, err = o.hanging(ctx, w, kinds)
	} else {
		found, err = o.worded(ctx, strings.Join(w.words, " "), kinds, in.Limit)
	}
	if err != nil {
		return nil, err
	}
	who := access.From(ctx)
	out := v1.SearchResults{Items: make([]v1.SearchResult, 0, min(len(found), in.Limit))}
	for i := range found[:min(len(found), in.Limit)] {
		out.Items = append(out.Items, v1.SearchResult{Object: wireRow(&found[i].Object, o.Offerings, who), Rank: found[i].Rank})
	}
	return &body[v1.SearchResults]{out}, nil
}

// worded searches what the caller owns, and what belongs to nobody and everybody
// may see.
func (o *own) worded(ctx context.Context, text string, kinds []string, limit int) ([]ledger.Found, error) {
	who := access.From(ctx)
	var own, open []string
	for _, r := range fixed {
		switch {
		case !r.kind.Searched || len(kinds) > 0 && !slices.Contains(kinds, r.Kind):
		case who.Admin || !forAll(r.Kind):
			own = append(own, r.Kind)
		default:
			open = append(open, r.Kind)
		}
	}
	var found []ledger.Found
	for _, part := range []struct {
		kinds []string
		scope map[string]any
	}{{own, who.Scope()}, {open, nil}} {
		if len(part.kinds) == 0 {
			continue
		}
		some, err := o.Ledger.Search(ctx, ledger.Search{Text: text, Kinds: part.kinds, Scope: part.scope, Limit: limit})
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	found = slices.DeleteFunc(found, func(f ledger.Found) bool { return !visible(who, &f.Object) })
	slices.SortStableFunc(found, func(a, b ledger.Found) int { return cmp.Compare(b.Rank, a.Rank) })
	return found, nil
}

// hanging finds what hangs together with all patterns, and has all words.
func (o *own) hanging(ctx context.Context, w wanted, kinds []string) ([]ledger.Found, error) {
	who := access.From(ctx)
	var found map[ledger.Ref]ledger.Found
	for _, side := range []struct {
		patterns []string
		back     bool
	}{{w.dependsOn, true}, {w.usedBy, false}} {
		for _, pattern := range side.patterns {
			meant, err := o.meant(ctx, pattern)
			if err != nil {
				return nil, err
			}
			next := map[ledger.Ref]ledger.Found{}
			for _, end := range meant {
				reached, err := o.Ledger.Reach(ctx, ledger.Reach{From: end, Back: side.back, Limit: maxHanging})
				if err != nil {
					return nil, err
				}
				for _, r := range reached {
					if r.Object == nil || !visible(who, r.Object) || !hasWords(r.Object, w.words) || len(kinds) > 0 && !slices.Contains(kinds, r.Object.Kind) {
						continue
					}
					if _, before := found[r.Object.Ref]; found == nil || before {
						next[r.Object.Ref] = ledger.Found{Object: *r.Object, Rank: 1 / float64(1+r.Depth)}
					}
				}
			}
			found = next
		}
	}
	out := make([]ledger.Found, 0, len(found))
	for _, f := range found {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b ledger.Found) int {
		return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// meant are the ends that a pattern names: resources and environments that the
// caller may see, and what is outside.
func (o *own) meant(ctx context.Context, pattern string) ([]string, error) {
	who := access.From(ctx)
	match := ledger.Compare{Column: "name", Op: ledger.Eq, Values: []any{pattern}}
	ends := []string{"external/" + pattern}
	if strings.Contains(pattern, "*") {
		match.Op = ledger.Like
		match.Values = []any{strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(pattern)}
		ends = nil
	}
	for _, kind := range []string{environment.KindResource.Name, environment.Kind.Name} {
		found, err := o.Ledger.List(ctx, ledger.Query{Kind: kind, Scope: who.Scope(), Where: match, Limit: maxMeant, Brief: true})
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			ends = append(ends, f.Ref.String())
		}
	}
	return ends, nil
}

// hasWords reports whether an object has all words, in whatever case.
func hasWords(x *ledger.Object, words []string) bool {
	text := strings.ToLower(x.Name + " " + x.Words + " " + x.Kind)
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, strings.ToLower(w)) })
}
