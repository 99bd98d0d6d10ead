package sqlledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/ledger"
)

// indexedWords is what the database says about a kind whose words are indexed.
// Another way to cut or mark them takes another name here, and other tables.
const indexedWords = "tokens 1"

// Marks tell in the index what a token is of. A search for a short beginning, or
// for a tenant's objects, is then a look at one list as well, and not at all the
// words that begin so or all the objects that have the word.
const (
	markName       = "n" // a word of the name
	markNameBegins = "h" // its first letters
	markWord       = "w" // one of the other words
	markWordBegins = "v"
	markWhole      = "e" // the whole name, as a digest
	markOrg        = "o" // likewise
	markOwner      = "u"
	markParent     = "p"

	markSample = "0" // before all of these: of an object in the sample

	maxBegins = 5  // letters; longer beginnings are looked for among the words
	oneIn     = 32 // objects, at random, is in the sample, which has lists of its own
)

// found lists the writes to edges and to the indexes of words. A transition that
// leaves them as they are writes nothing here.
func (b *batch) found(d *ledger.Decision) []statement {
	var refs []ledger.Ref
	for ref := range d.Objects {
		if s := b.l.stores[ref.Kind]; s.links > 0 || s.word > 0 {
			refs = append(refs, ref)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	slices.SortFunc(refs, compareRef)
	var out []statement
	gone, fresh := statement{op: remove, table: edgeTable}, statement{op: upsert, table: edgeTable}
	for len(refs) > 0 {
		s := b.l.stores[refs[0].Kind]
		less, more := statement{op: remove, table: s.words}, statement{op: upsert, table: s.words}
		for ; len(refs) > 0 && refs[0].Kind == s.kind.Name; refs = refs[1:] {
			w := d.Objects[refs[0]]
			before, after := edges(w.Before), edges(&w.Object)
			src := refs[0].String()
			for _, dst := range slices.Sorted(maps.Keys(before)) {
				if !after[dst] {
					gone.rows = append(gone.rows, []any{src, dst})
				}
			}
			for _, dst := range slices.Sorted(maps.Keys(after)) {
				if !before[dst] {
					fresh.rows = append(fresh.rows, []any{src, dst})
				}
			}
			switch {
			case s.words == nil || w.Before != nil && sameTokens(w.Before, &w.Object):
			case w.Deleted.IsZero():
				more.rows = append(more.rows, []any{w.ID, b.l.dialect.tokens(tokens(&w.Object))})
			case w.Before != nil:
				less.rows = append(less.rows, []any{w.ID})
			}
		}
		for _, st := range []statement{less, more} {
			if len(st.rows) > 0 {
				out = append(out, st)
			}
		}
	}
	for _, st := range []statement{gone, fresh} {
		if len(st.rows) > 0 {
			out = append(out, st)
		}
	}
	return out
}

// edges are the ends that an object leads to; none if it is gone.
func edges(o *ledger.Object) map[string]bool {
	if o == nil || len(o.Links) == 0 || !o.Deleted.IsZero() {
		return nil
	}
	out := make(map[string]bool, len(o.Links))
	for _, end := range o.Links {
		out[end] = true
	}
	return out
}

func sameTokens(a, b *ledger.Object) bool {
	return a.Deleted.IsZero() == b.Deleted.IsZero() && a.Name == b.Name && a.Words == b.Words &&
		a.Org == b.Org && a.Owner == b.Owner && a.Parent == b.Parent
}

// tokens are what the index holds of an object, each once.
func tokens(o *ledger.Object) []string {
	name := ledger.SplitWords(o.Name)
	out := []string{digest(markOrg, o.Org), digest(markOwner, o.Owner), digest(markParent, o.Parent), digest(markWhole, strings.Join(name, " "))}
	add := func(words []string, whole, begins string) {
		for _, w := range words {
			out = append(out, whole+w)
			n := 0
			for i := range w {
				if n++; n > 1 {
					out = append(out, begins+w[:i])
				}
				if n > maxBegins {
					break
				}
			}
			if n <= maxBegins {
				out = append(out, begins+w)
			}
		}
	}
	add(name, markName, markNameBegins)
	add(ledger.SplitWords(o.Words), markWord, markWordBegins)
	slices.Sort(out)
	out = slices.Compact(out)
	if crc32.ChecksumIEEE([]byte(o.ID))%oneIn == 0 {
		for _, t := range slices.Clone(out) {
			out = append(out, markSample+t)
		}
	}
	return out
}

// digest makes a token of any text.
func digest(mark, text string) string {
	sum := sha256.Sum256([]byte(text))
	return mark + hex.EncodeToString(sum[:8])
}

// index fills the index of a kind that has become one to be searched with the
// objects that are there. It goes through them page by page, each with writers
// kept out. A start that broke off is gone through again, and replicas that start
// at once each do it all: what is there already stays as it is.
func (l *Ledger) index(ctx context.Context, s *store) error {
	const page = 2000
	after := ""
	for first := true; ; first = false {
		queries := concat(l.dialect.lockSchema(), l.dialect.lockTable(s.table.name))
		indexed := false // by a replica that started at the same time
		queries = append(queries, query{
			sql: "SELECT count(*) FROM declared WHERE kind = $1 AND what = $2", args: []any{s.kind.Name, indexedWords},
			each: func(scan scanner) error {
				var n int64
				err := scan(&n)
				indexed = n > 0
				return err
			},
		})
		var rows [][]any
		seen := 0
		queries = append(queries, query{
			sql:  "SELECT id, org, owner, name, parent, words, deleted FROM " + s.table.name + " WHERE id > $1 ORDER BY id LIMIT $2",
			args: []any{after, int64(page)},
			each: func(scan scanner) error {
				var o ledger.Object
				var deleted int64
				err := scan(&o.ID, &o.Org, &o.Owner, &o.Name, &o.Parent, &o.Words, &deleted)
				if seen, after = seen+1, o.ID; deleted == 0 {
					rows = append(rows, []any{o.ID, l.dialect.tokens(tokens(&o))})
				}
				return err
			},
		})
		if err := l.engine.load(ctx, queries); err != nil || indexed {
			l.engine.abandon()
			return err
		}
		var todo []statement
		if first {
			for _, sql := range l.dialect.createWords(s) {
				todo = append(todo, statement{op: define, sql: sql})
			}
		}
		if len(rows) > 0 {
			todo = append(todo, statement{op: upsert, table: s.words, rows: rows})
		}
		if seen < page {
			todo = append(todo, statement{op: raw, sql: "INSERT INTO declared (kind, what, type) VALUES ($1, $2, '')", args: []any{s.kind.Name, indexedWords}})
		}
		if err := l.engine.save(ctx, todo, false); err != nil {
			l.engine.abandon()
			return err
		}
		if seen < page {
			return nil
		}
	}
}
