package file_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/executor/file"
	"github.com/droverhq/drover/internal/fault"
)

func TestContract(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "files")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	at := func(n int) string { return fmt.Sprintf("things/%d/thing.txt", n) }
	whole := func(n int) string { return filepath.Join(dir, filepath.FromSlash(at(n))) }
	put := func(t testing.TB, name, content string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	edits := 0
	executortest.Run(t, executortest.Config{
		Lives: 100, Executor: file.New(), Connection: executor.Connection{"directory": dir},
		Inputs: func(n int, s executortest.Shape) map[string]any {
			in := map[string]any{"path": at(n), "content": "one", "mode": "0640"}
			switch s {
			case executortest.Changed:
				in["content"] = "two"
			case executortest.Moved:
				in["path"] = fmt.Sprintf("moved/%d.txt", n)
			case executortest.Later:
				in["content"] = executor.Unknown{}
			case executortest.Veiled:
				in["content"] = executor.NewSecret(executortest.Canary)
			}
			return in
		},
		Look: func(t testing.TB) map[string]string { return files(t, dir) },
		Take: func(t testing.TB, n int) { put(t, whole(n), "theirs") },
		Edit: func(t testing.TB, n int) { edits++; put(t, whole(n), fmt.Sprint("edit ", edits)) },
		Delete: func(t testing.TB, n int) {
			if err := os.Remove(whole(n)); err != nil {
				t.Fatal(err)
			}
		},
		Beside: func(t testing.TB, n int) string {
			put(t, filepath.Join(filepath.Dir(whole(n)), "stray"), "theirs")
			return fmt.Sprintf("things/%d/stray", n)
		},
		Down: func(t testing.TB) func() {
			if err := os.Rename(dir, dir+".away"); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := os.Rename(dir+".away", dir); err != nil {
					t.Fatal(err)
				}
			}
		},
	})
	left, err := os.ReadDir(filepath.Join(dir, ".drover"))
	if err != nil || len(left) > 0 {
		t.Errorf("the index still has %v, %v", left, err)
	}
}

// files of a directory with their content, without the index.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".drover" {
				return fs.SkipDir
			}
			return err
		}
		data, err := os.ReadFile(name)
		info, _ := d.Info()
		out[name] = fmt.Sprint(info.Mode(), " ", string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func resource(dir, path string) executor.Resource {
	return executor.Resource{
		ID: "res-1", Address: "f", Connection: executor.Connection{"directory": dir},
		Inputs: map[string]any{"path": path, "content": "x"}, Log: io.Discard,
	}
}

func TestPathsStayInside(t *testing.T) {
	top := t.TempDir()
	dir, out := filepath.Join(top, "in"), filepath.Join(top, "out")
	for _, d := range []string{dir, out} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(out, "folder")
	link("../out", "near")
	link(filepath.Join(out, "x"), "leaf")
	for _, tc := range []struct{ reason, path string }{
		{"up", "../out/x"},
		{"up from below", "a/../../out/x"},
		{"absolute", filepath.Join(out, "x")},
		{"through a link to elsewhere", "folder/x"},
		{"through a relative link", "near/x"},
		{"a link itself", "leaf"},
		{"the directory", "."},
		{"nothing", ""},
		{"a folder", "a/"},
		{"the index", ".drover/x.json"},
		{"the index by a detour", "a/../.drover/x"},
		{"the index in capitals", ".DROVER/x"},
		{"a zero byte", "a\x00b"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			r := resource(dir, tc.path)
			for name, call := range map[string]func() error{
				"plan":  func() error { _, err := file.New().Plan(t.Context(), r); return err },
				"apply": func() error { _, err := file.New().Apply(t.Context(), r); return err },
			} {
				err := call()
				if name == "apply" && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Conflict) {
					t.Errorf("%s: got %v", name, err)
				}
			}
			if _, err := file.New().Destroy(t.Context(), r); err != nil && !fault.Is(err, fault.Invalid) {
				t.Errorf("destroy: %v", err)
			}
			if got := files(t, out); len(got) > 0 {
				t.Fatalf("outside are %v", got)
			}
		})
	}
}

func TestConnection(t *testing.T) {
	for _, tc := range []struct {
		reason string
		c      executor.Connection
		kind   fault.Kind
	}{
		{"no directory", executor.Connection{}, fault.Invalid},
		{"a relative one depends on where the server was started", executor.Connection{"directory": "files"}, fault.Invalid},
		{"a misspelt option", executor.Connection{"dir": "/x"}, fault.Invalid},
		{"one that is not there may be on a disk that is not mounted", executor.Connection{"directory": filepath.Join(t.TempDir(), "none")}, fault.Unavailable},
	} {
		r := resource("", "x")
		r.Connection = tc.c
		if _, err := file.New().Observe(t.Context(), r); !fault.Is(err, tc.kind) {
			t.Errorf("%s: got %v, want %v", tc.reason, err, tc.kind)
		}
	}
}

// Somebody who comes between the entry and the file is not overwritten, nor is
// what he made taken for ours after a crash.
func TestSomebodyIsFaster(t *testing.T) {
	dir := t.TempDir()
	r := resource(dir, "x")
	r.Save = func(context.Context, []byte) error {
		return os.WriteFile(filepath.Join(dir, "x"), []byte("theirs"), 0o644)
	}
	for range 2 {
		if _, err := file.New().Apply(t.Context(), r); fault.Reason(err) != "not-ours" {
			t.Errorf("got %v", err)
		}
	}
	if _, err := file.New().Destroy(t.Context(), r); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "x")); string(data) != "theirs" {
		t.Errorf("theirs is %q, %v", data, err)
	}
}

func TestLongContentIsShownByItsDigest(t *testing.T) {
	r := resource(t.TempDir(), "x")
	r.Inputs["content"] = strings.Repeat("long ", 1000)
	c, err := file.New().Plan(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Fields {
		if s, ok := f.After.(string); ok && len(s) > 100 {
			t.Errorf("%s is shown with %d bytes", f.Path, len(s))
		}
	}
}

// Whatever a path is, nothing is written outside of the directory.
func FuzzPath(f *testing.F) {
	for _, p := range []string{"a", "a/b", "../x", "/etc/x", "a/../../x", ".drover/x", "link/x", "./a", "a//b", "a\\..\\b", "\x00", "con", strings.Repeat("a/", 100) + "x"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		top := t.TempDir()
		dir := filepath.Join(top, "in")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(top, "out"), 0o700), os.Symlink("../out", filepath.Join(dir, "link"))); err != nil {
			t.Fatal(err)
		}
		r := resource(dir, path)
		res, err := file.New().Apply(t.Context(), r)
		if err == nil && !strings.HasPrefix(fmt.Sprint(res.Outputs["path"]), dir+string(filepath.Separator)) {
			t.Errorf("%q became %v", path, res.Outputs["path"])
		}
		if entries, _ := os.ReadDir(filepath.Join(top, "out")); len(entries) > 0 {
			t.Errorf("%q is outside", path)
		}
		if entries, _ := os.ReadDir(top); len(entries) != 2 {
			t.Errorf("%q is above", path)
		}
		r.Outputs = res.Outputs
		if _, err := file.New().Destroy(t.Context(), r); err == nil {
			if left, _ := os.ReadDir(dir); len(left) > 2 {
				t.Errorf("%q leaves %v", path, left)
			}
		}
	})
}
