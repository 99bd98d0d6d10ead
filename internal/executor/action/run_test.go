package action_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/executor/action"
	"github.com/droverhq/drover/internal/fault"
)

// shell is a command that is a script.
func shell(text string, args ...string) action.Command {
	return action.Command{
		App: action.App{Name: "job", URL: "file:./job"}, Argv: append([]string{"job"}, args...),
		Files: map[string]action.File{"job": {Data: []byte("#!/bin/sh\n" + text)}},
	}
}

// Whatever an argument holds, it is one argument.
func TestNoShell(t *testing.T) {
	dir := t.TempDir()
	evil := []string{"$(touch " + dir + "/a)", "; touch " + dir + "/b", "`touch " + dir + "/c`", "| touch " + dir + "/d", "-rf", "a b\nc", "*", "$HOME", "'\"\\"}
	r := newRunner(t, "printf")
	out, err := r.Run(t.Context(), action.Command{Argv: append([]string{"printf", "%s|"}, evil...)})
	if err != nil || out.Exit != 0 {
		t.Fatal(out, err)
	}
	if want := strings.Join(evil, "|") + "|"; out.Stdout != want {
		t.Errorf("%q, want %q", out.Stdout, want)
	}
	if left := look(t, dir); len(left) > 0 {
		t.Errorf("arguments were run: %v", left)
	}
}

func TestSurroundings(t *testing.T) {
	t.Setenv("DROVER_MASTER_KEY", "s3cr3t")
	c := shell("env | cut -d= -f1 | sort | tr '\\n' ' '; pwd; ls; test \"$HOME\" = \"$PWD\"")
	c.Env = map[string]string{"GIVEN": "x"}
	c.Files["sub/file"] = action.File{Data: []byte("x")}
	work := t.TempDir()
	out, err := action.NewRunner(action.Config{Work: work}).Run(t.Context(), c)
	if err != nil || out.Exit != 0 {
		t.Fatal(out, err)
	}
	for _, name := range []string{"GIVEN ", "HOME ", "LANG ", "PATH ", "TMPDIR ", "job\n", "sub\n"} {
		if !strings.Contains(out.Stdout, name) {
			t.Errorf("no %s in %q", name, out.Stdout)
		}
	}
	if strings.Contains(out.Stdout, "DROVER") {
		t.Errorf("the server's environment is told: %q", out.Stdout)
	}
	if left, _ := os.ReadDir(work); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
}

// A command that is ended goes with everything it has started.
func TestEnds(t *testing.T) {
	cases := []struct {
		reason, text string
		end          func(*action.Command, time.Duration) (context.Context, context.CancelFunc)
		kind         fault.Kind
	}{
		{"a timeout", "(trap '' TERM; sleep 600) & echo $! > \"$1\"; echo started >&2; sleep 600", func(c *action.Command, after time.Duration) (context.Context, context.CancelFunc) {
			c.Timeout = after
			return context.WithCancel(t.Context())
		}, fault.Unavailable},
		{"a caller who leaves", "trap '' TERM; sleep 600 & echo $! > \"$1\"; echo started >&2; while :; do sleep 1; done", func(_ *action.Command, after time.Duration) (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), after)
		}, fault.Unavailable},
		{"its own end", "sleep 600 > /dev/null 2>&1 & echo $! > \"$1\"", func(*action.Command, time.Duration) (context.Context, context.CancelFunc) {
			return context.WithCancel(t.Context())
		}, fault.Internal},
	}
	for _, tc := range cases {
		t.Run(tc.reason, func(t *testing.T) {
			var pid string
			for after := time.Second; pid == ""; after *= 4 { // it must have started something by then
				if after > 5*time.Minute {
					t.Fatal("it starts nothing")
				}
				file := filepath.Join(t.TempDir(), "pid")
				c := shell(tc.text, file)
				ctx, stop := tc.end(&c, after)
				_, err := action.NewRunner(action.Config{Work: t.TempDir(), Grace: 200 * time.Millisecond}).Run(ctx, c)
				stop()
				text, _ := os.ReadFile(file)
				pid = strings.TrimSpace(string(text))
				if right := tc.kind == fault.Internal && err == nil || tc.kind != fault.Internal && fault.Is(err, tc.kind); pid != "" && !right {
					t.Errorf("got %v", err)
				}
			}
			for end := time.Now().Add(time.Minute); running(pid); {
				if time.Now().After(end) {
					t.Fatal("what it has started goes on")
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
}

// running reports whether a process is there and not only waiting to be buried.
func running(pid string) bool {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}

func TestCanceledIsCanceled(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	c := shell("echo up; sleep 600")
	c.Log = writer(func(p []byte) { stop() })
	if _, err := newRunner(t).Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestPrints(t *testing.T) {
	secret := "line-one-of-a-key\nline-two-of-a-key"
	cases := []struct {
		reason, text string
		want         action.Output
		log          string
	}{
		{"text", "echo hello; echo oops >&2", action.Output{Stdout: "hello\n"}, ""},
		{"JSON", "echo '[1, 2.5, \"x\"]'", action.Output{Stdout: "[1, 2.5, \"x\"]\n", Result: []any{int64(1), 2.5, "x"}, Tells: "[1, 2.5, \"x\"]"}, "[1, 2.5, \"x\"]\n"},
		{"two documents are none", "echo 1; echo 2", action.Output{Stdout: "1\n2\n", Tells: "2"}, "1\n2\n"},
		{"another code", "echo no >&2; exit 3", action.Output{Exit: 3, Tells: "no"}, "no\n"},
		{"a secret", "echo a " + base64.StdEncoding.EncodeToString([]byte("line-two-of-a-key")) + " z line-one-of-a-key", action.Output{Stdout: "a " + base64.StdEncoding.EncodeToString([]byte("line-two-of-a-key")) + " z line-one-of-a-key\n", Tells: "a (secret) z (secret)"}, "a (secret) z (secret)\n"},
		{"a secret in two pieces", "printf line-one-; sleep 0.1; echo of-a-key", action.Output{Stdout: "line-one-of-a-key\n", Tells: "(secret)"}, "(secret)\n"},
		{"no text", "printf '\\377\\n'", action.Output{Stdout: "\uFFFD\n", Tells: "\uFFFD"}, "\uFFFD\n"},
	}
	for _, tc := range cases {
		var log bytes.Buffer
		c := shell(tc.text)
		c.Log, c.Secrets = &log, []string{secret}
		out, err := newRunner(t).Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if tc.reason == "text" { // which of the two is first is anybody's guess
			out.Tells = ""
			tc.log = log.String()
		}
		if diff := cmp.Diff(tc.want, out); diff != "" || log.String() != tc.log {
			t.Errorf("%s: log %q, %s", tc.reason, log.String(), diff)
		}
	}
}

// What is printed without end is not kept without end, and a secret in a line
// without end is still struck out.
func TestPrintsWithoutEnd(t *testing.T) {
	for _, before := range []string{"", "x", "xxxxx", "xxxxxxxxxxx", "xxxxxxxxxxxxxxxxx"} {
		var log bytes.Buffer
		most := 0
		c := shell("i=0; while [ $i -lt 4000 ]; do printf '%shunter2-hunter2' \"$1\"; i=$((i+1)); done", before)
		c.Secrets = []string{"hunter2-hunter2"}
		c.Log = writer(func(p []byte) { most = max(most, len(p)); log.Write(p) })
		out, err := action.NewRunner(action.Config{Work: t.TempDir(), MaxOutput: 1000}).Run(t.Context(), c)
		if err != nil || len(out.Stdout) != 1000 || !out.Cut || out.Result != nil {
			t.Errorf("%d, cut %v, %v", len(out.Stdout), out.Cut, err)
		}
		if want := strings.Repeat(before+"(secret)", 4000); strings.ReplaceAll(log.String(), "\n", "") != want || most > 64<<10 {
			t.Errorf("after %q the log is not what it should be, or has pieces of %d bytes", before, most)
		}
	}
}

func TestDownloads(t *testing.T) {
	program := []byte("#!/bin/sh\necho downloaded as $0 with $1\n")
	sum := sha256.Sum256(program)
	good := hex.EncodeToString(sum[:])
	asked := 0
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked++
		mu.Unlock()
		switch r.URL.Path {
		case "/job":
			w.Write(program)
		case "/moved":
			http.Redirect(w, r, "/job", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "http://192.0.2.1/job", http.StatusFound)
		case "/large":
			w.Write(make([]byte, 2<<20))
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	cache := filepath.Join(t.TempDir(), "cache")
	r := action.NewRunner(action.Config{Cache: cache, MaxDownload: 1 << 20})
	run := func(path, sum string) (action.Output, error) {
		return r.Run(t.Context(), action.Command{App: action.App{Name: "job", URL: s.URL + path, SHA256: sum}, Argv: []string{"job", "x"}})
	}
	for _, tc := range []struct {
		reason, path, sum string
		kind              fault.Kind
		says              string
	}{
		{"another digest", "/job", strings.Repeat("0", 64), fault.Invalid, "another sha256"},
		{"no such file", "/none", good, fault.Invalid, "404"},
		{"a server in trouble", "/busy", good, fault.Unavailable, "503"},
		{"too large", "/large", good, fault.Invalid, "larger than"},
		{"sent on to where it is not encrypted", "/away", good, fault.Unavailable, "does not answer"},
	} {
		if out, err := run(tc.path, tc.sum); !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %+v, %v", tc.reason, out, err)
		}
	}
	if left := look(t, cache); len(left) > 0 {
		t.Errorf("what was refused is kept: %v", slices.Collect(func(yield func(string) bool) {
			for n := range left {
				yield(n)
			}
		}))
	}
	asked = 0
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if out, err := run("/moved", strings.ToUpper(good)); err != nil || !strings.HasPrefix(out.Stdout, "downloaded as ") {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
	group.Wait()
	if asked != 2 { // and one that is sent on
		t.Errorf("the server was asked %d times", asked)
	}
	if err := errors.Join(os.Chmod(filepath.Join(cache, good), 0o700), os.WriteFile(filepath.Join(cache, good), []byte("#!/bin/sh\necho evil\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if out, err := run("/job", good); err != nil || strings.Contains(out.Stdout, "evil") {
		t.Errorf("what was changed on disk is run: %+v, %v", out, err)
	}
	s.Close()
	if out, err := run("/job", good); err != nil || out.Exit != 0 {
		t.Errorf("what is there is asked for again: %+v, %v", out, err)
	}
}

func TestManyAtOnce(t *testing.T) {
	r := newRunner(t)
	var group sync.WaitGroup
	for n := range 30 {
		group.Go(func() {
			out, err := r.Run(t.Context(), shell("echo $1", fmt.Sprint(n)))
			if err != nil || out.Stdout != fmt.Sprintln(n) {
				t.Errorf("%d: %+v, %v", n, out, err)
			}
		})
	}
	group.Wait()
}
