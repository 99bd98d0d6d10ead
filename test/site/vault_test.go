//go:build e2e

package site

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/openbao"
)

// The site of the primary is gone, and the vault with it: what opened the database and
// guards the secrets is known here, and the other site is promoted with that. A primary that
// has lost its lease and has it again needs nobody, either.
func TestSiteIsGoneWithTheVault(t *testing.T) {
	bao := openbao.Start(t)
	ask := func(path string, in any) {
		t.Helper()
		if err := bao.API().Ask(t.Context(), http.MethodPost, "/v1/"+path, in, nil); err != nil {
			t.Fatal(err)
		}
	}
	ask("sys/mounts/transit", map[string]string{"type": "transit"})
	ask("transit/keys/drover", nil)
	ask("sys/mounts/kv", map[string]string{"type": "kv"})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(bao.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	w := pair(t, given{
		before: func(w *world) {
			at, err := url.Parse(w.first.URL(w.name))
			if err != nil {
				t.Fatal(err)
			}
			password, _ := at.User.Password()
			ask("kv/database", map[string]string{"username": at.User.Username(), "password": password})
		},
		args: func(string) []string {
			return []string{"--vault", bao.URL, "--vault-options", "token-file=" + token, "--master-key-transit", "transit/keys/drover", "--database-credentials", "vault:kv/database"}
		},
	})
	if key, err := os.ReadFile(w.key); err != nil || !strings.HasPrefix(string(key), "vault:v") {
		t.Fatalf("the key is not wrapped: %v", err)
	}
	w.a.Kill()
	w.first.Kill()
	if err := bao.Kill(); err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, code := w.b.Run("dr", "promote", "--primary-is-gone"); code != 0 {
		t.Fatalf("drover dr promote: %d %s%s", code, stdout, stderr)
	}
	if err := order(t.Context(), call(t, w.b), "after"); err != nil {
		t.Fatalf("the promoted site takes no writes: %v", err)
	}
	drover.Until(t, "the doctor to say that the vault is away", func() bool {
		stdout, _, _ := w.b.Run("doctor")
		return strings.Contains(stdout, "the database")
	})
}
