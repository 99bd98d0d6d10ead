package sqlledger

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// arrays turns rows into one array per column.
func arrays(cs []column, rows [][]any) []any {
	out := make([]any, len(cs))
	for c := range cs {
		if cs[c].text {
			v := make([]string, len(rows))
			for i, row := range rows {
				v[i] = row[c].(string)
			}
			out[c] = v
		} else {
			v := make([]int64, len(rows))
			for i, row := range rows {
				v[i] = row[c].(int64)
			}
			out[c] = v
		}
	}
	return out
}

// unnest is the arrays as a table.
func unnest(cs []column, first int) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = fmt.Sprintf("$%d::%s", first+i, map[bool]string{true: "text[]", false: "bigint[]"}[c.text])
	}
	return "unnest(" + strings.Join(parts, ", ") + ")"
}

// given selects the columns of unnest, in the types of the table.
func given(cs []column) string {
	casts := false
	parts := make([]string, len(cs))
	for i, c := range cs {
		if parts[i] = "u." + c.name; c.cast != "" {
			parts[i], casts = parts[i]+"::"+c.cast, true
		}
	}
	if !casts {
		return "*"
	}
	return strings.Join(parts, ", ")
}

// sql writes the statement that handles all rows at once; op -1 loads and locks
// them in the order of their keys.
func (e *pg) sql(k stmtKey) string {
	if sql, ok := e.texts[k]; ok {
		return sql
	}
	t := k.table
	key := t.columns[:t.key]
	into := "INSERT INTO " + t.name + " (" + names(t.columns, "") + ") SELECT " + given(t.columns) + " FROM " + unnest(t.columns, 1) + " AS u (" + names(t.columns, "") + ")"
	conflict := " ON CONFLICT (" + names(key, "") + ") DO UPDATE SET "
	sql := into
	switch k.op {
	case update:
		sql = "UPDATE " + t.name + " AS t SET " + pairs(t.columns[t.key:], "", "u.", ", ") + " FROM " + unnest(t.columns, 1) +
			" AS u (" + names(t.columns, "") + ") WHERE " + pairs(key, "t.", "u.", " AND ")
	case upsert:
		if t.key == len(t.columns) {
			sql += " ON CONFLICT DO NOTHING"
			break
		}
		sql += conflict + pairs(t.columns[t.key:], "", "excluded.", ", ")
	case add:
		last := t.columns[len(t.columns)-1].name
		sql += conflict + last + " = " + t.name + "." + last + " + excluded." + last
	case remove:
		sql = "DELETE FROM " + t.name + " AS t USING " + unnest(key, 1) + " AS u (" + names(key, "") + ") WHERE " + pairs(key, "t.", "u.", " AND ")
	case appendLog:
		rest := t.columns[2:]
		sql = "WITH h AS (UPDATE head SET seq = seq + $1, at = greatest(at, $2) RETURNING seq - $1 AS base, at), " +
			"l AS (INSERT INTO " + t.name + " (seq, at, " + names(rest, "") + ") SELECT h.base + u.n, h.at, " + names(rest, "u.") +
			" FROM h, " + unnest(rest, 3) + " WITH ORDINALITY AS u (" + names(rest, "") + ", n)) SELECT base FROM h"
	case -1:
		sql = "SELECT " + names(t.columns, "t.") + " FROM " + unnest(key, 1) + " WITH ORDINALITY AS u (" + names(key, "") + ", n) JOIN " +
			t.name + " AS t ON " + pairs(key, "t.", "u.", " AND ") + " ORDER BY u.n FOR UPDATE OF t"
	}
	e.texts[k] = sql
	return sql
}

// lostConnection reports whether an error says nothing about the statement.
func lostConnection(err error) bool {
	if fault.Is(err, fault.Unavailable) {
		return false
	}
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return strings.HasPrefix(e.Code, "57P") || strings.HasPrefix(e.Code, "08") || e.Code == "25P03"
	}
	var c *pgconn.ConnectError
	return !errors.As(err, &c)
}

// overtaken reports whether a standby gave a read up for what it had to replay.
func overtaken(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "40001"
}

// readError gives the error of a read its kind: nobody else was faster than a read.
func readError(err error) error {
	if overtaken(err) {
		return fault.New(fault.Unavailable, "the standby gave the query up for what it had to replay: %w (hot_standby_feedback = on avoids that)", err)
	}
	return pgError(err, false)
}

// whereabouts adds to the error of one who starts, and finds no database, where it was
// looked for; nothing else of the URL. Later ones have no host in them: users may read
// what comes of those.
func whereabouts(url string, err error) error {
	if !onPostgres(url) || fault.Reason(err) != "database-away" {
		return err
	}
	config, wrong := pgconn.ParseConfig(url)
	if wrong != nil {
		return err
	}
	var at []string
	add := func(host string, port uint16) {
		if !strings.HasPrefix(host, "/") { // the directory of a socket
			host = net.JoinHostPort(host, strconv.Itoa(int(port)))
		}
		if !slices.Contains(at, host) {
			at = append(at, host)
		}
	}
	add(config.Host, config.Port)
	for _, f := range config.Fallbacks {
		add(f.Host, f.Port)
	}
	return fault.New(fault.Unavailable, "%w (%s, which --database names)", err, strings.Join(at, ", ")).Because("database-away")
}

// unconnected says why, without the host and the rest of the configuration
// that the driver's own text repeats.
func unconnected(err error) string {
	var refusal *pgconn.PgError
	var network *net.OpError
	switch {
	case errors.As(err, &refusal):
		return refusal.Message
	case errors.As(err, &network):
		return network.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "its address, its port or its TLS settings are not those of --database"
}

// pgError gives an error its kind.
func pgError(err error, committing bool) error {
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	away := func(unknown bool) error {
		reason := "database-away"
		if unknown {
			reason = ledger.ReasonUnknown
		}
		return fault.New(fault.Unavailable, "the database is away: %w", err).Because(reason)
	}
	var c *pgconn.ConnectError
	if errors.As(err, &c) {
		return fault.New(fault.Unavailable, "cannot connect to the database: %s", unconnected(err)).Because("database-away")
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return away(committing && !pgconn.SafeToRetry(err))
	}
	switch {
	case e.Code == "23505" || e.Code == "40001" || e.Code == "40P01" || e.Code == "55P03":
		return clash{err}
	case strings.HasPrefix(e.Code, "57P") || strings.HasPrefix(e.Code, "08") || e.Code == "25P03":
		return away(committing)
	case e.Code == "53100":
		return fault.New(fault.Unavailable, "the disk is full: %w", err).Because("disk-full")
	case strings.HasPrefix(e.Code, "53") || strings.HasPrefix(e.Code, "57") || strings.HasPrefix(e.Code, "58") || e.Code == "25006":
		return away(false)
	}
	return err
}
