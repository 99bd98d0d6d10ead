package tofu

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
)

// Versions of the providers that [Config] gives, by their sources.
func Versions() map[string]string {
	out := map[string]string{}
	for _, b := range built.Providers {
		out[source(b)] = b.Version
	}
	return out
}

// source is the address of a provider as files of OpenTofu say it.
func source(b servers.Built) string {
	return "hashicorp/" + strings.TrimPrefix(b.Binary, "terraform-provider-")
}

// Config is a file of settings (TF_CLI_CONFIG_FILE) with which OpenTofu finds
// the providers random, local and time on this machine, and asks nobody for others.
// They are built where they are missing.
func Config(t testing.TB) string {
	t.Helper()
	if os.Getenv("DROVER_TEST_NO_PROVIDERS") == "1" {
		t.Skip("there are no providers of OpenTofu: `test/with-backends.sh true` brings them")
	}
	dir := t.TempDir()
	mirror := filepath.Join(dir, "providers")
	for _, b := range built.Providers {
		from, err := servers.Build(t.Context(), b, os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(mirror, "registry.opentofu.org", filepath.FromSlash(source(b)), b.Version, runtime.GOOS+"_"+runtime.GOARCH)
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(from, b.Binary), filepath.Join(to, b.Binary+"_v"+b.Version)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "tofu.rc")
	text := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n\tfilesystem_mirror {\n\t\tpath = %q\n\t}\n}\n", mirror)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}
