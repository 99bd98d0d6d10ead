//go:build e2e && linux

package bootstrap_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What `make bootstrap` brings before it calls the binary, and what it says where it cannot.
func TestFromAClone(t *testing.T) {
	for _, tc := range []struct {
		reason string
		args   string
		has    []string // programs on PATH, or files in the cache
		engine string   // its exit code; nothing: there is none
		fetch  string   // likewise
		calls  string   // what was called, in order
		code   int
		says   string
	}{
		{"nothing is there", "", nil, "", "0",
			"go run ./test/servers/fetch consul openbao; drover bootstrap --location local", 0, "there is no consul openbao"},
		{"one is on PATH", "", []string{"bin/consul"}, "", "0",
			"go run ./test/servers/fetch openbao; drover bootstrap --location local", 0, "there is no openbao"},
		{"both were built before, in whatever version", "--location local --port 9000", []string{"cache/drover/consul-1.2/consul", "cache/drover/openbao-1/bao"}, "", "1",
			"drover bootstrap --location local --port 9000", 0, ""},
		{"they cannot be built", "", nil, "", "1",
			"go run ./test/servers/fetch consul openbao", 1, "put the programs consul and bao on PATH"},
		{"the image is built on the way", "", []string{"bin/consul", "bin/bao"}, "0", "1",
			"engine build -f deploy/Containerfile -t droverhq/drover:v1 .; drover bootstrap --location local", 0, "droverhq/drover:v1 is on this machine"},
		{"the image cannot be built, and nobody needs it", "", []string{"bin/consul", "bin/bao"}, "1", "1",
			"engine build -f deploy/Containerfile -t droverhq/drover:v1 .; drover bootstrap --location local", 0, "could not be built"},
		{"a look makes nothing", "--dry-run", nil, "0", "0", "drover bootstrap --dry-run", 0, ""},
		{"another verb makes nothing", "destroy --yes", nil, "0", "0", "drover bootstrap destroy --yes", 0, ""},
		{"Kubernetes needs no servers of this machine", "--location=prod", nil, "0", "1",
			"engine build -f deploy/Containerfile -t droverhq/drover:v1 .; drover bootstrap --location=prod", 0, "must be able to pull it"},
		{"Kubernetes, and the image cannot be built", "--location prod", nil, "1", "1",
			"engine build -f deploy/Containerfile -t droverhq/drover:v1 .", 1, "name it with --image"},
		{"Kubernetes, and nothing builds images", "--location prod", nil, "", "1", "", 1, "neither docker nor podman"},
		{"Kubernetes with an image of one's own", "--location prod --image mine/drover:1", nil, "1", "1",
			"drover bootstrap --location prod --image mine/drover:1", 0, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			dir := t.TempDir()
			log := filepath.Join(dir, "calls")
			program := func(path, name, code string) string {
				t.Helper()
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				text := "#!/bin/sh\necho \"" + name + " $*\" >>" + log + "\nexit " + code + "\n"
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
				return path
			}
			env := []string{"HOME=" + dir, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"), "PATH=" + filepath.Join(dir, "bin"), "VERSION=v1",
				"GO=" + program("go", "go", tc.fetch), "DROVER=" + program("drover", "drover", "0")}
			if tc.engine != "" {
				env = append(env, "ENGINE="+program("engine", "engine", tc.engine))
			}
			for _, path := range tc.has {
				program(path, "never", "1")
			}
			cmd := exec.Command("/bin/sh", append([]string{"deploy/bootstrap.sh"}, strings.Fields(tc.args)...)...)
			cmd.Dir, cmd.Env = "../..", env
			var said strings.Builder
			cmd.Stdout, cmd.Stderr = &said, &said
			_ = cmd.Run()
			called, err := os.ReadFile(log)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Split(strings.TrimSpace(string(called)), "\n"), "; "); got != tc.calls {
				t.Errorf("it called %q, want %q", got, tc.calls)
			}
			if code := cmd.ProcessState.ExitCode(); code != tc.code || !strings.Contains(said.String(), tc.says) || tc.says == "" && said.Len() > 0 {
				t.Errorf("it ended with %d, want %d, and said %q, want %q", code, tc.code, said.String(), tc.says)
			}
		})
	}
}
