//go:build e2e

package site

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/api/client/keypair"
	"github.com/droverhq/drover/test/drover"
)

// Both sites have certificates of an authority of their own, and speak with nobody who has
// none: they hear each other, the command line hears both, and the old primary is fenced.
func TestSitesOverTLS(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	ca := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(drover.Binary(), append(append([]string{"ca"}, args...), "--dir", dir)...).CombinedOutput(); err != nil {
			t.Fatalf("drover ca %v: %v: %s", args, err, out)
		}
	}
	files := func(name string) keypair.Files {
		at := filepath.Join(dir, "issued", name)
		return keypair.Files{CA: filepath.Join(dir, "ca.crt"), Certificate: at + ".crt", Key: at + ".key"}
	}
	ca("init")
	ca("issue", "client", "admin")
	for _, site := range []string{"east", "west"} {
		ca("issue", "server", site, "--host", "127.0.0.1")
		ca("issue", "client", site)
	}
	w := pair(t, given{files: files("client-admin"), args: func(site string) []string {
		own, shown := files("server-"+site), files("client-"+site)
		return []string{
			"--tls-certificate-file", own.Certificate, "--tls-key-file", own.Key, "--tls-client-ca-file", own.CA, "--tls-client-auth", "all",
			"--site-options", "ca=" + shown.CA + ",certificate=" + shown.Certificate + ",key=" + shown.Key,
		}
	}})
	stdout, stderr, code := w.b.Run("dr", "status", "-o", "json", "--ca-file", files("").CA)
	if code != 0 || strings.Count(stdout, `"role"`) != 2 || !strings.Contains(stdout, `"role": "primary"`) { // what was only heard of has none
		t.Errorf("drover dr status: %d %s%s", code, stdout, stderr)
	}
	if err := order(t.Context(), call(t, w.b), "late"); client.Status(err) != 421 || !strings.Contains(err.Error(), w.a.URL()) {
		t.Errorf("the secondary answers a write with %v", err)
	}
	w.a.Kill()
	if stdout, stderr, code := w.b.Run("dr", "promote", "--primary-is-gone"); code != 0 {
		t.Fatalf("drover dr promote: %d %s%s", code, stdout, stderr)
	}
	if err := order(t.Context(), call(t, w.b), "after"); err != nil {
		t.Fatalf("the promoted site takes no writes: %v", err)
	}
	if err := w.a.Launch(); err != nil {
		t.Fatal(err)
	}
	saying(t, w.a, "fenced", "epoch 2")
}
