package sqlledger

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	_ "modernc.org/sqlite" // the driver

	"github.com/droverhq/drover/internal/fault"
)

// lite is a SQLite file: one connection that writes, a few that read.
type lite struct {
	lock    *flock.Flock
	writers *sql.DB
	conn    *sql.Conn
	readers *sql.DB
	open    bool // a transaction is
	foreign bool // before it somebody else has written

	statements map[stmtKey]*sql.Stmt // of conn; the committer's alone
	sqls       map[string]*sql.Stmt
	recent     recent

	mu      sync.Mutex
	queries map[string]*sql.Stmt // of readers
}

type stmtKey struct {
	table   *table
	op      op
	changed uint64
}

const (
	liteReaders = 8
	liteQueries = 512 // prepared, at most
	// lockPatience is for a process that was killed as it started a program: that holds the
	// lock until it is no copy of its parent any more.
	lockPatience = 2 * time.Second
)

func openSQLite(ctx context.Context, path string, present bool) (*lite, error) {
	path, options, _ := strings.Cut(path, "?")
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("cannot find the database's directory: %w", err)
	}
	if _, err := os.Stat(path); present && err != nil {
		return nil, fault.New(fault.NotFound, "there is no ledger at %s", path).Because("no-ledger")
	}
	e := &lite{lock: flock.New(path + ".lock"), statements: map[stmtKey]*sql.Stmt{}, sqls: map[string]*sql.Stmt{}, queries: map[string]*sql.Stmt{}}
	wait, stop := context.WithTimeout(ctx, lockPatience)
	defer stop()
	got, err := e.lock.TryLockContext(wait, 10*time.Millisecond)
	if err != nil && wait.Err() == nil {
		return nil, fmt.Errorf("cannot lock the database: %w", err)
	}
	if !got {
		holder, _ := os.ReadFile(path + ".lock")
		return nil, fault.New(fault.Conflict, "%s is in use by another process (pid %s)", path, strings.TrimSpace(string(holder))).Because("locked")
	}
	// The pid is for people; where locks keep others from writing it is left out.
	os.WriteFile(path+".lock", fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600) //nolint:errcheck
	if err := e.connect(ctx, path, options); err != nil {
		e.close()
		return nil, liteError(err, false)
	}
	return e, nil
}

func (e *lite) connect(ctx context.Context, path, options string) error {
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return fault.New(fault.Unavailable, "cannot open the database: %w", err)
	} else if err := f.Close(); err != nil {
		return err
	}
	file := "file:" + (&url.URL{Path: path}).EscapedPath()
	pragmas := "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=temp_store(MEMORY)&" + options
	var err error
	if e.writers, err = sql.Open("sqlite", file+pragmas+"&_pragma=cache_size(-65536)&_pragma=wal_autocheckpoint(4000)&_pragma=journal_size_limit(67108864)&_pragma=secure_delete(ON)"); err != nil {
		return err
	}
	e.writers.SetMaxOpenConns(1)
	if e.conn, err = e.writers.Conn(ctx); err != nil {
		return err
	}
	if e.readers, err = sql.Open("sqlite", file+pragmas+"&_pragma=cache_size(-32768)&_pragma=query_only(1)"); err != nil {
		return err
	}
	e.readers.SetMaxOpenConns(liteReaders)
	e.readers.SetMaxIdleConns(liteReaders)
	return e.readers.PingContext(ctx)
}

func (e *lite) close() {
	e.recent.forget()
	if e.conn != nil {
		e.abandon()
		e.conn.Close()
	}
	for _, db := range []*sql.DB{e.readers, e.writers} {
		if db != nil {
			db.Close()
		}
	}
	e.lock.Unlock() //nolint:errcheck // the process's end would do it, too
}

// numbered writes parameters the way SQLite counts them.
func numbered(sql string) string { return strings.ReplaceAll(sql, "$", "?") }

func (e *lite) read(ctx context.Context, query string, args []any, each func(scan scanner) error) error {
	rows, err := e.rows(ctx, query, args)
	if err != nil {
		return liteError(err, false)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return liteError(err, false)
		}
	}
	return liteError(rows.Err(), false)
}

// seek is an ordinary read: the planner follows the order that it is given.
func (e *lite) seek(ctx context.Context, query string, args []any, each func(scan scanner) error) error {
	return e.read(ctx, query, args, each)
}

func (e *lite) row(t *table, key []any) (scanner, bool) {
	if !e.recent.trusted(time.Now()) {
		return nil, false
	}
	return e.recent.get(t, key)
}

func (e *lite) rows(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	e.mu.Lock()
	stmt, ok := e.queries[query]
	full := len(e.queries) >= liteQueries
	e.mu.Unlock()
	if !ok && full {
		return e.readers.QueryContext(ctx, numbered(query), args...)
	}
	if !ok {
		fresh, err := e.readers.PrepareContext(ctx, numbered(query))
		if err != nil {
			return nil, err
		}
		e.mu.Lock()
		if stmt, ok = e.queries[query]; !ok {
			stmt = fresh
			e.queries[query] = fresh
		}
		e.mu.Unlock()
		if stmt != fresh {
			fresh.Close()
		}
	}
	return stmt.QueryContext(ctx, args...)
}

// load and save do not take the caller's context: interrupting a statement
// costs a goroutine each, and the one writer never waits for a lock.
func (e *lite) load(_ context.Context, queries []query) error {
	if !e.open {
		stmt, err := e.prepared("BEGIN IMMEDIATE")
		if err == nil {
			_, err = stmt.ExecContext(context.Background())
		}
		if err != nil {
			return liteError(err, false)
		}
		e.open = true
		if err := e.others(); err != nil {
			return liteError(err, false)
		}
	}
	for _, q := range queries {
		if err := e.loadOne(q); err != nil {
			return liteError(err, false)
		}
	}
	return nil
}

// others asks whether another connection than this one has written. The answer is
// that of the open transaction.
func (e *lite) others() error {
	stmt, err := e.prepared("PRAGMA data_version")
	if err != nil {
		return err
	}
	var foreign int64
	if err := stmt.QueryRowContext(context.Background()).Scan(&foreign); err != nil {
		return err
	}
	e.foreign = e.recent.checked(foreign, time.Now())
	return nil
}

func (e *lite) loadOne(q query) error {
	if q.known && !e.foreign {
		return nil
	}
	if q.table == nil {
		stmt, err := e.prepared(q.sql)
		if err != nil {
			return err
		}
		return scanAll(stmt, q.args, q.each)
	}
	stmt, err := e.stmt(stmtKey{table: q.table, op: -1})
	if err != nil {
		return err
	}
	for _, key := range q.keys {
		if scan, known := e.recent.get(q.table, key); known {
			if scan != nil {
				if err := q.each(scan); err != nil {
					return err
				}
			}
			continue
		}
		if err := scanAll(stmt, key, q.each); err != nil {
			return err
		}
	}
	return nil
}

func scanAll(stmt *sql.Stmt, args []any, each func(scan scanner) error) error {
	rows, err := stmt.QueryContext(context.Background(), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if each == nil {
			continue
		}
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (e *lite) save(_ context.Context, statements []statement, _ bool) error {
	for i := range statements {
		if err := e.saveOne(&statements[i]); err != nil {
			return liteError(err, false)
		}
	}
	e.recent.committing(statements)
	stmt, err := e.prepared("COMMIT")
	if err == nil {
		_, err = stmt.ExecContext(context.Background())
	}
	if err != nil {
		e.recent.forget()
		return liteError(err, true)
	}
	e.open = false
	e.recent.committed(statements)
	return nil
}

func (e *lite) saveOne(s *statement) error {
	ctx := context.Background()
	switch s.op {
	case define:
		_, err := e.conn.ExecContext(ctx, numbered(s.sql))
		return err
	case raw:
		stmt, err := e.prepared(s.sql)
		if err == nil {
			_, err = stmt.ExecContext(ctx, s.args...)
		}
		return err
	case appendLog:
		return e.append(s)
	}
	for i, row := range s.rows {
		key := stmtKey{table: s.table, op: s.op}
		args := row
		if s.op == update {
			key.changed = 1<<len(s.table.columns) - 1
			if s.changed != nil {
				key.changed = s.changed[i]
			}
			args = make([]any, 0, len(row))
			args = append(args, row[:s.table.key]...)
			for c := s.table.key; c < len(row); c++ {
				if key.changed&(1<<c) != 0 {
					args = append(args, row[c])
				}
			}
		}
		stmt, err := e.stmt(key)
		if err != nil {
			return err
		}
		if _, err := stmt.ExecContext(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// append gives changes the sequences behind the head.
func (e *lite) append(s *statement) error {
	head, err := e.prepared("UPDATE head SET seq = $1, at = $2")
	if err != nil {
		return err
	}
	if _, err := head.ExecContext(context.Background(), s.base.seq+int64(len(s.rows)), s.base.at); err != nil {
		return err
	}
	stmt, err := e.stmt(stmtKey{table: s.table, op: insert})
	if err != nil {
		return err
	}
	args := make([]any, len(s.table.columns))
	for i, row := range s.rows {
		args[0], args[1] = s.base.seq+int64(i)+1, s.base.at
		copy(args[2:], row)
		if _, err := stmt.ExecContext(context.Background(), args...); err != nil {
			return err
		}
	}
	return nil
}

func (e *lite) abandon() {
	if !e.open {
		return
	}
	e.open = false
	e.conn.ExecContext(context.Background(), "ROLLBACK") //nolint:errcheck // SQLite may have done so by itself
}

func (e *lite) prepared(query string) (*sql.Stmt, error) {
	if stmt, ok := e.sqls[query]; ok {
		return stmt, nil
	}
	stmt, err := e.conn.PrepareContext(context.Background(), numbered(query))
	if err == nil {
		e.sqls[query] = stmt
	}
	return stmt, err
}

// stmt prepares a statement that handles one row; op -1 loads it.
func (e *lite) stmt(key stmtKey) (*sql.Stmt, error) {
	if stmt, ok := e.statements[key]; ok {
		return stmt, nil
	}
	stmt, err := e.conn.PrepareContext(context.Background(), numbered(key.sql()))
	if err == nil {
		e.statements[key] = stmt
	}
	return stmt, err
}
