package sqlledger

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// engine is a database as the rest of the package sees it. Its errors are
// faults where it can tell (Unavailable), a clash where another replica was
// faster and the transaction may be tried again, and anything else otherwise.
type engine interface {
	reads
	// load opens the write transaction unless it is open, and reads in it.
	load(ctx context.Context, queries []query) error
	// save writes and commits, and hints at it to other replicas if told to.
	// After an error, abandon.
	save(ctx context.Context, statements []statement, hint bool) error
	// abandon ends an open transaction without effect.
	abandon()
	close()
}

// reads go on beside the write transaction.
type reads interface {
	// read runs a query outside the write transaction.
	read(ctx context.Context, sql string, args []any, each func(scan scanner) error) error
	// seek is a read that must go through indexes, whatever the planner hopes for.
	seek(ctx context.Context, sql string, args []any, each func(scan scanner) error) error
	// row is one that is known without a read, by its key; nil: that there is none.
	row(t *table, key []any) (scan scanner, known bool)
}

// clash is an error after which the same transaction may succeed.
type clash struct{ error }

func (c clash) Unwrap() error { return c.error }

// dialect is how the databases differ in what they are asked.
type dialect struct {
	name                     string // of its own lines in migrations
	text, whole, bytes       string // column types; texts compare byte by byte
	compact                  string // table option: rows live in the primary key
	tableExists, listIndexes string
	lock                     []string // takes the schema lock until the transaction ends; none = always held
	lockTables               string   // keeps writers of a table out, likewise
	fence                    string   // a new token; "0" = taken from the head row
	skipLocked               string
	locked                   string // keeps others from rows that are read in a transaction
	clock                    string // the time in microseconds; "" = the program's
	rowNumber                string // extra column of object tables
	trigram                  bool
	alone                    bool   // no other process writes
	scrub                    string // has what was overwritten leave its files; "": the database does in time
}

var postgresDialect = dialect{
	name: "pg", text: `TEXT COLLATE "C"`, whole: "BIGINT", bytes: "BYTEA",
	tableExists: "SELECT count(*) FROM pg_class WHERE oid = to_regclass($1)",
	listIndexes: "SELECT indexname::text FROM pg_indexes WHERE tablename = $1 AND schemaname = current_schema()",
	// Making an index of a million rows, or waiting for the replica that does,
	// takes as long as it takes: giving up would be for ever.
	lock: []string{"SET LOCAL statement_timeout = 0", "SET LOCAL idle_in_transaction_session_timeout = 0",
		"SELECT 1 FROM (SELECT pg_advisory_xact_lock(7236848)) AS l"},
	lockTables: "LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE",
	fence:      "nextval('fence')", skipLocked: "FOR UPDATE SKIP LOCKED", locked: " FOR UPDATE",
	clock: "(SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)",
}

var sqliteDialect = dialect{
	name: "lite", text: "TEXT", whole: "INTEGER", bytes: "BLOB", compact: " WITHOUT ROWID",
	tableExists: "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = $1",
	listIndexes: "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = $1",
	fence:       "0", rowNumber: "number INTEGER PRIMARY KEY, ", trigram: true, alone: true,
	scrub: "PRAGMA wal_checkpoint(TRUNCATE)",
}

// connect opens the database that the URL names.
func connect(ctx context.Context, c Config, changed func()) (engine, *dialect, error) {
	switch scheme, rest, found := strings.Cut(c.URL, "://"); {
	case onPostgres(c.URL):
		d := postgresDialect
		e, err := openPostgres(ctx, c, changed)
		if err != nil {
			return nil, nil, err
		}
		d.trigram = e.trigram
		return e, &d, nil
	case found && scheme == "sqlite":
		d := sqliteDialect
		e, err := openSQLite(ctx, rest, c.ReadOnly)
		return e, &d, err
	case found:
		return nil, nil, fault.New(fault.Invalid, "cannot keep a ledger in %q: use sqlite:///path or postgres://...", scheme+"://")
	case c.URL == "":
		return nil, nil, fault.New(fault.Invalid, "a ledger needs the URL of its database")
	}
	d := sqliteDialect
	e, err := openSQLite(ctx, c.URL, c.ReadOnly)
	return e, &d, err
}

func onPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

func (d *dialect) lockSchema() []query {
	var out []query
	for _, sql := range d.lock {
		out = append(out, query{sql: sql})
	}
	return out
}

func (d *dialect) lockTable(name string) []query {
	if d.lockTables == "" {
		return nil
	}
	return []query{{sql: fmt.Sprintf(d.lockTables, name)}}
}

// covering lists an index's columns: the key, and what is only stored along.
func (d *dialect) covering(key, include []string) string {
	switch {
	case len(include) == 0:
		return "(" + strings.Join(key, ", ") + ")"
	case d.name == "pg":
		return "(" + strings.Join(key, ", ") + ") INCLUDE (" + strings.Join(include, ", ") + ")"
	}
	return "(" + strings.Join(concat(key, include), ", ") + ")"
}

func (d *dialect) createObjects(name string, cs []column) string {
	var parts []string
	for i, c := range cs {
		part := c.name + " " + map[bool]string{true: d.text, false: d.whole}[c.text] + " NOT NULL"
		if i == 0 && d.rowNumber == "" {
			part += " PRIMARY KEY"
		} else if i == 0 {
			part += " UNIQUE"
		}
		parts = append(parts, part)
	}
	return "CREATE TABLE " + name + " (" + d.rowNumber + strings.Join(parts, ", ") + ")"
}

// createTexts makes the trigram index of a kind's searched texts. It is a table
// apart, so that a transition that leaves the texts alone does not touch it.
func (d *dialect) createTexts(s *store) []string {
	t, cs := s.texts.name, names(s.texts.columns[1:], "")
	if d.name == "lite" {
		return []string{
			"DROP TABLE IF EXISTS " + t,
			"CREATE VIRTUAL TABLE " + t + " USING fts5(" + cs + ", content='', contentless_delete=1, tokenize='trigram')",
			"INSERT INTO " + t + " (rowid, " + cs + ") SELECT number, " + cs + " FROM " + s.table.name,
		}
	}
	out := []string{
		"DROP TABLE IF EXISTS " + t,
		"CREATE TABLE " + t + " (id " + d.text + " PRIMARY KEY, " + strings.ReplaceAll(cs, ",", " "+d.text+" NOT NULL,") + " " + d.text + " NOT NULL)",
		"INSERT INTO " + t + " (id, " + cs + ") SELECT id, " + cs + " FROM " + s.table.name,
	}
	if d.trigram {
		out = append(out, "CREATE INDEX ON "+t+" USING gin ("+strings.ReplaceAll(cs, ",", " gin_trgm_ops,")+" gin_trgm_ops)")
	}
	return out
}

// createWords makes the index of a searched kind: words as they are, without the
// database's own idea of a language, so that both find the same.
func (d *dialect) createWords(s *store) []string {
	t := s.words.name
	if d.name == "lite" {
		return []string{
			"CREATE VIRTUAL TABLE IF NOT EXISTS " + t + " USING fts5(tokens, content='', contentless_delete=1, detail=none, tokenize='ascii')",
		}
	}
	return []string{
		"CREATE TABLE IF NOT EXISTS " + t + " (id " + d.text + " PRIMARY KEY, tokens tsvector NOT NULL)",
		// What was just written waits in a list that every search reads: keep it short.
		"CREATE INDEX IF NOT EXISTS " + t + "_tokens ON " + t + " USING gin (tokens) WITH (gin_pending_list_limit = 512)",
	}
}

// tokens writes the words of one object for the index.
func (d *dialect) tokens(words []string) string {
	if d.name == "lite" {
		return strings.Join(words, " ")
	}
	return "'" + strings.Join(words, "' '") + "'"
}

// wanted writes what to look for: of each group, one must be there. The words
// hold letters and digits alone.
func (d *dialect) wanted(groups [][]term) string {
	quote, or, and, begins := "'", " | ", " & ", ":*"
	if d.name == "lite" {
		quote, or, and, begins = `"`, " OR ", " AND ", " *"
	}
	all := make([]string, len(groups))
	for i, group := range groups {
		parts := make([]string, len(group))
		for j, t := range group {
			if parts[j] = quote + t.word + quote; t.begins {
				parts[j] += begins
			}
		}
		all[i] = "(" + strings.Join(parts, or) + ")"
	}
	return strings.Join(all, and)
}

// candidates reads the names and words of a bounded number of objects that the
// index finds. The condition is about o.
func (d *dialect) candidates(s *store, wanted, condition string, limit int, b *binder) string {
	const form = "SELECT o.id, o.name, o.words FROM (SELECT %s AS at FROM %s WHERE %s LIMIT %s) AS c CROSS JOIN %s AS o WHERE %s = c.at AND o.deleted = 0%s"
	t := s.words.name
	if d.name == "lite" {
		return fmt.Sprintf(form, "rowid", t, t+" MATCH "+b.bind(wanted)+" ORDER BY rowid DESC", b.bind(int64(limit)), s.table.name, "o.number", condition)
	}
	return fmt.Sprintf(form, "id", t, "tokens @@ CAST("+b.bind(wanted)+" AS tsquery)", b.bind(int64(limit)), s.table.name, "o.id", condition)
}

// reach lists the edges, from near to far, of the ends that are nearest to one:
// breadth first, each end's in the order of the index. Ends are told apart by
// their name alone, so that circles end. Of one end no more edges are read than
// ends are wanted. It is PostgreSQL's: in SQLite a query is no round trip, see
// stepping.
func reach(near, far, from string, limit int, b *binder) string {
	start, most := b.bind(from), b.bind(int64(limit))
	few := fmt.Sprintf("LATERAL (SELECT %[2]s AS far FROM edges WHERE %[1]s = r.at ORDER BY %[2]s LIMIT %[3]s) AS x", near, far, most)
	return fmt.Sprintf(`WITH RECURSIVE r (at) AS (SELECT CAST(%s AS TEXT) COLLATE "C" UNION SELECT x.far FROM r CROSS JOIN %s)
		SELECT r.at, x.far FROM (SELECT at FROM r LIMIT %s) AS r CROSS JOIN %s`, start, few, most, few)
}

// among tests membership of a list with one parameter, however long it is.
func (d *dialect) among(column string, values []any, text bool, b *binder) string {
	if d.name == "lite" {
		list, _ := json.Marshal(values) // strings and numbers only
		return column + " IN (SELECT value FROM json_each(" + b.bind(string(list)) + "))"
	}
	if text {
		list := make([]string, len(values))
		for i, v := range values {
			list[i] = v.(string)
		}
		return column + " = ANY(" + b.bind(list) + ")"
	}
	list := make([]int64, len(values))
	for i, v := range values {
		list[i] = v.(int64)
	}
	return column + " = ANY(" + b.bind(list) + ")"
}

// matches tests a text against a pattern.
func (d *dialect) matches(column string, p pattern, fold bool, b *binder) string {
	switch {
	case d.name == "pg" && fold:
		return column + " ILIKE " + b.bind(p.like())
	case d.name == "pg":
		return column + " LIKE " + b.bind(p.like())
	case fold:
		return column + " LIKE " + b.bind(p.like()) + ` ESCAPE '\'`
	}
	return column + " GLOB " + b.bind(p.glob())
}

// narrows asks the trigram index for the objects that may match; "" if it
// cannot help.
func (d *dialect) narrows(s *store, column string, p pattern, fold bool, b *binder) string {
	run := p.longest()
	if !d.trigram || len([]rune(run)) < 3 {
		return ""
	}
	if d.name == "lite" {
		return fmt.Sprintf("number IN (SELECT rowid FROM %s WHERE %s MATCH %s)", s.texts.name, s.texts.name,
			b.bind(column+` : "`+strings.ReplaceAll(run, `"`, `""`)+`"`))
	}
	return fmt.Sprintf("id IN (SELECT id FROM %s WHERE %s)", s.texts.name, d.matches(column, p, fold, b))
}

// through names the index to use to a planner that has no statistics to choose
// by; "" leaves it the choice.
func (d *dialect) through(index string) string {
	if d.name == "lite" && index != "" {
		return " INDEXED BY " + index
	}
	return ""
}

// now is the time that leases and due times go by: the database's where
// several replicas share it.
func (d *dialect) now(b *binder, program func() time.Time) string {
	if d.clock != "" {
		return d.clock
	}
	return b.bind(micros(program()))
}

// binder collects the parameters of a query.
type binder struct{ args []any }

func (b *binder) bind(v any) string {
	b.args = append(b.args, v)
	return fmt.Sprintf("$%d", len(b.args))
}
