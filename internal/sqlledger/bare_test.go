package sqlledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/internal/sqlledger"
)

// BenchmarkBare writes the rows of BenchmarkTransition with nothing but the
// driver, in commits of the size that 64 callers share: what group commit,
// guards and encoding are measured against.
func BenchmarkBare(b *testing.B) {
	const batch = committers / 2
	statements := []string{
		"UPDATE object_thing SET phase = $2, version = $3, updated = $4, status = $5, view = $6 WHERE id = $1",
		`INSERT INTO work (kind, id, org, dirty, attempts, due, turn, token, until, holder, cause, note) VALUES ('thing', $1, 'org-1', 1, 0, $2, $2, 0, 0, '', 'schedule:bench', '')
			ON CONFLICT (kind, id) DO UPDATE SET dirty = work.dirty + 1`,
		`INSERT INTO log (seq, at, actor, cause, op, kind, id, org, version, state) VALUES ($1, $2, 'system', 'schedule:bench', 'ready', 'thing', $3, 'org-1', $4, $5)`,
		"UPDATE head SET seq = $1, at = $2",
	}
	// rows calls write with the arguments of each statement for transition n.
	rows := func(n int64, write func(statement int, args ...any) error) error {
		id := fmt.Sprintf("%05d", n%committers*16+n/committers%16) // as spread as the callers are
		status := fmt.Sprintf(`{"step":%d,"conditions":[{"type":"Ready","status":"False","reason":"Working"}]}`, n)
		view := fmt.Sprintf(`{"id":"%s","kind":"Dinosaur","status":"ready","name":"name-%s","region":"us-east-1","n":%d}`, id, id, n)
		state := fmt.Sprintf(`{"kind":"thing","id":"%s","org":"org-1","name":"name-%s","phase":"ready","fields":{"offering":"dinosaur","size":3},"generation":1,"version":%d,"spec":{"a": 1},"status":%s,"view":%s}`, id, id, n, status, view)
		if err := write(0, id, []string{"preparing", "ready"}[n%2], n, n, status, view); err != nil {
			return err
		}
		if err := write(1, id, n); err != nil {
			return err
		}
		return write(2, n, n, id, n, state)
	}
	seed := func(b *testing.B, url string) {
		l := open(b, sqlledger.Config{URL: url, Kinds: things})
		for i := range 1024 {
			commit(b, l, put(fmt.Sprintf("%05d", i), fmt.Sprintf("org-%d", i%50), "accepted", 0))
		}
		l.Close()
	}
	b.Run("sqlite", func(b *testing.B) {
		url := engines["sqlite"](b)
		seed(b, url)
		db, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite://")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(4000)&_txlock=immediate")
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		var prepared []*sql.Stmt
		for _, s := range statements {
			p, err := db.Prepare(strings.ReplaceAll(s, "$", "?"))
			if err != nil {
				b.Fatal(err)
			}
			prepared = append(prepared, p)
		}
		b.ResetTimer()
		for n := int64(1024); n < int64(b.N)+1024; {
			tx, err := db.Begin()
			if err != nil {
				b.Fatal(err)
			}
			var bound []*sql.Stmt
			for _, p := range prepared {
				bound = append(bound, tx.Stmt(p))
			}
			for range batch {
				n++
				if err := rows(n, func(s int, args ...any) error { _, err := bound[s].Exec(args...); return err }); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := bound[3].Exec(n, n); err != nil {
				b.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "transitions/s")
	})
	b.Run("postgres", func(b *testing.B) {
		url := engines["postgres"](b)
		seed(b, url)
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close(ctx)
		b.ResetTimer()
		for n := int64(1024); n < int64(b.N)+1024; {
			var send pgx.Batch
			send.Queue("BEGIN")
			for range batch {
				n++
				rows(n, func(s int, args ...any) error { send.Queue(statements[s], args...); return nil })
			}
			send.Queue(statements[3], n, n)
			send.Queue("COMMIT")
			if err := conn.SendBatch(ctx, &send).Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "transitions/s")
	})
}
