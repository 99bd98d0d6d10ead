package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // whoever edits the database has a driver of his own

	"github.com/droverhq/drover/test/drover"
)

// Somebody edits the log with SQL: `drover ledger verify` names the change, with and
// without the server, and holds again once it is as it was.
func TestVerifyFindsAnEdit(t *testing.T) {
	s := drover.Up(t)
	goes(t, s, "create", "dinosaur", "rex", "--wait")
	heads := filepath.Join(t.TempDir(), "heads.txt")
	drover.Until(t, "rex to be sealed", func() bool {
		out, _, code := s.Run("audit", "--name", "rex", "--all", "-o", "jsonl")
		if code != 0 || out == "" {
			return false
		}
		heads := goes(t, s, "ledger", "heads")
		return strings.Contains(heads, "\nhead ") && sealedUpTo(heads) >= seqOf(t, out)
	})
	if err := os.WriteFile(heads, []byte(goes(t, s, "ledger", "heads")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if out := goes(t, s, "ledger", "verify", "--against", heads); !strings.Contains(out, "It holds") {
		t.Errorf("before the edit: %s", out)
	}
	db, err := sql.Open("sqlite", filepath.Join(s.DataDir, "drover.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	edit := func(text string, args ...any) {
		t.Helper()
		if r, err := db.Exec(text, args...); err != nil {
			t.Fatal(err)
		} else if n, _ := r.RowsAffected(); n != 1 {
			t.Fatalf("%d changes were edited", n)
		}
	}
	var seq int64
	var actor, state string
	if err := db.QueryRow(`SELECT seq, actor, state FROM log WHERE kind = 'instance' ORDER BY seq LIMIT 1`).Scan(&seq, &actor, &state); err != nil {
		t.Fatal(err)
	}
	flaw := fmt.Sprintf("FLAW:      content, change %d, ", seq)
	for _, e := range []struct{ reason, column, was, is string }{
		{"who did it", "actor", actor, "bob"},
		{"a byte of what was done", "state", state, strings.Replace(state, "rex", "rox", 1)},
	} {
		if e.was == e.is {
			t.Fatalf("%s: there is nothing to edit in %s", e.reason, e.was)
		}
		edit("UPDATE log SET "+e.column+" = ? WHERE seq = ?", e.is, seq)
		if out := fails(t, s, 1, "ledger", "verify", "--against", heads); !strings.Contains(out, flaw) {
			t.Errorf("%s: %s", e.reason, out)
		}
		s.Start(t)
		if out, code := asked(t, s); code != 1 || !strings.Contains(out, flaw) {
			t.Errorf("%s, said by the server: %d %s", e.reason, code, out)
		}
		s.Stop()
		edit("UPDATE log SET "+e.column+" = ? WHERE seq = ?", e.was, seq)
	}
	if out := goes(t, s, "ledger", "verify", "--against", heads); !strings.Contains(out, "It holds") {
		t.Errorf("after it was put back: %s", out)
	}
}

// sealedUpTo is the newest change that a head is about.
func sealedUpTo(heads string) (seq int64) {
	for _, m := range regexp.MustCompile(`(?m)^head \d+ change (\d+) `).FindAllStringSubmatch(heads, -1) {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		seq = max(seq, n)
	}
	return seq
}

// seqOf is the newest change of an audit in JSON Lines.
func seqOf(t *testing.T, lines string) (seq int64) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var one struct{ Seq int64 }
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		seq = max(seq, one.Seq)
	}
	return seq
}

// asked has the server verify: without --data-dir, which means without one.
func asked(t *testing.T, s *drover.Server) (out string, code int) {
	t.Helper()
	cmd := exec.Command(drover.Binary(), "ledger", "verify", "--server", s.URL(), "--token", admin(t, s))
	cmd.Env = append(os.Environ(), "DROVER_CONFIG=")
	said, _ := cmd.CombinedOutput() // the code tells
	return string(said), cmd.ProcessState.ExitCode()
}
