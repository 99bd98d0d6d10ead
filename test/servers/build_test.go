package servers_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
)

func TestBuild(t *testing.T) {
	const good = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(version) }\n\nvar version string\n"
	for _, c := range []struct {
		reason, main, want string // in the error; empty: it works
	}{
		{"a module is compiled, once for all who ask", good, ""},
		{"what does not compile says why, and leaves nothing", "package main\n\nfunc main() { nothing() }\n", "undefined: nothing"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			b := lay(t, c.main)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					var out bytes.Buffer
					_, err := servers.Build(t.Context(), b, &out)
					if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
						t.Errorf("got %v, want %q", err, c.want)
					}
				})
			}
			wg.Wait()
			dir, err := b.Dir()
			if err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".server-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			path, err := b.Have("other")
			if c.want != "" {
				if err == nil {
					t.Errorf("%s is there", path)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if said, err := exec.Command(path).Output(); err != nil || string(said) != "1.2" {
				t.Errorf("it says %q, %v", said, err)
			}
		})
	}
}

func TestWhatAServerIsMadeOfIsInItsName(t *testing.T) {
	b := lay(t, "package main\n\nfunc main() {}\n")
	before, err := b.Dir()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		f, err := os.OpenFile(filepath.Join(b.Module, name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString("\n")
		f.Close()
		after, err := b.Dir()
		if err != nil || after == before {
			t.Errorf("another %s: %s, %v", name, after, err)
		}
		before = after
	}
}

// The version that is told and the one that is built are written down twice.
func TestVersionsAreThoseOfTheModules(t *testing.T) {
	for _, b := range built.All {
		mod, err := os.ReadFile(filepath.Join("..", "..", b.Module, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(mod), " v"+b.Version+"\n") {
			t.Errorf("%s: go.mod requires no v%s", b.Name, b.Version)
		}
		if strings.Contains(b.Flags, "version") && !regexp.MustCompile(`[vV]ersion=v?`+regexp.QuoteMeta(b.Version)+`( |$)`).MatchString(b.Flags) {
			t.Errorf("%s: the linker writes another version than %s", b.Name, b.Version)
		}
	}
}

// lay makes a module in a new working directory, with a cache of its own.
func lay(t *testing.T, main string) servers.Built {
	t.Helper()
	gocache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(gocache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	if err := os.Mkdir("made", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module made\n\ngo 1.24\n", "go.sum": "", "main.go": main} {
		if err := os.WriteFile(filepath.Join("made", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return servers.Built{
		Name: "server", Version: "1.2", Module: "made", Flags: "-X main.version=1.2", Binary: "server", Links: []string{"other"},
	}
}
