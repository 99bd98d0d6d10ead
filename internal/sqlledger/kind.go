package sqlledger

import (
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// store is a kind with its tables.
type store struct {
	kind   ledger.Kind
	table  *table
	texts  *table         // nil if the kind has no searched texts
	words  *table         // nil if the kind is not searched
	field  map[string]int // position of each declared field in kind.Fields
	scope  []string       // the columns that most lists are limited to
	first  int            // position of the first field in table.columns
	links  int            // position of the links, 0 if the kind is not linked
	word   int            // position of the words, 0 if the kind is not searched
	get    string         // reads one object by its id
	gather gather
	// readings that are used no more, for those that take no longer than to make one.
	readings sync.Pool

	// Names of the covering index of the scope, and of the indexes over
	// everything in the order of a column.
	cover  string
	orders map[string]string
}

// Positions in an object table, in front of the fields.
const (
	colID = iota
	colOrg
	colOwner
	colName
	colPhase
	colParent
	colGeneration
	colVersion
	colCreated
	colUpdated
	colDeleted
	colPresent // which fields are not null, sorted, separated by commas
	colView
	colLabels
	colSpec
	colStatus
	colFields
)

var identifier = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// maxIndexed bounds the searchable texts of one object together: a covering
// index entry must fit a third of a PostgreSQL page.
const maxIndexed = 2300

func newStore(k ledger.Kind) (*store, error) {
	if !identifier.MatchString(k.Name) {
		return nil, fault.New(fault.Invalid, "%q cannot be the name of a kind: lower case letters, digits and _", k.Name)
	}
	s := &store{kind: k, field: map[string]int{}, first: colFields}
	s.table = &table{name: "object_" + k.Name, key: 1, columns: concat(
		text("id", "org", "owner", "name", "phase", "parent"),
		whole("generation", "version", "created", "updated", "deleted"),
		text("present", "view", "labels", "spec", "status"))}
	if k.Linked {
		s.links, s.first = s.first, s.first+1
		s.table.columns = append(s.table.columns, text("links")...)
	}
	if k.Searched {
		s.word, s.first = s.first, s.first+1
		s.table.columns = append(s.table.columns, text("words")...)
		s.words = &table{name: "words_" + k.Name, key: 1, of: s.table, columns: concat(text("id"), []column{{name: "tokens", text: true, cast: "tsvector"}})}
	}
	for i, f := range k.Fields {
		if _, clash := ledger.Columns[f.Name]; clash || !identifier.MatchString(f.Name) || f.Type < ledger.Text || f.Type > ledger.Time {
			return nil, fault.New(fault.Invalid, "kind %s: %q cannot be the name of a field", k.Name, f.Name)
		}
		if _, twice := s.field[f.Name]; twice {
			return nil, fault.New(fault.Invalid, "kind %s declares field %q twice", k.Name, f.Name)
		}
		s.field[f.Name] = i
		s.table.columns = append(s.table.columns, column{name: "f_" + f.Name, text: f.Type == ledger.Text})
	}
	for _, scope := range k.Totals {
		for _, c := range scope {
			if _, ok := k.Column(c); !ok {
				return nil, fault.New(fault.Invalid, "kind %s totals column %q, which it does not have", k.Name, c)
			}
		}
	}
	for _, c := range k.Scope {
		if _, ok := k.Column(c); !ok {
			return nil, fault.New(fault.Invalid, "kind %s is listed by column %q, which it does not have", k.Name, c)
		}
	}
	for _, c := range k.Lookup {
		if _, ok := k.Column(c); !ok {
			return nil, fault.New(fault.Invalid, "kind %s looks objects up by column %q, which it does not have", k.Name, c)
		}
	}
	if s.scope = k.Scope; len(s.scope) == 0 {
		s.scope = []string{"org"}
	}
	if slices.Contains(s.scope, "org") { // in front it also serves lists of an organisation's everything
		s.scope = append([]string{"org"}, slices.DeleteFunc(slices.Clone(s.scope), func(c string) bool { return c == "org" })...)
	}
	s.get = "SELECT " + s.selected(false, "") + " FROM " + s.table.name + " WHERE id = $1"
	if len(s.table.columns) > 63 {
		return nil, fault.New(fault.Invalid, "kind %s declares too many fields", k.Name)
	}
	if len(k.Text) > 0 {
		s.texts = &table{name: "text_" + k.Name, key: 1, columns: text("id"), of: s.table}
		for _, c := range k.Text {
			if t, ok := k.Column(c); !ok || t != ledger.Text || c == "id" {
				return nil, fault.New(fault.Invalid, "kind %s: %q is not a text column to search", k.Name, c)
			}
			s.texts.columns = append(s.texts.columns, column{name: s.column(c), text: true})
		}
	}
	return s, nil
}

// column is the name of a kind's column in its table.
func (s *store) column(name string) string {
	if _, ok := s.field[name]; ok {
		return "f_" + name
	}
	return name
}

// lookups lists the columns with an index of their own to find few objects by.
func (s *store) lookups() []string { return append([]string{"parent"}, s.kind.Lookup...) }

// zero is the SQL literal that a null field is stored as: what it compares like.
func zero(t ledger.Type) string {
	switch t {
	case ledger.Text:
		return "''"
	case ledger.Time:
		return fmt.Sprint(micros(noTime))
	}
	return "0"
}

// indexes lists the kind's indexes by name, and remembers the chief ones.
//
// Lists are paged within a scope, by any column. One covering index per scope
// lets any such page, filter and total be answered by reading the scope's
// entries (ten thousand in a few milliseconds) and costs one entry per write,
// where an index per column would cost one each. Only the usual orders have
// their own.
func (s *store) indexes(d *dialect) map[string]string {
	var scope, order []string
	for _, c := range s.scope {
		scope = append(scope, s.column(c))
	}
	rest := []string{"name", "phase", "created", "updated", "owner", "parent", "org"}
	for _, c := range s.table.columns[s.first:] {
		rest = append(rest, c.name)
	}
	for _, c := range rest {
		if !slices.Contains(scope, c) && len(scope)+1+len(order) < 30 {
			order = append(order, c)
		}
	}
	out := map[string]string{}
	index := func(key, include []string) string {
		columns := d.covering(key, include)
		sum := sha256.Sum256([]byte(columns))
		name := fmt.Sprintf("ix_%s_%x", s.kind.Name, sum[:5])
		out[name] = fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s %s WHERE deleted = 0", name, s.table.name, columns)
		return name
	}
	s.cover, s.orders = index(append(slices.Clone(scope), "id"), order), map[string]string{}
	for _, c := range []string{"created", "name"} {
		index(append(slices.Clone(scope), c, "id"), nil)
		s.orders[c] = index([]string{c, "id"}, nil)
	}
	for _, c := range s.lookups() {
		index([]string{s.column(c), "id"}, nil)
	}
	return out
}

// prepare creates what a kind lacks in the database: only ever adding.
func (l *Ledger) prepare(ctx context.Context, s *store) error {
	if err := l.engine.load(ctx, l.dialect.lockSchema()); err != nil {
		return err
	}
	defer l.engine.abandon()
	declared := map[string]string{}
	indexes := map[string]bool{}
	err := l.engine.load(ctx, []query{
		{sql: "SELECT what, type FROM declared WHERE kind = $1", args: []any{s.kind.Name}, each: func(scan scanner) error {
			var what, typ string
			err := scan(&what, &typ)
			declared[what] = typ
			return err
		}},
		{sql: l.dialect.listIndexes, args: []any{s.table.name}, each: func(scan scanner) error {
			var name string
			err := scan(&name)
			indexes[name] = true
			return err
		}},
	})
	if err != nil {
		return err
	}
	var todo []statement
	do := func(o op, sql string, args ...any) { todo = append(todo, statement{op: o, sql: sql, args: args}) }
	declare := func(what, typ string) {
		do(raw, "INSERT INTO declared (kind, what, type) VALUES ($1, $2, $3)", s.kind.Name, what, typ)
	}
	if _, ok := declared["table"]; !ok {
		do(define, l.dialect.createObjects(s.table.name, s.table.columns[:colFields]))
		declare("table", "")
	}
	for _, c := range s.table.columns[colFields:s.first] {
		if _, ok := declared[c.name]; !ok {
			sql, _ := l.dialect.render(fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s {text} NOT NULL DEFAULT ''", s.table.name, c.name))
			do(define, sql)
			declare(c.name, "")
		}
	}
	for _, f := range s.kind.Fields {
		typ, ok := declared["field "+f.Name]
		if ok && typ != fmt.Sprint(int(f.Type)) {
			return fault.New(fault.Conflict, "field %q of kind %s has another type in the database", f.Name, s.kind.Name)
		}
		if !ok {
			sql, _ := l.dialect.render(fmt.Sprintf("ALTER TABLE %s ADD COLUMN f_%s %s NOT NULL DEFAULT %s",
				s.table.name, f.Name, map[bool]string{true: "{text}", false: "{int}"}[f.Type == ledger.Text], zero(f.Type)))
			do(define, sql)
			declare("field "+f.Name, fmt.Sprint(int(f.Type)))
		}
	}
	wanted := s.indexes(l.dialect)
	for name, sql := range wanted {
		if !indexes[name] {
			do(define, sql)
		}
	}
	for name := range indexes {
		if strings.HasPrefix(name, "ix_"+s.kind.Name+"_") && wanted[name] == "" {
			do(define, "DROP INDEX IF EXISTS "+name)
		}
	}
	if s.texts != nil {
		what := "text " + strings.Join(s.kind.Text, ",")
		if !l.dialect.trigram {
			what += " unindexed" // made anew once there is an index
		}
		if _, ok := declared[what]; !ok {
			for _, sql := range l.dialect.createTexts(s) {
				do(define, sql)
			}
			do(raw, "DELETE FROM declared WHERE kind = $1 AND what LIKE 'text %'", s.kind.Name)
			declare(what, "")
		}
	}
	var recount [][]string
	for _, scope := range s.kind.Totals {
		if what := "total " + strings.Join(scope, ","); declared[what] == "" {
			recount = append(recount, scope)
		}
	}
	if err := l.engine.save(ctx, todo, false); err != nil {
		return err
	}
	for _, scope := range recount {
		if err := l.recount(ctx, s, scope); err != nil {
			return err
		}
	}
	if _, ok := declared[indexedWords]; s.words != nil && !ok {
		return l.index(ctx, s)
	}
	return nil
}

// recount fills the totals of a newly declared scope from the objects that are
// there, with writers kept out meanwhile.
func (l *Ledger) recount(ctx context.Context, s *store, scope []string) error {
	columns := []string{"1"}
	for _, c := range scope {
		columns = append(columns, s.column(c))
	}
	group := strings.Join(columns, ", ")
	if group != "1" {
		group = strings.TrimPrefix(group, "1, ")
	}
	what := "total " + strings.Join(scope, ",")
	var rows [][]any
	counted := false // by a replica that started at the same time
	err := l.engine.load(ctx, append(concat(l.dialect.lockSchema(), l.dialect.lockTable(s.table.name)), query{
		sql: "SELECT count(*) FROM declared WHERE kind = $1 AND what = $2", args: []any{s.kind.Name, what},
		each: func(scan scanner) error {
			var n int64
			err := scan(&n)
			counted = n > 0
			return err
		},
	}, query{
		sql: fmt.Sprintf("SELECT %s, count(*) FROM %s WHERE deleted = 0 GROUP BY %s", strings.Join(columns, ", "), s.table.name, group),
		each: func(scan scanner) error {
			var one, n int64
			values := map[string]any{}
			dest := []any{&one}
			for _, c := range scope {
				if t, _ := s.kind.Column(c); t == ledger.Text {
					values[c] = new(string)
				} else {
					values[c] = new(int64)
				}
				dest = append(dest, values[c])
			}
			if err := scan(append(dest, &n)...); err != nil {
				return err
			}
			key := ledger.TotalKey(s.kind.Name, scope, func(c string) any {
				t, _ := s.kind.Column(c)
				return fieldValue(t, values[c])
			})
			rows = append(rows, []any{key, n})
			return nil
		},
	}))
	defer l.engine.abandon()
	if err != nil || counted {
		return err
	}
	return l.engine.save(ctx, []statement{
		{op: upsert, table: totalTable, rows: rows},
		{op: raw, sql: "INSERT INTO declared (kind, what, type) VALUES ($1, $2, 'kept')",
			args: []any{s.kind.Name, what}},
	}, false)
}
