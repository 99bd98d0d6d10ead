package git_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/source/git"
)

// Of a commit that is too large as a whole the directory is read that is asked for,
// where the server can leave out the rest.
func TestLargeBesideTheDirectory(t *testing.T) {
	r := newRepository(t)
	bare := filepath.Join(r.dir, "repo.git")
	noise := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	work := filepath.Join(r.dir, "work")
	for name, data := range map[string][]byte{"shop/deep/x": []byte("deep"), "bulk": noise, "shops/huge/y": noise[:2<<20]} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, work, "add", "-A")
	run(t, work, "commit", "-q", "-m", "large")
	run(t, work, "push", "-q", bare, "trunk:refs/heads/large")
	for _, c := range []struct {
		reason, permissive, path string
		says                     string // empty: it is read
	}{
		{"a server that leaves files out", "true", "shop", ""},
		{"one that does not", "false", "shop", "too large"},
		{"the whole of it", "true", "", "too large"},
		{"a directory that is too large itself", "true", "shops", "too large"},
		{"a directory that is not there", "true", "nowhere", "no directory"},
	} {
		for _, name := range []string{"allowAnySHA1InWant", "allowFilter"} {
			run(t, bare, "config", "uploadpack."+name, c.permissive)
		}
		for _, repo := range []string{r.http(t, nil), "file://" + bare} {
			at := source.Location{Repository: repo, Revision: "large", Path: c.path}
			tree, err := git.Source{Local: true}.Read(t.Context(), at, source.Credential{}, source.Limits{Bytes: 1 << 20})
			switch {
			case c.says != "":
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v", c.reason, err)
				}
			case err != nil || len(tree.Files) != 3 || string(tree.Files["deep/x"].Data) != "deep" || !tree.Files["run.sh"].Exec || tree.Message != "large":
				t.Errorf("%s: %d files, %v", c.reason, len(tree.Files), err)
			}
		}
	}
}

// Where others have all of the memory for large repositories a large one is told
// to come again, and a small one is read.
func TestManyLargeAtOnce(t *testing.T) {
	read := func(size int) error {
		p := &pack{}
		tip := p.commit(p.tree(entry{file, "a", p.blob(strings.Repeat("x", size))}))
		_, err := git.Source{}.Read(t.Context(), serve(t, tip, bytes.NewReader(p.bytes())), source.Credential{}, source.Limits{File: 16 << 20})
		return err
	}
	before := git.Held()
	for _, c := range []struct {
		reason         string
		readers, bytes int64
		size           int
		busy           bool
	}{
		{"others have the memory", 1, 250 << 20, 11 << 20, true},
		{"they have left just enough", 1, 250 << 20, 9 << 20, false},
		{"others are being read", 4, 0, 5 << 20, true},
		{"one less is", 3, 0, 5 << 20, false},
		{"a small one, whatever others have", 9, 512 << 20, 1 << 20, false},
		{"nobody has anything", 0, 0, 11 << 20, false},
	} {
		release := git.Hold(c.readers, c.bytes)
		err := read(c.size)
		release()
		if c.busy != (fault.Is(err, fault.Unavailable) && fault.Reason(err) == "busy") || !c.busy && err != nil {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
	if now := git.Held(); now != before {
		t.Errorf("not all was given back: %v, it was %v", now, before)
	}
}
