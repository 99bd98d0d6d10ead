package sqlledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/droverhq/drover/internal/fault"
)

// pg is a PostgreSQL database: a pool that reads, and one connection that
// writes. A write takes two round trips: BEGIN and all loads, then all writes
// and COMMIT. Two more goroutines, in notify.go, carry hints between replicas.
type pg struct {
	pool    *pgxpool.Pool
	opener  opener
	config  *pgx.ConnConfig // of the writer
	conn    *pgx.Conn       // nil while there is none; the committer's alone
	stale   atomic.Bool     // conn was opened with a login that is about to end
	open    bool            // a transaction is
	retryAt time.Time       // no attempt to connect before
	backoff time.Duration
	trigram bool

	texts    map[stmtKey]string
	notifier *notifier
	end      context.CancelFunc // of what follows the login
	ended    sync.WaitGroup
}

const (
	pgConnect    = 2 * time.Second
	pgMaxBackoff = time.Second
)

func openPostgres(ctx context.Context, c Config, hear func()) (*pg, error) {
	config, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot read the database URL") // the cause would show the password
	}
	config.ConnConfig.ConnectTimeout = pgConnect
	find := config.ConnConfig.LookupFunc
	if c.Lookup != nil {
		find = c.Lookup
	}
	config.ConnConfig.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, pgConnect) // the driver bounds connecting alone
		defer cancel()
		return find(ctx, host)
	}
	set(config.ConnConfig, "application_name", "drover")
	set(config.ConnConfig, "jit", "off")
	writer := config.ConnConfig.Copy()
	set(config.ConnConfig, "statement_timeout", "15000")
	set(config.ConnConfig, "default_transaction_read_only", "on")
	if !strings.Contains(c.URL, "pool_max_conns") {
		config.MaxConns = 16
	}
	// Keys come in arrays. A plan made while a table was small must not scan it
	// when it has grown, and planning again each time costs more than the rest.
	for _, off := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin", "enable_bitmapscan"} {
		set(writer, off, "off")
	}
	set(writer, "plan_cache_mode", "force_generic_plan")
	set(writer, "statement_timeout", "5000")
	set(writer, "idle_in_transaction_session_timeout", "10000") // a stalled process must not keep its locks
	e := &pg{opener: opener{login: c.Login, url: c.URL}, config: writer, texts: map[stmtKey]string{}, end: func() {}}
	config.BeforeConnect = e.opener.identify
	var changed <-chan struct{}
	if c.Login != nil {
		changed = c.Login.Changed() // before anything is opened
	}
	if e.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, pgError(err, false)
	}
	if !c.ReadOnly {
		if err := e.extend(ctx, c.Observer); err != nil {
			e.pool.Close()
			return nil, pgError(err, false)
		}
		e.notifier = startNotifier(writer, e.opener.connect, hear)
	}
	if c.Login != nil {
		var following context.Context
		following, e.end = context.WithCancel(context.Background())
		e.ended.Go(func() { e.follow(following, changed) })
	}
	return e, nil
}

// set changes a setting unless the URL has.
func set(c *pgx.ConnConfig, name, value string) {
	if _, ok := c.RuntimeParams[name]; !ok {
		c.RuntimeParams[name] = value
	}
}

// extend makes sure of pg_trgm, if it may.
func (e *pg) extend(ctx context.Context, o Observer) error {
	conn, err := e.opener.connect(ctx, e.config)
	for try := 1; err != nil && try < 3 && ctx.Err() == nil; try++ { // a busy server may be slow to answer
		conn, err = e.opener.connect(ctx, e.config)
	}
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	const present = "SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'pg_trgm')"
	if err := conn.QueryRow(ctx, present).Scan(&e.trigram); err != nil || e.trigram {
		return err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	for _, sql := range append(slices.Clone(postgresDialect.lock), "CREATE EXTENSION IF NOT EXISTS pg_trgm") {
		if err == nil {
			_, err = tx.Exec(ctx, sql)
		}
	}
	if err == nil {
		err = tx.Commit(ctx)
	} else {
		tx.Rollback(ctx) //nolint:errcheck // the connection is closed next
	}
	if e.trigram = err == nil; !e.trigram {
		o.Warned(fmt.Sprintf("text search over all organisations will be slow: the extension pg_trgm cannot be created: %v", err))
	}
	return ctx.Err()
}

func (e *pg) close() {
	e.end()
	e.ended.Wait()
	if e.notifier != nil {
		e.notifier.stop()
	}
	e.drop()
	e.pool.Close()
}

func (e *pg) read(ctx context.Context, sql string, args []any, each func(scan scanner) error) error {
	for try := 0; ; try++ {
		seen := false
		err := e.readOnce(ctx, sql, args, func(scan scanner) error {
			seen = true
			return each(scan)
		})
		if err == nil {
			return nil
		}
		// After a restart of the server the pool holds dead connections.
		if seen || try == 2 || ctx.Err() != nil || !lostConnection(err) && !overtaken(err) {
			return readError(err)
		}
	}
}

// row knows none: other replicas write.
func (e *pg) row(*table, []any) (scanner, bool) { return nil, false }

func (e *pg) readOnce(ctx context.Context, sql string, args []any, each func(scan scanner) error) error {
	rows, err := e.pool.Query(ctx, sql, args...)
	e.opener.heard(err)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// seek tells the planner, for one query and in one round trip, what not to try:
// it takes a common word for a reason to read the table until enough were found.
func (e *pg) seek(ctx context.Context, sql string, args []any, each func(scan scanner) error) error {
	for try := 0; ; try++ {
		seen := false
		err := e.seekOnce(ctx, sql, args, func(scan scanner) error {
			seen = true
			return each(scan)
		})
		if err == nil || seen || try == 2 || ctx.Err() != nil || !lostConnection(err) && !overtaken(err) {
			return readError(err)
		}
	}
}

func (e *pg) seekOnce(ctx context.Context, sql string, args []any, each func(scan scanner) error) error {
	var b pgx.Batch
	settings := []string{"BEGIN", "SET LOCAL enable_seqscan = off", "SET LOCAL enable_hashjoin = off", "SET LOCAL enable_mergejoin = off"}
	for _, s := range settings {
		b.Queue(s)
	}
	b.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			if err := each(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	b.Queue("COMMIT")
	err := e.pool.SendBatch(ctx, &b).Close()
	e.opener.heard(err)
	return err
}

// connected makes sure of a connection. While the server is away, callers are
// told so at once, and only now and then is it tried again.
func (e *pg) connected(ctx context.Context) error {
	if e.conn != nil && !e.conn.IsClosed() {
		if !e.open && e.stale.Load() {
			e.replace(ctx)
		}
		return nil
	}
	e.open = false
	if time.Now().Before(e.retryAt) {
		return fault.New(fault.Unavailable, "the database is away").Because("database-away")
	}
	conn, err := e.opener.connect(ctx, e.config)
	if err != nil {
		e.backoff = min(max(2*e.backoff, 20*time.Millisecond), pgMaxBackoff)
		e.retryAt = time.Now().Add(e.backoff)
		return pgError(err, false)
	}
	e.conn, e.backoff = conn, 0
	return nil
}

// replace opens another connection in place of one that is about to end. Where that
// fails, what there is goes on.
func (e *pg) replace(ctx context.Context) {
	if time.Now().Before(e.retryAt) {
		return
	}
	e.stale.Store(false) // before: it may change again
	conn, err := e.opener.connect(ctx, e.config)
	if err != nil {
		e.stale.Store(true)
		e.retryAt = time.Now().Add(pgMaxBackoff)
		return
	}
	e.drop()
	e.conn = conn
}

func (e *pg) drop() {
	if e.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	e.conn.Close(ctx) //nolint:errcheck // it is given up
	e.conn, e.open = nil, false
}

func (e *pg) load(ctx context.Context, queries []query) error {
	again := !e.open && e.conn != nil
	err := e.loadOnce(ctx, queries)
	if err != nil && again && lostConnection(err) && ctx.Err() == nil {
		// The connection was lost while idle; nothing was written yet.
		e.drop()
		err = e.loadOnce(ctx, queries)
	}
	return pgError(err, false)
}

func (e *pg) loadOnce(ctx context.Context, queries []query) error {
	if err := e.connected(ctx); err != nil {
		return err
	}
	var b pgx.Batch
	if !e.open {
		b.Queue("BEGIN")
	}
	for _, q := range queries {
		if q.table != nil {
			b.Queue(e.sql(stmtKey{table: q.table, op: -1}), arrays(q.table.columns[:q.table.key], q.keys)...)
		} else {
			b.Queue(q.sql, q.args...)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	results := e.conn.SendBatch(ctx, &b)
	err := func() error {
		if !e.open {
			if _, err := results.Exec(); err != nil {
				return err
			}
			e.open = true
		}
		for _, q := range queries {
			rows, err := results.Query()
			if err != nil {
				return err
			}
			for rows.Next() && q.each != nil {
				if err := q.each(rows.Scan); err != nil {
					rows.Close()
					return err
				}
			}
			rows.Close()
			if err := rows.Err(); err != nil {
				return err
			}
		}
		return nil
	}()
	return errors.Join(err, results.Close())
}

func (e *pg) save(ctx context.Context, statements []statement, hint bool) error {
	if e.conn == nil || e.conn.IsClosed() || !e.open {
		return fault.New(fault.Unavailable, "the connection to the database was lost").Because("database-away")
	}
	for len(statements) > 0 && (statements[0].op == define || statements[0].op == raw) {
		// Later statements cannot be prepared before the schema is there.
		if _, err := e.conn.Exec(ctx, statements[0].sql, statements[0].args...); err != nil {
			return pgError(err, false)
		}
		statements = statements[1:]
	}
	var b pgx.Batch
	for i := range statements {
		s := &statements[i]
		switch s.op {
		case raw, define:
			b.Queue(s.sql, s.args...)
		case appendLog:
			b.Queue(e.sql(stmtKey{table: s.table, op: appendLog}),
				append([]any{int64(len(s.rows)), s.base.at}, arrays(s.table.columns[2:], s.rows)...)...)
		case remove:
			b.Queue(e.sql(stmtKey{table: s.table, op: s.op}), arrays(s.table.columns[:s.table.key], s.rows)...)
		default:
			b.Queue(e.sql(stmtKey{table: s.table, op: s.op}), arrays(s.table.columns, s.rows)...)
		}
	}
	b.Queue("COMMIT")
	results := e.conn.SendBatch(ctx, &b)
	err := func() error {
		for i := range statements {
			if s := &statements[i]; s.op == appendLog {
				if err := results.QueryRow().Scan(&s.base.seq); err != nil {
					return err
				}
			} else if _, err := results.Exec(); err != nil {
				return err
			}
		}
		tag, err := results.Exec()
		if err == nil && tag.String() != "COMMIT" {
			err = fmt.Errorf("the transaction ended with %s", tag)
		}
		return err
	}()
	// What was committed stays so, whatever happens to the connection now.
	closing := results.Close()
	if err != nil {
		return pgError(errors.Join(err, closing), true)
	}
	e.open = false
	if hint {
		e.notifier.notify()
	}
	return nil
}

func (e *pg) abandon() {
	if !e.open || e.conn == nil {
		return
	}
	e.open = false
	if e.conn.IsClosed() {
		e.conn = nil
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := e.conn.Exec(ctx, "ROLLBACK"); err != nil {
		e.drop()
	}
}
