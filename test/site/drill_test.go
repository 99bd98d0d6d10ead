//go:build e2e

package site

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

// A rehearsal promotes a copy and verifies it, and tells what the secondary lacks; neither
// site notices, and nothing is left behind.
func TestDrill(t *testing.T) {
	w := pair(t, given{})
	dir, err := os.MkdirTemp("", "drover-test-") // the user that PostgreSQL runs as must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	for _, name := range []string{"rex", "tina"} {
		if err := order(t.Context(), call(t, w.a), name); err != nil {
			t.Fatal(err)
		}
	}
	stdout, stderr, code := w.b.Run("dr", "drill", "--database", w.second.URL(w.name), "--master-key-file", w.key, "-o", "json")
	var d v1.Drill
	if err := json.Unmarshal([]byte(stdout), &d); code != 0 || err != nil {
		t.Fatalf("drover dr drill: %d %s%s", code, stdout, stderr)
	}
	if d.Epoch != 2 || d.Seq == 0 || d.RTO <= 0 || d.Verification.Flaw != nil || d.Verification.Changes == 0 {
		t.Errorf("the drill went %+v", d)
	}
	shown, stderr, code := w.b.Run("dr", "drill", "--database", w.second.URL(w.name))
	if code != 0 || !strings.Contains(shown, "RPO") || !strings.Contains(shown, "RTO") {
		t.Errorf("for people: %d %s%s", code, shown, stderr)
	}
	t.Logf("\n%s", shown)
	behind(t, w)
	if left, _ := filepath.Glob(filepath.Join(dir, "drover-drill-*")); len(left) > 0 {
		t.Errorf("the copy is still there: %v", left)
	}
	a, err := call(t, w.a).Site(t.Context())
	b, err2 := call(t, w.b).Site(t.Context())
	if err != nil || err2 != nil || a.State != "leading" || a.Epoch != 1 || b.State != "following" || b.Epoch != 1 {
		t.Errorf("the sites are %+v and %+v: %v %v", a, b, err, err2)
	}
}

// behind has a drill while the standby does not apply what it is sent.
func behind(t *testing.T, w *world) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), w.second.URL(w.name))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	if _, err := db.Exec(t.Context(), "SELECT pg_wal_replay_pause()"); err != nil {
		t.Fatal(err)
	}
	defer postgres.Exec(t, w.second.URL(w.name), "SELECT pg_wal_replay_resume()")
	drover.Until(t, "the standby to stand still", func() bool {
		var state string
		return db.QueryRow(t.Context(), "SELECT pg_get_wal_replay_pause_state()").Scan(&state) == nil && state == "paused"
	})
	a, b := call(t, w.a), call(t, w.b)
	still, err := b.Site(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"anna", "bert", "cleo"} {
		if err := order(t.Context(), a, name); err != nil {
			t.Fatal(err)
		}
	}
	const most = 3 // seconds
	drover.Until(t, "the secondary to know that it is behind", func() bool {
		at, err := b.Site(t.Context())
		return err == nil && at.Peer.Seq >= still.Seq+3 && at.Lag != nil && at.Lag.Seconds >= most
	})
	stdout, stderr, code := w.b.Run("dr", "drill", "--database", w.second.URL(w.name), "-o", "json")
	var d v1.Drill
	if err := json.Unmarshal([]byte(stdout), &d); code != 0 || err != nil {
		t.Fatalf("drover dr drill: %d %s%s", code, stdout, stderr)
	}
	lead, err := a.Site(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Changes < 3 || d.Changes > lead.Seq-still.Seq || d.RPO < most {
		t.Errorf("the secondary lacks three orders, or more, of %d s ago: %+v", most, d)
	}
}
