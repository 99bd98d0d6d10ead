package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/policy"
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

// What --log-retention says is done by a running server: what was replaced before that is
// dropped, and whoever asks for it is told from when on there is history. By default
// everything stays.
func TestLogRetentionTakesEffect(t *testing.T) {
	for _, c := range []struct {
		reason string
		keep   time.Duration
		status int
	}{
		{"for ever", 0, http.StatusOK},
		{"longer than that", 100 * time.Hour, http.StatusOK},
		{"for two days", 48 * time.Hour, http.StatusGone},
	} {
		t.Run(c.reason, func(t *testing.T) {
			settings := app.Settings{DataDir: t.TempDir(), LogRetention: c.keep}
			threeDaysAgo(t, settings.DataDir)
			s, _ := serve(t, settings)
			sealed := func() int64 {
				blocks, err := s.Store().Blocks(t.Context(), 0, 100)
				if err != nil {
					t.Fatal(err)
				}
				return int64(len(blocks))
			}
			for deadline := time.Now().Add(patience); sealed() < 2; { // the run that seals what the server has written drops, too
				if time.Now().After(deadline) {
					t.Fatal("nothing is sealed")
				}
				time.Sleep(10 * time.Millisecond)
			}
			var w *httptest.ResponseRecorder
			for range 100 {
				var err error
				if w, err = s.AskAsOperator(t.Context(), "/api/v1/changes?after=1"); err != nil {
					t.Fatal(err)
				}
				if w.Code == http.StatusGone {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			if w.Code != c.status {
				t.Errorf("the log from its beginning: %d %.300s", w.Code, w.Body)
			}
		})
	}
}

// threeDaysAgo makes a ledger in which something was written and replaced, and sealed, long
// ago.
func threeDaysAgo(t *testing.T, dir string) {
	t.Helper()
	at := time.Now().Add(-72 * time.Hour)
	now := func() time.Time { return at }
	master, err := ledger.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(dir, "drover.db"), Kinds: app.Kinds(), Key: master, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := ledger.Object{Ref: ledger.Ref{Kind: policy.KindQuota.Name, ID: "q"}, Name: "q"}
	for i := range 5 {
		o.Phase = fmt.Sprint("p", i)
		res, err := l.Commit(t.Context(), ledger.Set{Actor: "alice", Cause: ledger.ByRequest("r1"), Puts: []ledger.Put{{Op: "update", Object: o, Expect: o.Version}}})
		if err != nil {
			t.Fatal(err)
		}
		o = res.Objects[0]
	}
	var kinds []string
	for _, k := range app.Kinds() {
		kinds = append(kinds, k.Name)
	}
	room, err := audit.NewService(audit.Config{Store: l, Kinds: kinds, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := room.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
}
