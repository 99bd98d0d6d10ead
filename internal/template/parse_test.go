package template_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/template"
)

var update = flag.Bool("update", false, "write the golden files")

// load reads a directory as a source would.
func load(t testing.TB, dir string) source.Tree {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree(files)
}

// Everything that is wrong is told at once, with its file and line.
func TestAllMistakes(t *testing.T) {
	_, err := template.Parse(t.Context(), load(t, "testdata/mistakes"), "shop", around)
	var mistakes document.Mistakes
	if !fault.Is(err, fault.Invalid) || !errors.As(err, &mistakes) {
		t.Fatalf("got %v", err)
	}
	golden := "testdata/mistakes.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, readErr := os.ReadFile(golden)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(err.Error()+"\n", "\n")); diff != "" {
		t.Error(diff)
	}
}
