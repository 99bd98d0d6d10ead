package sqlledger_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

func TestOneProcessPerFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	first := open(t, sqlledger.Config{URL: path, Kinds: things})
	_, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: path, Kinds: things})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("the second opener got %v, want a conflict that names the process", err)
	}
	// What one that was killed had just started holds the lock for a moment longer.
	ended := make(chan error)
	go func() {
		time.Sleep(100 * time.Millisecond)
		ended <- first.Close()
	}()
	open(t, sqlledger.Config{URL: path, Kinds: things})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestFullDisk(t *testing.T) {
	ctx := t.Context()
	l := open(t, sqlledger.Config{URL: "sqlite://" + filepath.Join(t.TempDir(), "ledger.db") + "?_pragma=max_page_count(300)", Kinds: things})
	ballast, err := l.Seal(ctx, make([]byte, 400<<10))
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for ; written < 1000; written++ {
		s := put(fmt.Sprint(written), "acme", "accepted", 0)
		s.Puts[0].Object.Spec = fmt.Appendf(nil, "%q", strings.Repeat("x", 8<<10))
		if _, err = l.Commit(ctx, s); err != nil {
			break
		}
	}
	if !fault.Is(err, fault.Unavailable) {
		t.Fatalf("a full disk gave %v after %d commits, want unavailable", err, written)
	}
	ref := ledger.Ref{Kind: "thing", ID: fmt.Sprint(written)}
	if _, err := l.Get(ctx, ref); !fault.Is(err, fault.NotFound) {
		t.Fatalf("the refused object is there: %v", err)
	}
	if head, err := l.Head(ctx); err != nil || head.Seq != int64(written) {
		t.Fatalf("the head is %+v, %v after %d commits", head, err, written)
	}
	if err := l.Shred(ctx, ballast); err != nil {
		t.Fatalf("cannot make room: %v", err)
	}
	if r := commit(t, l, put(ref.ID, "acme", "accepted", 0)); r.Seq != int64(written)+1 {
		t.Fatalf("with room again the sequence is %d, want %d", r.Seq, written+1)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	open(t, sqlledger.Config{URL: path, Kinds: things}).Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE head SET schema_version = 99"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	_, err = sqlledger.Open(t.Context(), sqlledger.Config{URL: path, Kinds: things})
	if !fault.Is(err, fault.Conflict) || fault.Reason(err) != "newer-schema" {
		t.Fatalf("a newer database gave %v, want a conflict", err)
	}
}

func TestKindsGrow(t *testing.T) {
	for name, url := range engines {
		t.Run(name, func(t *testing.T) {
			ctx, where := t.Context(), url(t)
			l := open(t, sqlledger.Config{URL: where, Kinds: things})
			commit(t, l, put("old", "acme", "accepted", 0))
			l.Close()

			grown := things[0]
			grown.Fields = append([]ledger.Field{{Name: "colour", Type: ledger.Text}}, grown.Fields...)
			grown.Totals = append([][]string{{"org"}, {"size"}}, grown.Totals...)
			grown.Text = append([]string{"colour"}, grown.Text...)
			l = open(t, sqlledger.Config{URL: where, Kinds: []ledger.Kind{grown, {Name: "other"}}})
			o, err := l.Get(ctx, ledger.Ref{Kind: "thing", ID: "old"})
			if err != nil || o.Fields["size"] != int64(3) || len(o.Fields) != 2 {
				t.Fatalf("the old object is %+v, %v", o, err)
			}
			o.Fields["colour"] = "green"
			commit(t, l, ledger.Set{Actor: "tester", Cause: "schedule:test", Puts: []ledger.Put{{Object: o, Expect: 1, Op: "update"}}})
			found, err := l.List(ctx, ledger.Query{Kind: "thing", Where: ledger.Compare{Column: "colour", Op: ledger.Like, Values: []any{"%reen"}}})
			if err != nil || len(found) != 1 {
				t.Fatalf("the new field finds %v, %v", found, err)
			}
			for _, scope := range []map[string]any{{"org": "acme"}, {"size": 3}, {"offering": "dinosaur", "org": "acme"}} {
				if n, err := l.Total(ctx, ledger.Query{Kind: "thing", Scope: scope}); n != 1 || err != nil {
					t.Errorf("the total of %v is %d, %v, want 1", scope, n, err)
				}
			}
			if sizes, err := l.Totals(ctx, "thing", []string{"size"}); !cmp.Equal(sizes, []ledger.Total{{Values: []string{"3"}, N: 1}}) || err != nil {
				t.Errorf("the totals by size are %v, %v", sizes, err)
			}
			l.Close()
			bad := things[0]
			bad.Fields = []ledger.Field{{Name: "size", Type: ledger.Text}}
			bad.Scope, bad.Totals, bad.Text = nil, nil, nil
			if _, err := sqlledger.Open(ctx, sqlledger.Config{URL: where, Kinds: []ledger.Kind{bad}}); !fault.Is(err, fault.Conflict) {
				t.Fatalf("a field of another type gave %v, want a conflict", err)
			}
		})
	}
}

// TestLookup declares a column to look objects up by, on tables that are there.
func TestLookup(t *testing.T) {
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			where := url(t)
			open(t, sqlledger.Config{URL: where, Kinds: things}).Close()
			kind := things[0]
			kind.Lookup = []string{"host"}
			open(t, sqlledger.Config{URL: where, Kinds: []ledger.Kind{kind}}).Close()
			driver, explain, wrong := "sqlite", "EXPLAIN QUERY PLAN ", "SCAN"
			if engine == "postgres" {
				driver, explain, wrong = "pgx", "EXPLAIN (COSTS OFF) ", "Filter: (f_host"
			}
			db, err := sql.Open(driver, strings.TrimPrefix(where, "sqlite://"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			rows, err := db.Query(explain + "SELECT id FROM object_thing WHERE deleted = 0 AND f_host = 'x' ORDER BY id LIMIT 10")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			plan := ""
			for rows.Next() {
				var line string
				dest := []any{new(int), new(int), new(int), &line}
				if engine == "postgres" {
					dest = dest[3:]
				}
				if err := rows.Scan(dest...); err != nil {
					t.Fatal(err)
				}
				plan += line + "\n"
			}
			if plan == "" || strings.Contains(plan, wrong) {
				t.Errorf("objects are not looked up by their host:\n%s", plan)
			}
			kind.Lookup = []string{"wings"}
			if _, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: where, Kinds: []ledger.Kind{kind}}); !fault.Is(err, fault.Invalid) {
				t.Errorf("a lookup by a column that is not there gave %v", err)
			}
		})
	}
}

func TestMasterKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	open(t, sqlledger.Config{URL: path}).Close()
	_, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: path, Key: bytes.Repeat([]byte{8}, ledger.KeySize)})
	if !fault.Is(err, fault.Invalid) || fault.Reason(err) != "wrong-key" {
		t.Fatalf("another key gave %v, want wrong-key", err)
	}
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: path})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Seal(t.Context(), []byte("x")); !fault.Is(err, fault.Invalid) {
		t.Fatalf("a secret without a key gave %v", err)
	}
}

func TestURLs(t *testing.T) {
	for _, c := range []struct{ url, reason string }{
		{"", "no database is named"},
		{"mysql://x/y", "an unknown scheme"},
		{"postgres://u:hunter2@127.0.0.1:x/db", "a broken URL"},
	} {
		_, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: c.url})
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, want invalid", c.reason, err)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the password", c.reason)
		}
	}
}

// Whoever starts and finds no database reads where it was looked for, and no password.
func TestWhereTheDatabaseIsNot(t *testing.T) {
	refuses, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { refuses.Close() })
	go func() { // until the listener is closed
		for {
			c, err := refuses.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1024))
			said := "SFATAL\x00C28P01\x00Mpassword authentication failed for user \"u\"\x00\x00"
			_, _ = c.Write(append(binary.BigEndian.AppendUint32([]byte("E"), uint32(len(said)+4)), said...))
			c.Close()
		}
	}()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	for _, c := range []struct{ at, says, reason string }{
		{nobody.Addr().String(), "connection refused", "nobody is there"},
		{refuses.Addr().String(), "password authentication failed", "the password is another"},
	} {
		_, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: "postgres://u:hunter2@" + c.at + "/db?sslmode=disable", Kinds: things})
		if fault.Reason(err) != "database-away" || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.at+", which --database names") {
			t.Errorf("%s: %v", c.reason, err)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the password", c.reason)
		}
	}
}

func TestGivenUp(t *testing.T) {
	l := open(t, sqlledger.Config{URL: engines["sqlite"](t), Kinds: things})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Commit(ctx, put("a", "acme", "accepted", 0)); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("a canceled commit gave %v", err)
	}
	l.Close()
	if _, err := l.Commit(t.Context(), put("a", "acme", "accepted", 0)); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("a closed ledger gave %v", err)
	}
}

// Rows are remembered, and the file is the truth all the same: whoever else writes it
// is noticed, by the next transaction or after a while without one.
func TestAnotherWriterIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, sqlledger.Config{URL: path, Kinds: things})
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	write := func(line string) {
		t.Helper()
		if _, err := db.Exec(line); err != nil {
			t.Fatal(err)
		}
	}
	spec := func(id string) string {
		t.Helper()
		o, err := l.Get(t.Context(), ledger.Ref{Kind: "thing", ID: id})
		if err != nil && !fault.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
		return string(o.Spec)
	}
	for _, id := range []string{"changed", "lost", "quiet"} {
		commit(t, l, put(id, "acme", "accepted", 0))
	}
	write(`UPDATE object_thing SET spec = '{"a": 2}' WHERE id = 'changed'`)
	write(`DELETE FROM object_thing WHERE id = 'lost'`)
	commit(t, l, put("another", "acme", "accepted", 0))
	if got := spec("changed"); got != `{"a": 2}` {
		t.Errorf("what was changed is read as %s", got)
	}
	if got := spec("lost"); got != "" {
		t.Errorf("what was removed is read as %s", got)
	}
	commit(t, l, put("lost", "acme", "accepted", 0))
	if changed, lost := commit(t, l, put("changed", "acme", "accepted", 1)).Objects[0], spec("lost"); string(changed.Spec) != `{"a": 1}` || lost != `{"a": 1}` {
		t.Errorf("written again they are %s and %s", changed.Spec, lost)
	}
	var held string
	if err := db.QueryRow("SELECT spec FROM object_thing WHERE id = 'changed'").Scan(&held); err != nil || held != `{"a": 1}` {
		t.Errorf("the file has %s: %v", held, err)
	}
	write(`UPDATE object_thing SET spec = '{"a": 3}' WHERE id = 'quiet'`)
	l.Quiet()
	if got := spec("quiet"); got != `{"a": 3}` {
		t.Errorf("without another transaction it is read as %s", got)
	}
}

// The head is remembered likewise: sequences and tokens that somebody else has taken are
// not given once more.
func TestAnotherWriterMovesTheHead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, sqlledger.Config{URL: path, Kinds: things})
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	order := func(id string) (seq, token int64) {
		t.Helper()
		set := put(id, "acme", "accepted", 0)
		set.Wakes = []ledger.Wake{{Ref: ledger.Ref{Kind: "thing", ID: id}}}
		seq = commit(t, l, set).Seq
		got, err := l.Claim(t.Context(), ledger.ClaimRequest{Holder: "h", Kinds: []string{"thing"}, Limit: 1, Lease: time.Minute})
		if err != nil || len(got.Work) != 1 {
			t.Fatalf("%v is claimed: %v", got.Work, err)
		}
		return seq, got.Work[0].Token
	}
	seq, token := order("first")
	if _, err := db.Exec("UPDATE head SET seq = seq + 10, fence = fence + 10"); err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"second", "third"} {
		nextSeq, nextToken := order(id)
		if want := int64(11 + i); nextSeq != seq+want || nextToken != token+want {
			t.Errorf("%s is change %d with token %d, behind %d and %d and ten of another's", id, nextSeq, nextToken, seq, token)
		}
	}
	if h, err := l.Head(t.Context()); err != nil || h.Seq != seq+12 {
		t.Errorf("the head is at %d: %v", h.Seq, err)
	}
}
