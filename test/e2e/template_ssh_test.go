package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/gitserver"
)

// A template out of a repository behind ssh: its host is verified, and the key is
// used once and kept nowhere.
func TestTemplateOverSSH(t *testing.T) {
	s := drover.Up(t)
	g := gitserver.Start(t)
	r := g.Repo(t, "team/shop")
	first := r.Commit(t, "main", map[string]gitserver.Entry{"deploy/template.yaml": gitserver.File(small("1.0.0"))})
	r.Tag(t, "v1", first, "")
	second := r.Commit(t, "main", map[string]gitserver.Entry{"deploy/template.yaml": gitserver.File(small("2.0.0"))})
	door, stranger := g.SSH(t), g.SSH(t)
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, other := file("key", door.Key), file("other", stranger.Key)
	hosts, elsewhere := file("hosts", []byte(door.KnownHosts)), file("elsewhere", []byte(stranger.KnownHosts))
	// The host has a key, and it is not the one that is known.
	name, _, _ := strings.Cut(door.KnownHosts, " ")
	_, strange, _ := strings.Cut(stranger.KnownHosts, " ")
	changed := file("changed", []byte(name+" "+strange))
	secret := strings.Split(strings.TrimSpace(string(door.Key)), "\n")[2]
	at := door.URL(r) + "//deploy"

	for _, tc := range []struct {
		reason string
		args   []string
	}{
		{"no host is known", []string{"--ssh-key", key}},
		{"another host is known", []string{"--ssh-key", key, "--known-hosts", elsewhere}},
		{"the host has another key", []string{"--ssh-key", key, "--known-hosts", changed}},
		{"the key is not taken", []string{"--ssh-key", other, "--known-hosts", hosts}},
		{"there is no key", []string{"--known-hosts", hosts}},
	} {
		before := door.Runs()
		out, errs, code := s.Run(append([]string{"template", "add", at}, tc.args...)...)
		if code == 0 || door.Runs() != before || strings.Contains(out+errs, secret) {
			t.Errorf("%s: ended with %d: %s%s", tc.reason, code, out, errs)
		}
	}
	good := []string{"--ssh-key", key, "--known-hosts", hosts}
	for source, want := range map[string]string{at: "commit " + second[:12], at + "@v1": "commit " + first[:12]} {
		if out := goes(t, s, append([]string{"template", "add", source}, good...)...); !strings.Contains(out, want) {
			t.Errorf("%s: %s", source, out)
		}
	}
	goes(t, s, "env", "create", "x", "--template", "small@1.0.0", "--wait")
	for _, kind := range []string{"templates", "templateversions", "audits"} {
		if out := goes(t, s, "get", kind, "-o", "yaml"); strings.Contains(out, secret) {
			t.Errorf("%s show the key", kind)
		}
	}
	if strings.Contains(s.Log(), secret) {
		t.Error("the log shows the key")
	}
}
