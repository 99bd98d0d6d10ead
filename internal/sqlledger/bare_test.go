package sqlledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/internal/sqlledger"
)

// BenchmarkBare writes the rows of BenchmarkTransition with nothing but the
// driver, in commits of the size that 64 callers share: what group commit,
// guards and encoding are measured against.
func BenchmarkBare(b *testing.B) {
	for name, url := range engines {
		b.Run(name, func(b *testing.B) {
			write := newBare(b, name, url(b))
			b.ResetTimer()
			for n := 0; n < b.N; n += committers / 2 {
				write(committers / 2)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "transitions/s")
		})
	}
}

// bareStatements write what a transition writes, to the same tables with the
// same indexes; the last one is for a whole commit.
var bareStatements = []string{
	"UPDATE object_thing SET phase = $2, version = $3, updated = $4, status = $5, view = $6 WHERE id = $1",
	`INSERT INTO work (kind, id, org, dirty, attempts, due, turn, token, until, holder, cause, note) VALUES ('thing', $1, $2, 1, 0, $3, $3, 0, 0, '', 'schedule:bench', '')
		ON CONFLICT (kind, id) DO UPDATE SET dirty = work.dirty + 1`,
	`INSERT INTO log (seq, at, actor, cause, op, kind, id, org, version, state) VALUES ($1, $2, 'system', 'schedule:bench', $3, 'thing', $4, $5, $6, $7)`,
	"UPDATE head SET seq = $1, at = $2",
}

// bareRows calls write with the arguments of each statement of transition n,
// the first of which is 0 and the first of its objects that of 64 callers with
// 16 objects each.
func bareRows(n, now int64, write func(statement int, args ...any)) {
	object := n%committers*16 + n/committers%16
	id, org, version := fmt.Sprintf("%05d", object), "org-"+strconv.FormatInt(object%50, 10), n/(committers*16)+2
	phase := [...]string{"preparing", "provisioning", "ready"}[version%3]
	status := fmt.Sprintf(`{"step":%d,"conditions":[{"type":"Ready","status":"False","reason":"Working"}]}`, n/committers)
	view := fmt.Sprintf(`{"id":"%s","kind":"Dinosaur","status":"%s","name":"name-%s","region":"us-east-1","n":%d}`, id, phase, id, n/committers)
	at := time.UnixMicro(now).UTC().Format(time.RFC3339Nano)
	state := `{"kind":"thing","id":"` + id + `","org":"` + org + `","name":"name-` + id + `","phase":"` + phase +
		`","fields":{"offering":"dinosaur","size":3},"generation":1,"version":` + strconv.FormatInt(version, 10) +
		`,"spec":{"a": 1},"status":` + status + `,"view":` + view + `,"created":"` + at + `","updated":"` + at + `"}`
	write(0, id, phase, version, now, status, view)
	write(1, id, org, now)
	write(2, n+committers*16+1, now, phase, id, org, version, state)
}

// newBare makes a database with the objects of a mover, and returns what
// commits a batch of transitions in it.
func newBare(t testing.TB, engine, url string) func(batch int) {
	l := open(t, sqlledger.Config{URL: url, Kinds: things})
	newMover(t, l)
	l.Close()
	if engine == "sqlite" {
		return bareSQLite(t, url)
	}
	return barePostgres(t, url)
}

func bareSQLite(t testing.TB, url string) func(batch int) {
	fatal := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	// As the ledger sets it: flushed to the disk with every commit.
	db, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite://")+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"+
		"&_pragma=temp_store(MEMORY)&_pragma=cache_size(-65536)&_pragma=wal_autocheckpoint(4000)&_pragma=secure_delete(ON)")
	fatal(err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	var prepared []*sql.Stmt
	for _, s := range bareStatements {
		p, err := db.Prepare(strings.ReplaceAll(s, "$", "?"))
		fatal(err)
		prepared = append(prepared, p)
	}
	var n int64
	return func(batch int) {
		tx, err := db.Begin()
		fatal(err)
		now := time.Now().UnixMicro()
		var bound []*sql.Stmt
		for _, p := range prepared {
			bound = append(bound, tx.Stmt(p))
		}
		exec := func(s int, args ...any) {
			_, err := bound[s].Exec(args...)
			fatal(err)
		}
		for range batch {
			bareRows(n, now, exec)
			n++
		}
		exec(3, n+committers*16, now)
		fatal(tx.Commit())
	}
}

func barePostgres(t testing.TB, url string) func(batch int) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(ctx) })
	var n int64
	return func(batch int) {
		now := time.Now().UnixMicro()
		var send pgx.Batch
		queue := func(s int, args ...any) { send.Queue(bareStatements[s], args...) }
		send.Queue("BEGIN")
		for range batch {
			bareRows(n, now, queue)
			n++
		}
		queue(3, n+committers*16, now)
		send.Queue("COMMIT")
		if err := conn.SendBatch(ctx, &send).Close(); err != nil {
			t.Fatal(err)
		}
	}
}
