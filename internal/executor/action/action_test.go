package action_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/action"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/fault"
)

// script keeps one file, whose content it prints.
const script = `#!/bin/sh
set -eu
case "$1" in
make) printf '%s' "$3${TOKEN:-}" > "$2"; cat "$2" ;;
check) test -e "$2" ;;
drop) rm -f "$2" ;;
esac
`

func inputs(file, content string) map[string]any {
	return map[string]any{
		"app": map[string]any{"name": "keep", "url": "file:./keep.sh"}, "files": map[string]any{"keep.sh": script},
		"command": []any{"keep", "make", file, content}, "check": []any{"keep", "check", file}, "destroy": []any{"keep", "drop", file},
	}
}

func newRunner(t testing.TB, allow ...string) *action.Runner {
	t.Helper()
	dir := t.TempDir()
	return action.NewRunner(action.Config{Cache: filepath.Join(dir, "cache"), Work: dir, Allow: allow})
}

func look(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

func TestContract(t *testing.T) {
	dir := t.TempDir()
	at := func(n int) string { return filepath.Join(dir, fmt.Sprint("thing-", n)) }
	executortest.Run(t, executortest.Config{
		Executor: action.New(newRunner(t)), Crowd: 20, Lives: 40,
		Inputs: func(n int, s executortest.Shape) map[string]any {
			in := inputs(at(n), "one")
			switch s {
			case executortest.Changed:
				in["command"] = []any{"keep", "make", at(n), "two"}
			case executortest.Moved:
				return nil
			case executortest.Later:
				in["env"] = map[string]any{"TOKEN": executor.Unknown{}}
			case executortest.Veiled:
				in["env"] = map[string]any{"TOKEN": executor.NewSecret(executortest.Canary)}
			}
			return in
		},
		Look:     func(t testing.TB) map[string]string { return look(t, dir) },
		Nameless: true,
		Take: func(t testing.TB, n int) {
			if err := os.WriteFile(at(n), []byte("theirs"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		Delete: func(t testing.TB, n int) {
			if err := os.Remove(at(n)); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// caller keeps what an executor is given from call to call.
type caller struct {
	executor.Resource
	log bytes.Buffer
}

func newCaller(in map[string]any) *caller {
	c := &caller{}
	c.Resource = executor.Resource{ID: "res-1", Address: "job", Environment: "demo", Inputs: in, Log: &c.log}
	c.Save = func(_ context.Context, s []byte) error { c.State = s; return nil }
	return c
}

// The command is run for what it depends on, and for nothing else.
func TestRunsAgain(t *testing.T) {
	dir := t.TempDir()
	count := filepath.Join(dir, "count")
	x := action.New(newRunner(t))
	base := func() map[string]any {
		return map[string]any{
			"app": map[string]any{"name": "job", "url": "file:./job"}, "files": map[string]any{"job": "#!/bin/sh\necho x >> \"$1\"\necho '{\"n\": 3, \"f\": 1.5}'\n"},
			"command": []any{"job", count}, "env": map[string]any{"A": "1"}, "triggers": []any{int64(1)},
		}
	}
	c := newCaller(base())
	cases := []struct {
		reason string
		edit   func(map[string]any)
		runs   int
	}{
		{"the first time", func(map[string]any) {}, 1},
		{"nothing has changed", func(map[string]any) {}, 1},
		{"another trigger", func(in map[string]any) { in["triggers"] = []any{int64(2)} }, 2},
		{"another variable", func(in map[string]any) { in["env"] = map[string]any{"A": "2"} }, 3},
		{"another way to destroy it", func(in map[string]any) { in["destroy"] = []any{"job", count + "-gone"} }, 3},
	}
	in := base()
	for _, tc := range cases {
		tc.edit(in)
		c.Inputs = maps.Clone(in)
		plan, err := x.Plan(t.Context(), c.Resource)
		if err != nil {
			t.Fatal(err)
		}
		c.Mark = plan.Mark
		res, err := x.Apply(t.Context(), c.Resource)
		if err != nil || !res.Done {
			t.Fatalf("%s: %+v, %v", tc.reason, res, err)
		}
		c.Outputs = res.Outputs
		data, err := os.ReadFile(count)
		if err != nil || strings.Count(string(data), "x") != tc.runs {
			t.Errorf("%s: it ran %d times, want %d (%v)", tc.reason, strings.Count(string(data), "x"), tc.runs, err)
		}
		want := map[string]any{"stdout": "{\"n\": 3, \"f\": 1.5}\n", "result": map[string]any{"n": int64(3), "f": 1.5}, "exit": int64(0)}
		if diff := cmp.Diff(want, res.Outputs); diff != "" {
			t.Errorf("%s: %s", tc.reason, diff)
		}
	}
	if _, err := x.Destroy(t.Context(), c.Resource); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(count + "-gone"); err != nil {
		t.Error("the way to destroy it that came later was not taken")
	}
}

// A command that fails is no effect that is recorded, and is run again.
func TestFailsAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	x := action.New(newRunner(t))
	c := newCaller(map[string]any{
		"app": map[string]any{"name": "job", "url": "file:./job"}, "env": map[string]any{"PASSWORD": executor.NewSecret("hunter22")},
		"files":   map[string]any{"job": "#!/bin/sh\ntest -e \"$1\" && exit 0\ntouch \"$1\"\necho out of room, says $PASSWORD >&2\nexit 7\n"},
		"command": []any{"job", filepath.Join(dir, "f")},
	})
	_, err := x.Apply(t.Context(), c.Resource)
	if !fault.Is(err, fault.Unavailable) || fault.Reason(err) != "exit" || !strings.Contains(err.Error(), "job ended with code 7; the last it said: out of room, says (secret)") {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(c.log.String(), "hunter22") || !strings.Contains(c.log.String(), "out of room") {
		t.Errorf("the log says %q", c.log.String())
	}
	if o, err := x.Observe(t.Context(), c.Resource); err != nil || o.Exists {
		t.Errorf("it is there: %+v, %v", o, err)
	}
	if res, err := x.Apply(t.Context(), c.Resource); err != nil || !res.Done {
		t.Errorf("the second time: %+v, %v", res, err)
	}
}

func TestRefuses(t *testing.T) {
	cases := []struct {
		reason string
		edit   func(map[string]any)
		kind   fault.Kind
		says   string
	}{
		{"a program that is not allowed", func(in map[string]any) { in["command"] = []any{"bash", "-c", "id"} }, fault.Denied, "does not allow"},
		{"a path", func(in map[string]any) { in["command"] = []any{"/bin/sh", "-c", "id"} }, fault.Invalid, "without a path"},
		{"a path to its own files", func(in map[string]any) { in["command"] = []any{"./keep.sh"} }, fault.Invalid, "without a path"},
		{"a secret as an argument", func(in map[string]any) { in["command"] = []any{"keep", executor.NewSecret("x")} }, fault.Invalid, "secret"},
		{"a download without a digest", func(in map[string]any) {
			in["app"] = map[string]any{"name": "keep", "url": "https://example.org/keep"}
		}, fault.Invalid, "sha256"},
		{"an unencrypted download", func(in map[string]any) {
			in["app"] = map[string]any{"name": "keep", "url": "http://example.org/keep", "sha256": strings.Repeat("0", 64)}
		}, fault.Invalid, "https"},
		{"a file that is not there", func(in map[string]any) { in["app"] = map[string]any{"name": "keep", "url": "file:./other"} }, fault.Invalid, "no file"},
		{"a file of the server", func(in map[string]any) { in["app"] = map[string]any{"name": "keep", "url": "file:///bin/sh"} }, fault.Invalid, "no file"},
		{"a file elsewhere", func(in map[string]any) { in["files"] = map[string]any{"../x": "x"} }, fault.Invalid, "leads out"},
		{"an absolute file", func(in map[string]any) { in["files"] = map[string]any{"/tmp/x": "x"} }, fault.Invalid, "leads out"},
		{"a library to be loaded", func(in map[string]any) { in["env"] = map[string]any{"LD_PRELOAD": "./x.so"} }, fault.Invalid, "not for commands"},
		{"another path", func(in map[string]any) { in["env"] = map[string]any{"PATH": "."} }, fault.Invalid, "not for commands"},
		{"two variables in one", func(in map[string]any) { in["env"] = map[string]any{"A=1\nB": "2"} }, fault.Invalid, "no name"},
		{"a zero byte", func(in map[string]any) { in["command"] = []any{"keep", "a\x00b"} }, fault.Invalid, "zero byte"},
		{"a check that is not allowed", func(in map[string]any) { in["check"] = []any{"curl", "x"} }, fault.Denied, "does not allow"},
	}
	x := action.New(newRunner(t))
	for _, c := range cases {
		in := inputs(filepath.Join(t.TempDir(), "f"), "x")
		c.edit(in)
		r := newCaller(in).Resource
		_, planned := x.Plan(t.Context(), r)
		_, applied := x.Apply(t.Context(), r)
		for _, err := range []error{planned, applied} {
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v (%v)", c.reason, err, fault.Of(err))
			}
		}
	}
}
