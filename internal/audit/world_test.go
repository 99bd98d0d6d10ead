package audit_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

var engines = map[string]func(t testing.TB) string{
	"sqlite":   func(t testing.TB) string { return "sqlite://" + filepath.Join(t.TempDir(), "ledger.db") },
	"postgres": func(t testing.TB) string { return postgres.Database(t) },
}

var (
	thing  = ledger.Kind{Name: "thing"}
	kinds  = []ledger.Kind{thing, audit.Kind, operation.AuditKind}
	master = bytes.Repeat([]byte{7}, ledger.KeySize)
)

// world is a ledger whose clock can be moved, as far as the room's goes.
type world struct {
	testing.TB
	ctx    context.Context
	url    string
	store  *sqlledger.Ledger
	room   *audit.Service
	retain time.Duration
	now    time.Time
	n      int // changes so far
}

func newWorld(t testing.TB, url string) *world {
	w := &world{TB: t, ctx: t.Context(), url: url, now: time.Now().Add(time.Minute)}
	w.open()
	return w
}

func (w *world) open() {
	w.Helper()
	var err error
	if w.store, err = sqlledger.Open(w.ctx, sqlledger.Config{URL: w.url, Kinds: kinds, Key: master}); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { w.store.Close() })
	w.room = w.service(w.store)
}

func (w *world) service(store audit.Store) *audit.Service {
	w.Helper()
	room, err := audit.NewService(audit.Config{Store: store, Kinds: []string{"thing", "sealkey", "audit"}, Retain: w.retain, Now: func() time.Time { return w.now }})
	if err != nil {
		w.Fatal(err)
	}
	return room
}

// write changes things, n times, over few objects.
func (w *world) write(n int) {
	w.Helper()
	for range n {
		i := w.n
		w.n++
		ref := ledger.Ref{Kind: "thing", ID: fmt.Sprintf("t%d", i%4)}
		o, _ := w.store.Get(w.ctx, ref)
		expect := o.Version
		o.Ref, o.Org, o.Name, o.Phase = ref, "acme", "name-"+ref.ID, fmt.Sprint(i)
		o.Spec = fmt.Appendf(nil, `{"n":%d,"at":"%s"}`, i, ref.ID)
		_, err := w.store.Commit(w.ctx, ledger.Set{Actor: "alice", Cause: ledger.ByRequest("r1"), From: "10.0.0.1", Puts: []ledger.Put{{Object: o, Expect: expect, Op: "update"}}})
		if err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) seal() {
	w.Helper()
	for more := true; more; {
		var err error
		if more, err = w.room.Seal(w.ctx); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) verify(kept ledger.Heads) ledger.Report {
	w.Helper()
	r, err := w.room.Verify(w.ctx, kept, nil)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func (w *world) sound(what string) ledger.Report {
	w.Helper()
	r := w.verify(ledger.Heads{})
	if r.Flaw != nil {
		w.Fatalf("%s: %v", what, r.Flaw)
	}
	return r
}

// sql does something to the database that no program of ours does.
func (w *world) sql(statements ...string) {
	w.Helper()
	driver, url := "pgx", w.url
	if rest, ok := strings.CutPrefix(w.url, "sqlite://"); ok {
		w.store.Close()
		driver, url = "sqlite", rest
	}
	db, err := sql.Open(driver, url)
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.ExecContext(w.ctx, s); err != nil {
			w.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		w.Fatal(err)
	}
	if driver == "sqlite" {
		w.open()
	}
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// insert writes a block as SQL.
func insert(b ledger.Block, engine string) string {
	raw := func(b []byte) string {
		if engine == "postgres" {
			return fmt.Sprintf(`'\x%x'`, b)
		}
		return fmt.Sprintf("x'%x'", b)
	}
	return fmt.Sprintf("INSERT INTO blocks (number, first_seq, last_seq, epoch, at, root, previous, key_id, signature, seals) VALUES (%d, %d, %d, %d, %d, %s, %s, '%s', %s, %s)",
		b.Number, b.First, b.Last, b.Epoch, b.At.UnixMicro(), raw(b.Root[:]), raw(b.Previous[:]), b.Key, raw(b.Signature), raw(ledger.PackSeals(b.Seals)))
}
