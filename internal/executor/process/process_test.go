//go:build linux

package process_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/executor/process"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/program"
)

// sleeper runs until it is ended, with a child, and heeds nothing.
const sleeper = `echo up; sleep 1000 & wait`

func name(n int) string { return fmt.Sprintf("thing-%d", n) }

func TestContract(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "programs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := executor.Connection{"directory": dir}
	t.Cleanup(func() { end(t, c) })
	edits := 0
	executortest.Run(t, executortest.Config{
		Lives: 10, Crowd: 20, Executor: process.New(), Connection: c,
		Inputs: func(n int, s executortest.Shape) map[string]any {
			env := map[string]any{"SIZE": "small"}
			in := map[string]any{"name": name(n), "program": "sh", "args": []any{"-c", sleeper}, "env": env, "files": map[string]any{"conf/a.ini": "one"}, "grace": "2s"}
			switch s {
			case executortest.Changed:
				env["SIZE"] = "large"
			case executortest.Moved:
				in["name"] = "moved-" + name(n)
			case executortest.Later:
				env["SIZE"] = executor.Unknown{}
			case executortest.Veiled:
				in["files"] = map[string]any{"conf/a.ini": executor.NewSecret(executortest.Canary)}
				env["SIZE"] = executor.NewSecret(executortest.Canary)
			}
			return in
		},
		Look: func(t testing.TB) map[string]string { return look(t, dir) },
		Take: func(t testing.TB, n int) {
			if err := errors.Join(os.Mkdir(filepath.Join(dir, name(n)), 0o755), os.WriteFile(filepath.Join(dir, name(n), "x"), []byte("theirs"), 0o644)); err != nil {
				t.Fatal(err)
			}
		},
		Edit: func(t testing.TB, n int) {
			edits++
			if err := os.WriteFile(filepath.Join(dir, name(n), "conf/a.ini"), []byte(fmt.Sprint("edit ", edits)), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		Delete: func(t testing.TB, n int) {
			for _, pid := range carriers(t, filepath.Join(dir, ".programs", name(n), "output.log")) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			if err := os.RemoveAll(filepath.Join(dir, name(n))); err != nil {
				t.Fatal(err)
			}
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
}

func end(t testing.TB, c executor.Connection) {
	if err := process.End(context.Background(), c, func(string, string) {}); err != nil {
		t.Error(err)
	}
}

// look shows the files and how many processes write into each output.
func look(t testing.TB, dir string) map[string]string {
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.Name() == "record.json":
		case d.Name() == "output.log":
			out[path] = fmt.Sprint(len(carriers(t, path)) > 0)
		case !d.IsDir():
			data, err := os.ReadFile(path)
			out[path] = string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func carriers(t testing.TB, log string) (pids []int) {
	all, err := program.Carriers("nobody's", log)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		pids = append(pids, f.PID)
	}
	return pids
}

// world is one program as its keeper has it.
type world struct {
	t   *testing.T
	dir string
	c   executor.Connection
	r   executor.Resource
	log strings.Builder
}

func newWorld(t *testing.T, inputs map[string]any) *world {
	w := &world{t: t, dir: t.TempDir()}
	w.c = executor.Connection{"directory": w.dir}
	inputs["name"] = "one"
	w.r = executor.Resource{ID: "r1-" + rand.Text(), Address: "one", Connection: w.c, Inputs: inputs, Log: &w.log}
	w.r.Save = func(_ context.Context, state []byte) error { w.r.State = state; return nil }
	t.Cleanup(func() { end(t, w.c) })
	return w
}

func (w *world) apply() error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		res, err := process.New().Apply(w.t.Context(), w.r)
		if err != nil || res.Done {
			return err
		}
	}
	return errors.New("it does not end")
}

func (w *world) must() {
	w.t.Helper()
	if err := w.apply(); err != nil {
		w.t.Fatalf("%v\n%s", err, w.log.String())
	}
}

func (w *world) observe() executor.Observation {
	w.t.Helper()
	o, err := process.New().Observe(w.t.Context(), w.r)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

func (w *world) pids() []int {
	return carriers(w.t, filepath.Join(w.dir, ".programs", "one", "output.log"))
}

func shell(script string) map[string]any {
	return map[string]any{"program": "sh", "args": []any{"-c", script}}
}

func TestWhatDiedIsDriftAndComesBack(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	before := w.pids()
	for _, pid := range before {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for len(w.observe().Drift) == 0 { // the kernel takes a moment
		time.Sleep(time.Millisecond)
	}
	if o := w.observe(); !o.Exists || o.Drift[0].Path != "process" || o.Drift[0].After != "not running" {
		t.Fatalf("a program that has died is seen as %+v", o)
	}
	w.must()
	if o := w.observe(); !o.Exists || len(o.Drift) > 0 {
		t.Errorf("after it was started again: %+v", o)
	}
}

// A keeper that was killed after the start, before it has written down which process
// it is, finds it, and there are never two.
func TestAStartThatWasNotWrittenDown(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	record := filepath.Join(w.dir, ".programs", "one", "record.json")
	data, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	pid := w.pids()[0]
	text := strings.Replace(string(data), fmt.Sprintf(`"pid":%d`, leader(t, w.pids())), `"pid":0,"beginning":true`, 1)
	if text == string(data) {
		t.Fatalf("the record has no pid %d: %s", pid, data)
	}
	if err := os.WriteFile(record, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.must()
	for _, old := range w.pids() {
		if old == pid {
			t.Errorf("process %d is there besides the new one", pid)
		}
	}
	leader(t, w.pids())
}

// leader is the one that all others are children of, which come and go.
func leader(t *testing.T, pids []int) (found int) {
	t.Helper()
	n := 0
	for _, pid := range pids {
		if got, err := syscall.Getpgid(pid); err == nil && got == pid {
			found = pid
			n++
		}
	}
	if n != 1 {
		t.Fatalf("there are %d leaders among %v, want one", n, pids)
	}
	return found
}

func TestPreparationIsRunOnceAndBeginsAnew(t *testing.T) {
	in := shell(sleeper)
	in["clear"] = []any{"data"}
	in["prepare"] = []any{
		map[string]any{"command": []any{"mkdir", "data"}},
		map[string]any{"command": []any{"sh", "-c", "test -e allowed && cat > data/in"}, "stdin": "hello"},
	}
	w := newWorld(t, in)
	err := w.apply()
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "prepares") {
		t.Fatalf("a preparation that fails: %v", err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "one", "allowed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.must() // mkdir would fail if data were still there
	if got, err := os.ReadFile(filepath.Join(w.dir, "one", "data", "in")); string(got) != "hello" {
		t.Errorf("the preparation has written %q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "one", "data", "in"), []byte("used"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.r.Inputs["env"] = map[string]any{"A": "b"}
	w.must()
	if got, _ := os.ReadFile(filepath.Join(w.dir, "one", "data", "in")); string(got) != "used" {
		t.Errorf("it was prepared again: %q", got)
	}
}

func TestHealth(t *testing.T) {
	for reason, tc := range map[string]struct {
		script string
		health map[string]any
		ports  map[string]any
		want   string // of the error; empty: it is well
	}{
		"it is waited for":           {"sleep 0.3; touch ok; exec sleep 1000", map[string]any{"command": []any{"test", "-e", "ok"}}, nil, ""},
		"and not for ever":           {"exec sleep 1000", map[string]any{"command": []any{"test", "-e", "ok"}, "within": "200ms"}, nil, "does not work"},
		"one that ends is told":      {"exit 3", map[string]any{"command": []any{"test", "-e", "ok"}}, nil, "has ended soon after its start"},
		"nobody listens":             {"exec sleep 1000", map[string]any{"tcp": "127.0.0.1:1", "within": "200ms"}, nil, "nobody listens"},
		"nobody answers":             {"exec sleep 1000", map[string]any{"http": "http://127.0.0.1:1/", "within": "200ms"}, nil, "no answer"},
		"a port of somebody else's":  {"exec sleep 1000", nil, map[string]any{"web": int64(taken(t))}, "is taken by another program"},
		"a program that is not here": {"", nil, nil, "there is no program"},
	} {
		t.Run(reason, func(t *testing.T) {
			in := shell(tc.script)
			if tc.script == "" {
				in["program"] = "no-such-program"
			}
			in["health"], in["ports"] = tc.health, tc.ports
			if tc.health == nil {
				delete(in, "health")
			}
			if tc.ports == nil {
				delete(in, "ports")
			}
			w := newWorld(t, in)
			err := w.apply()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func taken(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	return n
}

func TestReviveStartsWhatDied(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.r.Inputs["env"] = map[string]any{"PASSWORD": executor.NewSecret("open sesame")}
	w.must()
	nothing := 0
	if err := process.Revive(t.Context(), w.c, func(string, string) { nothing++ }); err != nil || nothing > 0 {
		t.Fatalf("what runs is started: %d, %v", nothing, err)
	}
	w.kill() // also what the shell has begun meanwhile
	if err := process.Revive(t.Context(), w.c, func(string, string) { nothing++ }); err != nil || nothing == 0 {
		t.Fatalf("what died is not started: %d, %v", nothing, err)
	}
	if o := w.observe(); !o.Exists || len(o.Drift) > 0 {
		t.Errorf("after it was started again: %+v", o)
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(leader(t, w.pids())) + "/environ")
	if err != nil || !strings.Contains(string(env), "PASSWORD=open sesame") {
		t.Errorf("it was started with %q, %v", env, err)
	}
}

func TestFilesAreForTheirOwnerAndInside(t *testing.T) {
	in := shell(sleeper)
	in["files"] = map[string]any{"conf/secret": executor.NewSecret("x")}
	w := newWorld(t, in)
	w.must()
	info, err := os.Stat(filepath.Join(w.dir, "one", "conf/secret"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Join(w.dir, ".programs", "one", "record.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the record is %v, %v", info.Mode(), err)
	}
	for _, path := range []string{"../x", "/etc/passwd", ".drover/x", "../.programs/one/record.json", "a/../../b", "."} {
		r := executor.Resource{ID: "r2", Connection: w.c, Log: io.Discard, Inputs: map[string]any{"name": "two", "program": "sh", "files": map[string]any{path: "x"}}}
		if _, err := process.New().Plan(t.Context(), r); !fault.Is(err, fault.Invalid) {
			t.Errorf("the file %q: %v", path, err)
		}
	}
}
