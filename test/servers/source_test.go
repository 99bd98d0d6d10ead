package servers_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/servers"
)

func TestSource(t *testing.T) {
	for _, c := range []struct {
		reason  string
		changes []servers.Change
		says    string
		wrong   string // in the error; empty: it works
	}{
		{"files come along", nil, "everybody", ""},
		{"a change is compiled", []servers.Change{{File: "greet.go", Old: "everybody", New: "loopback"}}, "loopback", ""},
		{"a change that fits nowhere is told: the version is another one", []servers.Change{{File: "greet.go", Old: "nobody", New: "x"}}, "", "0 times"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			b := lay(t, "package main\n\nimport (\n\t\"os\"\n\n\t\"example.com/greet\"\n)\n\nfunc main() { os.Stdout.WriteString(greet.Whom) }\n")
			write(t, "made/go.mod", "module made\n\ngo 1.24\n\nrequire example.com/greet v1.0.0\n\nreplace example.com/greet => ../greet\n")
			write(t, "greet/go.mod", "module example.com/greet\n\ngo 1.24\n")
			write(t, "greet/greet.go", "package greet\n\nvar Whom = \"everybody\"\n")
			write(t, "greet/etc/deep/file.yaml", "a: 1\n")
			write(t, "greet/run.sh", "#!/bin/sh\n")
			b.Source = servers.Source{Path: "example.com/greet", Files: []string{"etc", "run.sh"}, Changes: c.changes}
			dir, err := servers.Build(t.Context(), b, io.Discard)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("got %v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if said, err := exec.Command(filepath.Join(dir, "server")).Output(); err != nil || string(said) != c.says {
				t.Errorf("it says %q, %v", said, err)
			}
			if data, err := os.ReadFile(filepath.Join(dir, "etc/deep/file.yaml")); err != nil || string(data) != "a: 1\n" {
				t.Errorf("the file is %q, %v", data, err)
			}
			if info, err := os.Stat(filepath.Join(dir, "run.sh")); err != nil || info.Mode()&0o100 == 0 {
				t.Errorf("the program cannot be run: %v, %v", info, err)
			}
			if original, _ := os.ReadFile("greet/greet.go"); !strings.Contains(string(original), "everybody") {
				t.Error("the source itself was changed")
			}
		})
	}
}

func TestAnotherChangeIsAnotherServer(t *testing.T) {
	b := lay(t, "package main\n\nfunc main() {}\n")
	seen := map[string]bool{}
	for _, s := range []servers.Source{{}, {Path: "a"}, {Path: "a", Files: []string{"b"}}, {Path: "a", Changes: []servers.Change{{File: "b", Old: "c", New: "d"}}}} {
		b.Source = s
		dir, err := b.Dir()
		if err != nil || seen[dir] {
			t.Errorf("%v has the place of another: %s, %v", s, dir, err)
		}
		seen[dir] = true
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
