package sqlledger_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

// openAtOnce starts replicas with the given keys on one empty database.
func openAtOnce(t *testing.T, keys ...[]byte) []error {
	where := postgres.Database(t)
	ledgers, errs := make([]*sqlledger.Ledger, len(keys)), make([]error, len(keys))
	var wg sync.WaitGroup
	for i, key := range keys {
		wg.Go(func() {
			ledgers[i], errs[i] = sqlledger.Open(context.Background(), sqlledger.Config{URL: where, Kinds: things, Key: key})
		})
	}
	wg.Wait()
	for _, l := range ledgers {
		if l != nil {
			l.Close()
		}
	}
	return errs
}

func TestReplicasStartAtOnce(t *testing.T) {
	for range 5 {
		for i, err := range openAtOnce(t, key, key, key) {
			if err != nil {
				t.Fatalf("replica %d does not start: %v", i, err)
			}
		}
	}
}

func TestReplicasStartWithDifferentKeys(t *testing.T) {
	for range 5 {
		errs := openAtOnce(t, key, bytes.Repeat([]byte{8}, ledger.KeySize))
		if errs[0] != nil {
			errs[0], errs[1] = errs[1], errs[0]
		}
		if errs[0] != nil || fault.Reason(errs[1]) != "wrong-key" {
			t.Fatalf("two keys gave %v and %v, want one that is refused", errs[0], errs[1])
		}
	}
}

// TestSchemaChangesTakeTheirTime keeps a starting replica waiting for longer
// than its statements may take, as one that makes an index would.
func TestSchemaChangesTakeTheirTime(t *testing.T) {
	t.Run("for the extension", func(t *testing.T) { keepWaiting(t, "SELECT 1") })
	t.Run("for the tables", func(t *testing.T) { keepWaiting(t, "CREATE EXTENSION pg_trgm") })
}

func keepWaiting(t *testing.T, before string) {
	ctx, where := t.Context(), postgres.Database(t)
	conn, err := pgx.Connect(ctx, where)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, before); err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(7236848)"); err != nil {
		t.Fatal(err)
	}
	var w warnings
	opened := make(chan error, 1)
	go func() {
		l, err := sqlledger.Open(ctx, sqlledger.Config{URL: where + "&statement_timeout=700", Kinds: things, Observer: &w})
		if err == nil {
			l.Close()
		}
		opened <- err
	}()
	const wait = `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	for waiting := 0; waiting == 0; {
		if err := tx.QueryRow(ctx, wait).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Exec(ctx, "SELECT pg_sleep(1)"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil || len(w) > 0 {
		t.Fatalf("the replica that had to wait gave %v and warned of %q", err, w)
	}
}

// TestShreddedKeysAreGone looks for a destroyed secret's wrapped key, and for
// its sealed bytes, in the file.
func TestShreddedKeysAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, sqlledger.Config{URL: path})
	for _, size := range []int{20, 300, 20_000} { // within a page, and beyond
		ref, err := l.Seal(t.Context(), make([]byte, size))
		if err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var wrapped, sealed []byte
		if err := db.QueryRow("SELECT secret_key, data FROM secrets").Scan(&wrapped, &sealed); err != nil {
			t.Fatal(err)
		}
		flush := func() []byte {
			if _, err := db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
				t.Fatal(err)
			}
			return raw(t, path)
		}
		parts := [][]byte{wrapped, sealed[:16], sealed[len(sealed)-16:]}
		for i, file := 0, flush(); i < len(parts); i++ {
			if !bytes.Contains(file, parts[i]) {
				t.Fatal("the file does not hold the secret: this test looks in the wrong place")
			}
		}
		if err := l.Shred(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		for i, file := 0, flush(); i < len(parts); i++ {
			if bytes.Contains(file, parts[i]) {
				t.Errorf("part %d of a secret of %d bytes is still in the file", i, size)
			}
		}
	}
}

// An epoch that is given moves the ledger's forward and never back.
func TestEpochMovesForward(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	for _, tc := range []struct {
		reason     string
		give, want int64
	}{
		{"A new ledger is in the first.", 0, 1},
		{"A restored one is given another.", 4, 4},
		{"The same again changes nothing.", 4, 4},
		{"An old option does not lead back.", 2, 4},
		{"Nor does none.", 0, 4},
	} {
		l := open(t, sqlledger.Config{URL: path, Kinds: things, Epoch: tc.give})
		h, err := l.Head(t.Context())
		if err != nil || h.Epoch != tc.want {
			t.Errorf("%s it is in %d, want %d (%v)", tc.reason, h.Epoch, tc.want, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What was written before a restore is of the epoch of then, so that it is told by the
// same names; what is written since is not taken for what was lost.
func TestEpochsOfChanges(t *testing.T) {
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			where := url(t)
			want := []int64{0} // by sequence
			for _, epoch := range []int64{0, 0, 2, 2, 5} {
				l := open(t, sqlledger.Config{URL: where, Kinds: things, Epoch: epoch})
				for range 3 {
					commit(t, l, put(fmt.Sprint("t", len(want)), "acme", "accepted", 0))
					want = append(want, max(epoch, 1))
				}
				h, err := l.Head(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for seq := 1; seq < len(want); seq++ {
					if got := h.EpochOf(int64(seq)); got != want[seq] {
						t.Errorf("in epoch %d, change %d is of epoch %d, not %d", h.Epoch, seq, got, want[seq])
					}
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Another process begins an epoch while this one goes on.
func TestAnEpochThatAnotherBegan(t *testing.T) {
	where := engines["postgres"](t)
	l := open(t, sqlledger.Config{URL: where, Kinds: things})
	defer l.Close()
	for epoch := int64(2); epoch < 4; epoch++ {
		commit(t, l, put(fmt.Sprint("t", epoch), "acme", "accepted", 0))
		other := open(t, sqlledger.Config{URL: where, Kinds: things, Epoch: epoch})
		defer other.Close()
		h, err := l.Head(t.Context())
		if err != nil || h.EpochOf(epoch-1) != epoch-1 || h.EpochOf(epoch) != epoch {
			t.Errorf("changes %d and %d are of epochs %d and %d (%v)", epoch-1, epoch, h.EpochOf(epoch-1), h.EpochOf(epoch), err)
		}
	}
}
