package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// sql writes the statement that handles one row; op -1 loads it.
func (k stmtKey) sql() string {
	t := k.table
	match := make([]string, t.key)
	for i := range match {
		match[i] = fmt.Sprintf("%s = $%d", t.columns[i].name, i+1)
	}
	where := " WHERE " + strings.Join(match, " AND ")
	into := t.name + " (" + names(t.columns, "") + ") VALUES (" + params(1, len(t.columns)) + ")"
	conflict := " ON CONFLICT (" + names(t.columns[:t.key], "") + ") DO UPDATE SET "
	switch k.op {
	case update:
		var sets []string
		for c := t.key; c < len(t.columns); c++ {
			if k.changed&(1<<c) != 0 {
				sets = append(sets, fmt.Sprintf("%s = $%d", t.columns[c].name, t.key+len(sets)+1))
			}
		}
		return "UPDATE " + t.name + " SET " + strings.Join(sets, ", ") + where
	case upsert:
		if t.of != nil {
			return "INSERT OR REPLACE INTO " + t.name + " (rowid, " + names(t.columns[1:], "") + ") VALUES ((SELECT number FROM " +
				t.of.name + " WHERE id = $1), " + params(2, len(t.columns)-1) + ")"
		}
		if t.key == len(t.columns) {
			return "INSERT OR IGNORE INTO " + into
		}
		return "INSERT INTO " + into + conflict + pairs(t.columns[t.key:], "", "excluded.", ", ")
	case add:
		last := t.columns[len(t.columns)-1].name
		return "INSERT INTO " + into + conflict + last + " = " + t.name + "." + last + " + excluded." + last
	case remove:
		if t.of != nil {
			where = " WHERE rowid = (SELECT number FROM " + t.of.name + " WHERE id = $1)"
		}
		return "DELETE FROM " + t.name + where
	case insert:
		return "INSERT INTO " + into
	}
	return "SELECT " + names(t.columns, "") + " FROM " + t.name + where
}

// liteError gives an error its kind. After a failed flush nobody knows whether
// the commit will be there after a crash; a full disk is noticed before.
func liteError(err error, committing bool) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.New(fault.Unavailable, "the database did not answer in time: %w", err).Because("database-away")
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		if errors.Is(err, sql.ErrConnDone) || err.Error() == "sql: database is closed" { // which has no name of its own
			return fault.New(fault.Unavailable, "the ledger is closed: %w", err)
		}
		return err
	}
	switch e.Code() & 0xff {
	case 13: // SQLITE_FULL
		return fault.New(fault.Unavailable, "the disk is full: %w", err).Because("disk-full")
	case 10: // SQLITE_IOERR
		reason := "disk-fails"
		if committing {
			reason = ledger.ReasonUnknown
		}
		return fault.New(fault.Unavailable, "the disk fails: %w", err).Because(reason)
	case 5, 6, 9, 14: // BUSY, LOCKED, INTERRUPT, CANTOPEN
		return fault.New(fault.Unavailable, "the database is not available: %w", err).Because("database-away")
	}
	return err
}
