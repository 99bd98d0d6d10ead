package sqlledger

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/ledger"
)

// candidates bounds how many objects of a kind one look into the index of words
// brings to be ranked. A word that a million objects have must not cost a million
// ranks.
const candidates = 500

// Reach implements ledger.Finder.
func (l *Ledger) Reach(ctx context.Context, want ledger.Reach) ([]ledger.Reached, error) {
	if err := want.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := l.patient(ctx)
	defer cancel()
	near, far := "src", "dst"
	if want.Back {
		near, far = far, near
	}
	find := l.around
	if l.dialect.alone {
		find = l.steps
	}
	out, err := find(ctx, &want, near, far)
	if err != nil {
		return nil, err
	}
	kinds := map[string][]any{}
	for _, r := range out {
		if kind, id, ok := strings.Cut(r.End, "/"); ok && l.stores[kind] != nil {
			kinds[kind] = append(kinds[kind], id)
		}
	}
	objects, err := l.objects(ctx, kinds)
	for i := range out {
		out[i].Object = objects[out[i].End]
	}
	return out, err
}

// around brings the edges around the end by one query, where each is a round trip,
// and finds the shortest ways through them here.
func (l *Ledger) around(ctx context.Context, want *ledger.Reach, near, far string) ([]ledger.Reached, error) {
	var b binder
	next := map[string][]string{}
	sql := reach(near, far, want.From, want.Limit+1, &b)
	err := l.engine.seek(ctx, sql, b.args, func(scan scanner) error {
		var from, to string
		err := scan(&from, &to)
		next[from] = append(next[from], to)
		return err
	})
	return walk(want, next), err
}

// walk goes breadth first, so that each end is met on a shortest way.
func walk(reach *ledger.Reach, next map[string][]string) []ledger.Reached {
	var out []ledger.Reached
	met := map[string]bool{reach.From: true}
	queue := []ledger.Reached{{End: reach.From}}
	for ; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if reach.Depth > 0 && at.Depth == reach.Depth {
			break
		}
		slices.Sort(next[at.End])
		for _, end := range next[at.End] {
			if met[end] {
				continue
			}
			if len(out) == reach.Limit {
				return out
			}
			met[end] = true
			r := ledger.Reached{End: end, Via: at.End, Depth: at.Depth + 1}
			out, queue = append(out, r), append(queue, r)
		}
	}
	return out
}

// objects reads many by their ids, per kind.
func (l *Ledger) objects(ctx context.Context, ids map[string][]any) (map[string]*ledger.Object, error) {
	out := map[string]*ledger.Object{}
	for kind, list := range ids {
		s := l.stores[kind]
		var b binder
		sql := "SELECT " + s.selected(false, "") + " FROM " + s.table.name + " WHERE " + l.dialect.among("id", list, true, &b)
		r := s.reading(false)
		err := l.engine.seek(ctx, sql, b.args, func(scan scanner) error {
			o, err := r.next(scan)
			out[o.Ref.String()] = &o
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// term is a token to look for, or what it begins with.
type term struct {
	word   string
	begins bool
}

// finding is a search under way.
type finding struct {
	l      *Ledger
	search *ledger.Search
	match  *ledger.Matcher
	found  map[ledger.Ref]ledger.Found // with nothing but what ranks
}

// Search implements ledger.Finder.
func (l *Ledger) Search(ctx context.Context, search ledger.Search) ([]ledger.Found, error) {
	match, err := search.Check(l.kinds)
	if err != nil {
		return nil, err
	}
	ctx, cancel := l.patient(ctx)
	defer cancel()
	f := &finding{l: l, search: &search, match: match, found: map[ledger.Ref]ledger.Found{}}
	for _, kind := range search.Kinds {
		if err := f.gather(ctx, kind); err != nil {
			return nil, err
		}
	}
	return f.best(ctx)
}

// gather finds the candidates of a kind. A database reads all that an index has
// of a word before it gives the first object away, so a sample of the objects is
// asked for first: if that alone has enough, the whole has too many. Wherever more
// match than are looked at, those with all words in the name are looked for apart,
// since they go before all others, and the one that is called so before them.
func (f *finding) gather(ctx context.Context, kind string) error {
	var err error
	look := func(groups [][]term, sample bool) bool {
		n := 0
		if err == nil {
			n, err = f.look(ctx, kind, groups, sample)
		}
		return n == candidates
	}
	if last := f.match.Words[len(f.match.Words)-1]; len(f.search.Scope) > 0 && utf8.RuneCountInString(last) > maxBegins {
		// Within a scope its first letters narrow enough, and all words that begin
		// so need not be gone through.
		if !look(f.terms(true, true), false) {
			return err
		}
		look(f.terms(false, true), false)
		if err != nil || len(f.found) >= f.search.Limit {
			return err
		}
	}
	anywhere, named := f.terms(true, false), f.terms(false, false)
	whole := [][]term{{{word: digest(markWhole, strings.Join(f.match.Words, " "))}}}
	switch {
	case look(anywhere, true):
		if !look(named, true) && len(named) == 1 {
			look(named, false) // of several common words all would be read to find few
		}
		look(whole, false)
	case look(anywhere, false) && look(named, false):
		look(whole, false)
	}
	return err
}

// terms asks for every word, in the name or anywhere. Of a long last word the
// first letters may be enough: the rank looks at the rest.
func (f *finding) terms(anywhere, first bool) [][]term {
	var out [][]term
	for i, w := range f.match.Words {
		whole, begins := []string{markName, markWord}, []string{markNameBegins, markWordBegins}
		if !anywhere {
			whole, begins = whole[:1], begins[:1]
		}
		last, short := i == len(f.match.Words)-1, utf8.RuneCountInString(w) <= maxBegins
		if last && !short && first {
			w, short = string([]rune(w)[:maxBegins]), true
		}
		marks := whole
		if last && short {
			marks = begins
		}
		var group []term
		for _, mark := range marks {
			group = append(group, term{word: mark + w, begins: last && !short})
		}
		out = append(out, group)
	}
	return out
}

// look ranks the candidates that the index has of a kind, and counts them.
func (f *finding) look(ctx context.Context, kind string, groups [][]term, sample bool) (int, error) {
	s := f.l.stores[kind]
	var b binder
	condition := ""
	for _, scope := range []struct{ column, mark string }{{"org", markOrg}, {"owner", markOwner}, {"parent", markParent}} {
		if v, ok := f.search.Scope[scope.column].(string); ok {
			groups = append([][]term{{{word: digest(scope.mark, v)}}}, groups...)
			condition += " AND o." + scope.column + " = " + b.bind(v) // a digest is no proof
		}
	}
	if sample {
		groups = sampled(groups)
	}
	n := 0
	err := f.l.engine.seek(ctx, f.l.dialect.candidates(s, f.l.dialect.wanted(groups), condition, candidates, &b), b.args, func(scan scanner) error {
		n++
		var id, name, words string
		if err := scan(&id, &name, &words); err != nil {
			return err
		}
		if rank, ok := f.match.Rank(name, words); ok {
			ref := ledger.Ref{Kind: kind, ID: id}
			f.found[ref] = ledger.Found{Object: ledger.Object{Ref: ref, Name: name}, Rank: rank}
		}
		return nil
	})
	return n, err
}

// sampled asks for the same in the sample.
func sampled(groups [][]term) [][]term {
	out := make([][]term, len(groups))
	for i, group := range groups {
		for _, t := range group {
			out[i] = append(out[i], term{word: markSample + t.word, begins: t.begins})
		}
	}
	return out
}

// best reads the objects that rank highest.
func (f *finding) best(ctx context.Context) ([]ledger.Found, error) {
	all := slices.SortedFunc(maps.Values(f.found), func(a, b ledger.Found) int {
		return cmp.Or(cmp.Compare(b.Rank, a.Rank), strings.Compare(a.Name, b.Name), compareRef(a.Ref, b.Ref))
	})
	all = all[:min(len(all), f.search.Limit)]
	ids := map[string][]any{}
	for _, x := range all {
		ids[x.Kind] = append(ids[x.Kind], x.ID)
	}
	objects, err := f.l.objects(ctx, ids)
	if err != nil {
		return nil, err
	}
	var out []ledger.Found
	for _, x := range all {
		o := objects[x.Ref.String()]
		if o == nil || !o.Deleted.IsZero() || !within(o, f.search.Scope) { // it may have changed meanwhile
			continue
		}
		out = append(out, ledger.Found{Object: *o, Rank: x.Rank})
	}
	return out, nil
}

func within(o *ledger.Object, scope map[string]any) bool {
	for column, v := range scope {
		if o.Value(column) != v {
			return false
		}
	}
	return true
}
