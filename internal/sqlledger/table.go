package sqlledger

import (
	"fmt"
	"strings"
)

// column is a column of one of the two types that both databases agree on.
type column struct {
	name string
	text bool // else a 64-bit integer
	// cast is PostgreSQL's type of a column that is written as text and never read.
	cast string
}

// table is what bulk loads and writes need to know. The first key columns are
// its primary key.
type table struct {
	name    string
	key     int
	columns []column
	of      *table // the table whose texts this one indexes, nil for ordinary tables
}

func text(names ...string) []column  { return columns(true, names) }
func whole(names ...string) []column { return columns(false, names) }

func columns(text bool, names []string) []column {
	var out []column
	for _, n := range names {
		out = append(out, column{name: n, text: text})
	}
	return out
}

func concat[T any](parts ...[]T) []T {
	var out []T
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// names lists columns, each with a prefix.
func names(cs []column, prefix string) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = prefix + c.name
	}
	return strings.Join(parts, ", ")
}

// pairs joins "a.x = b.x" for columns.
func pairs(cs []column, left, right, separator string) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = left + c.name + " = " + right + c.name
	}
	return strings.Join(parts, separator)
}

// params numbers parameters from first: "$2, $3".
func params(first, n int) string {
	parts := make([]string, n)
	for i := range n {
		parts[i] = fmt.Sprintf("$%d", first+i)
	}
	return strings.Join(parts, ", ")
}

// scanner reads the columns of the present row.
type scanner func(dest ...any) error

// query is one read within a write transaction: of rows by their keys, locked
// in the order given, or whatever sql says.
type query struct {
	table *table
	keys  [][]any
	sql   string
	args  []any
	each  func(scan scanner) error
	known bool // what it would read, as long as no one else has written
}

type op int

const (
	insert    op = iota // rows that must not exist
	update              // rows that exist
	upsert              // rows that may
	remove              // rows hold keys only
	add                 // like upsert, but adds the last column to what is there
	raw                 // sql with args
	define              // sql that changes the schema
	appendLog           // rows of the log without seq and at
)

// statement is one write within a transaction.
type statement struct {
	op      op
	table   *table
	rows    [][]any
	changed []uint64 // for update: per row, which columns are new; nil = all
	sql     string
	args    []any

	base *logBase // for appendLog
}

// logBase is behind which sequence, and with which time, an append to the log
// goes. Where others append too it is what the head said when it was read: the
// engine then puts in the sequence that it was given.
type logBase struct{ seq, at int64 }
