//go:build e2e

package tofu_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/tofu"
)

const template = `
terraform {
  required_providers {
    random = { source = "hashicorp/random", version = "~> 3.0" }
    local  = { source = "hashicorp/local" }
    time   = { source = "hashicorp/time" }
  }
}
resource "random_id" "name" { byte_length = 4 }
resource "time_static" "made" {}
resource "local_file" "out" {
  filename = "${path.module}/out"
  content  = "${random_id.name.hex} ${time_static.made.unix}"
}
`

// run lets OpenTofu do something in a directory.
func run(t *testing.T, dir, config string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tofu.Path(t), args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TF_CLI_CONFIG_FILE=" + config, "TF_IN_AUTOMATION=1"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestProvidersMakeAndUnmake(t *testing.T) {
	config, dir := tofu.Config(t), write(t, template)
	for _, args := range [][]string{{"init", "-input=false"}, {"apply", "-auto-approve", "-input=false"}} {
		if out, err := run(t, dir, config, args...); err != nil {
			t.Fatalf("%s: %v: %s", args[0], err, out)
		}
	}
	if made, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || len(strings.Fields(string(made))) != 2 {
		t.Errorf("made %q, %v", made, err)
	}
	said, err := run(t, dir, config, "version")
	if err != nil {
		t.Fatal(err)
	}
	for source, version := range tofu.Versions() {
		if want := "registry.opentofu.org/" + source + " v" + version; !strings.Contains(said, want) {
			t.Errorf("it has no %s: %s", want, said)
		}
	}
	if out, err := run(t, dir, config, "destroy", "-auto-approve", "-input=false"); err != nil {
		t.Fatalf("destroy: %v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "out")); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// Providers of clouds are not here to be asked whether they like them.
func TestModulesOfExamplesAreWellFormed(t *testing.T) {
	modules, err := filepath.Glob("../../examples/*/*/*.tf")
	if err != nil || len(modules) < 3 {
		t.Fatalf("the modules are %v, %v", modules, err)
	}
	for _, module := range modules {
		text, err := os.ReadFile(module)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run(t, write(t, string(text)), "", "fmt", "-check", "-diff"); err != nil {
			t.Errorf("%s: %v: %s", module, err, out)
		}
	}
	if out, err := run(t, write(t, "output {"), "", "fmt", "-check"); err == nil {
		t.Errorf("what is no module is one: %s", out)
	}
}

func TestOtherProvidersAreNotFetched(t *testing.T) {
	dir := write(t, `terraform { required_providers { other = { source = "hashicorp/null" } } }`)
	out, err := run(t, dir, tofu.Config(t), "init", "-input=false")
	if err == nil || !strings.Contains(out, "hashicorp/null") {
		t.Errorf("got %v: %s", err, out)
	}
}
