//go:build e2e

package site

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
)

// A rehearsal promotes a copy and verifies it; neither site notices, and nothing is
// left behind.
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
	if left, _ := filepath.Glob(filepath.Join(dir, "drover-drill-*")); len(left) > 0 {
		t.Errorf("the copy is still there: %v", left)
	}
	a, err := call(t, w.a).Site(t.Context())
	b, err2 := call(t, w.b).Site(t.Context())
	if err != nil || err2 != nil || a.State != "leading" || a.Epoch != 1 || b.State != "following" || b.Epoch != 1 {
		t.Errorf("the sites are %+v and %+v: %v %v", a, b, err, err2)
	}
}
