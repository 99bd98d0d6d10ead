//go:build unix

package directory_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/source/directory"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o600)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o700
		}
		if err := os.WriteFile(at, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, at source.Location, limits source.Limits) (source.Tree, error) {
	t.Helper()
	return directory.Source{}.Read(t.Context(), at, source.Credential{}, limits)
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"template.yaml": "a", "files/run.sh": "b", ".git/config": "c", "sub/.git": "gitdir: x", "sub/x": "d"})
	tree, err := read(t, source.Location{Repository: dir}, source.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]source.File{"template.yaml": {Data: []byte("a")}, "files/run.sh": {Data: []byte("b"), Exec: true}, "sub/x": {Data: []byte("d")}}
	if diff := cmp.Diff(want, tree.Files); diff != "" {
		t.Error(diff)
	}
	again, err := read(t, source.Location{Repository: dir + "/"}, source.Limits{})
	if err != nil || again.Commit != tree.Commit || !strings.HasPrefix(tree.Commit, "dir-") {
		t.Errorf("the same files are %s and %s (%v)", tree.Commit, again.Commit, err)
	}
	write(t, dir, map[string]string{"template.yaml": "A"})
	if again, err = read(t, source.Location{Repository: dir}, source.Limits{}); err != nil || again.Commit == tree.Commit {
		t.Errorf("other files are %s too (%v)", again.Commit, err)
	}
	part, err := read(t, source.Location{Repository: dir, Path: "files"}, source.Limits{})
	if err != nil || len(part.Files) != 1 || !part.Files["run.sh"].Exec {
		t.Errorf("a subdirectory: %v, %v", part.Files, err)
	}
}

func TestRefuses(t *testing.T) {
	cases := []struct {
		reason string
		files  map[string]string
		make   func(dir string) error
		at     source.Location
		limits source.Limits
		kind   fault.Kind
		says   string
	}{
		{reason: "a link out of it", make: func(dir string) error { return os.Symlink("/etc/passwd", dir+"/a.yaml") }, kind: fault.Invalid, says: `"a.yaml" is a symbolic link`},
		{reason: "a link within it", files: map[string]string{"b": "b"}, make: func(dir string) error { return os.Symlink("b", dir+"/a") }, kind: fault.Invalid, says: `"a" is a symbolic link`},
		{reason: "a link to a directory", make: func(dir string) error { return os.Symlink("/etc", dir+"/etc") }, kind: fault.Invalid, says: `"etc" is a symbolic link`},
		{reason: "a subdirectory through a link", make: func(dir string) error { return os.Symlink("/", dir+"/sub") }, at: source.Location{Path: "sub/etc"}, kind: fault.Invalid, says: `"sub" is no directory`},
		{reason: "a pipe", make: func(dir string) error { return syscall.Mkfifo(dir+"/pipe", 0o600) }, kind: fault.Invalid, says: "no regular file"},
		{reason: "a subdirectory above it", at: source.Location{Path: "../x"}, kind: fault.Invalid, says: "leads out of"},
		{reason: "no such subdirectory", at: source.Location{Path: "x"}, kind: fault.NotFound, says: "no directory"},
		{reason: "a revision", at: source.Location{Revision: "main"}, kind: fault.Invalid, says: "no revisions"},
		{reason: "too many files", files: map[string]string{"a": "", "b": "", "c": ""}, limits: source.Limits{Files: 2}, kind: fault.Invalid, says: "more than 2 files"},
		{reason: "a large file", files: map[string]string{"a": "12345"}, limits: source.Limits{File: 4}, kind: fault.Invalid, says: `"a" is larger than 4 bytes`},
		{reason: "large files together", files: map[string]string{"a": "123", "b": "123"}, limits: source.Limits{File: 4, Bytes: 5}, kind: fault.Invalid, says: "together"},
		{reason: "a gigabyte that takes no room", make: func(dir string) error {
			f, err := os.Create(dir + "/big")
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Truncate(1 << 30)
		}, kind: fault.Invalid, says: `"big" is larger`},
		{reason: "an odd name", files: map[string]string{`a\b`: ""}, kind: fault.Invalid, says: "backslash"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, c.files)
			if c.make != nil {
				if err := c.make(dir); err != nil {
					t.Fatal(err)
				}
			}
			c.at.Repository = dir
			_, err := read(t, c.at, c.limits)
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (%v)", err, fault.Of(err))
			}
		})
	}
	if _, err := read(t, source.Location{Repository: filepath.Join(t.TempDir(), "none")}, source.Limits{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if _, err := read(t, source.Location{Repository: "https://host/repo"}, source.Limits{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a repository: %v", err)
	}
}
