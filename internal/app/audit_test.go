package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

// Whoever verifies where there is no ledger is told so, and none is made.
func TestVerifyMakesNoLedger(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]app.Settings{"a directory": {DataDir: dir}, "a database": {Database: postgres.Database(t)}} {
		for range 2 { // the second time, too: nothing was made by the first
			if got, err := app.Verify(t.Context(), app.Config{Settings: c}, nil, nil); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s without a ledger: %+v, %v", name, got, err)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestVerifyWithoutAServer(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]app.Settings{"a directory": {DataDir: dir, Database: "sqlite://" + filepath.Join(dir, "drover.db")}, "a database": {Database: postgres.Database(t)}} {
		l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: c.Database, Kinds: app.Kinds()})
		if err != nil {
			t.Fatal(err)
		}
		ref := ledger.Ref{Kind: app.Kinds()[0].Name, ID: "a"}
		if _, err := l.Commit(t.Context(), ledger.Set{Actor: "alice", Cause: ledger.ByRequest("r1"), Puts: []ledger.Put{{Op: "create", Object: ledger.Object{Ref: ref}}}}); err != nil {
			t.Fatal(err)
		}
		l.Close()
		c.Database = map[bool]string{true: "", false: c.Database}[c.DataDir != ""]
		if got, err := app.Verify(t.Context(), app.Config{Settings: c}, nil, nil); err != nil || got.Flaw != nil || got.Objects != 1 || got.Unsealed != 1 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
