package sqlledger_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/ledger/ledgertest"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

func TestSQLiteKeepsTheContract(t *testing.T) {
	ledgertest.Run(t, sqliteStore)
	ledgertest.RunLocal(t, sqliteStore)
}

func sqliteStore(t testing.TB, kinds []ledger.Kind) ledgertest.Store {
	path := filepath.Join(t.TempDir(), "ledger.db")
	var mu sync.Mutex
	var l *sqlledger.Ledger
	var shift atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
	handle := func(t testing.TB) ledger.Ledger {
		mu.Lock()
		defer mu.Unlock()
		if l == nil {
			l = open(t, sqlledger.Config{URL: path, Kinds: kinds, Now: now})
		}
		return l
	}
	return ledgertest.Store{
		Replica: handle,
		Reopen: func(t testing.TB) ledger.Ledger {
			mu.Lock()
			l.Close()
			l = nil
			mu.Unlock()
			return handle(t)
		},
		Image: func(t testing.TB) ledger.Ledger { return image(t, path, kinds) },
		Raw:   func(t testing.TB) []byte { return raw(t, path) },
		Shift: func(d time.Duration) { shift.Add(int64(d)) },
	}
}

// image copies the files as they lie there. An open read transaction keeps the
// write-ahead log from being started anew meanwhile, so whatever is copied of
// the database half written is whole in the log.
func image(t testing.TB, path string, kinds []ledger.Kind) ledger.Ledger {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var seq int64
	if err := tx.QueryRow("SELECT seq FROM head").Scan(&seq); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "image.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return open(t, sqlledger.Config{URL: to, Kinds: kinds})
}

func raw(t testing.TB, path string) []byte {
	t.Helper()
	var all []byte
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

func TestPostgreSQLKeepsTheContract(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB, kinds []ledger.Kind) ledgertest.Store {
		url := postgres.Database(t)
		var mu sync.Mutex
		var all []*sqlledger.Ledger
		replica := func(t testing.TB) ledger.Ledger {
			l := open(t, sqlledger.Config{URL: url, Kinds: kinds})
			mu.Lock()
			defer mu.Unlock()
			all = append(all, l)
			return l
		}
		return ledgertest.Store{
			Replica: replica,
			Reopen: func(t testing.TB) ledger.Ledger {
				mu.Lock()
				for _, l := range all {
					l.Close()
				}
				all = nil
				mu.Unlock()
				return replica(t)
			},
		}
	})
}
