package process_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/process"
	"github.com/droverhq/drover/internal/runtime/runtimetest"
)

func TestConformance(t *testing.T) {
	runtimetest.Run(t, runtimetest.Config{
		Open: func(t *testing.T, dir string) (runtime.Runtime, func()) { return open(t, dir) },
		Body: func(host, word string, suspended bool) json.RawMessage {
			var d map[string]map[string]any
			if err := json.Unmarshal(doc(host, word, map[string]string{"WORD": word}), &d); err != nil {
				panic(err)
			}
			d["spec"]["suspended"] = suspended
			b, _ := json.Marshal(d)
			return b
		},
		Durable: true,
	})
}

func TestEnvironmentIsClean(t *testing.T) {
	t.Setenv("AGENT_SECRET", "hunter2")
	dir := t.TempDir()
	rt, stop := open(t, dir)
	defer stop()
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: doc("a.test", "1", map[string]string{"SPECIES": "rex", "PORT": "1", "DROVER_INSTANCE": "b"})})
	defer remove(t, rt, "a")
	o := await(t, rt, "a", is(runtime.Ready))
	var env []string
	if err := json.Unmarshal([]byte(get(t, o.Routes["a.test"], "/env")), &env); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		got[k] = v
	}
	_, port, _ := net.SplitHostPort(o.Routes["a.test"])
	want := map[string]string{
		"SPECIES": "rex", "ROLE": "serve", "PORT": port, "DROVER_INSTANCE": "a", "DROVER_NONCE": nonce(t, dir, "a") + ".1",
		"HOME": filepath.Join(dir, "a", "data"), "PATH": "/usr/local/bin:/usr/bin:/bin",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment of the child: %s", diff)
	}
}

func TestGenerationAloneRestartsNothing(t *testing.T) {
	rt, stop := open(t, t.TempDir())
	defer stop()
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: doc("a.test", "1", nil)})
	defer remove(t, rt, "a")
	pid := get(t, await(t, rt, "a", is(runtime.Ready)).Routes["a.test"], "/pid")
	apply(t, rt, runtime.Item{ID: "a", Generation: 2, Token: 2, Body: doc("b.test", "2", nil)})
	o := await(t, rt, "a", func(o runtime.Observed) bool { return o.State == runtime.Ready && o.Generation == 2 })
	if got := get(t, o.Routes["b.test"], "/pid"); got != pid || o.Versions["app"] != "2" {
		t.Errorf("a new host and version: process %s became %s, %+v", pid, got, o)
	}
	apply(t, rt, runtime.Item{ID: "a", Generation: 3, Token: 2, Body: doc("b.test", "2", map[string]string{"X": "y"})})
	o = await(t, rt, "a", func(o runtime.Observed) bool { return o.State == runtime.Ready && o.Generation == 3 })
	if got := get(t, o.Routes["b.test"], "/pid"); got == pid {
		t.Error("a new environment did not restart the process")
	}
}

func TestErrors(t *testing.T) {
	cases := map[string]struct {
		reason string
		body   string
		want   string
	}{
		"no command":  {"There is nothing to run.", `{"spec":{"endpoint":{"host":"a"}}}`, "spec.process.command"},
		"not found":   {"The user learns that the command is missing, without this machine's paths.", `{"spec":{"process":{"command":["/no/such/thing"]}}}`, "its command is not on this machine"},
		"ends":        {"A process that ends again and again is an error, with its status.", string(doc("a", "1", map[string]string{"ROLE": "crash"})), "exit status 3"},
		"not healthy": {"A process that never answers is an error.", string(doc("a", "1", map[string]string{"ROLE": "linger"})), "no answer to its health check"},
		"other shape": {"A document of other types cannot be read.", `{"spec":{"process":{"command":"drover"}}}`, "can read"},
		"bad health":  {"The health path must be a path.", `{"spec":{"process":{"command":["drover"],"health":"x"}}}`, "spec.process.health"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt, stop := open(t, t.TempDir())
			defer stop()
			apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: json.RawMessage(c.body)})
			t.Log(c.reason)
			await(t, rt, "a", failing(c.want)) // one that is slow to start may be told as not healthy first
			apply(t, rt, runtime.Item{ID: "a", Generation: 2, Token: 1, Body: doc("a.test", "1", nil)})
			await(t, rt, "a", func(o runtime.Observed) bool { return o.Generation == 2 && o.State == runtime.Ready })
			remove(t, rt, "a")
		})
	}
}

func TestBrokenDocumentLeavesTheProcessRunning(t *testing.T) {
	rt, stop := open(t, t.TempDir())
	defer stop()
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: doc("a.test", "1", nil)})
	defer remove(t, rt, "a")
	address := await(t, rt, "a", is(runtime.Ready)).Routes["a.test"]
	pid := get(t, address, "/pid")
	apply(t, rt, runtime.Item{ID: "a", Generation: 2, Token: 1, Body: json.RawMessage(`{"spec":{}}`)})
	await(t, rt, "a", is(runtime.Error))
	if got := get(t, address, "/pid"); got != pid {
		t.Errorf("the process %s became %s", pid, got)
	}
}

func TestKilledProcessIsStartedAgain(t *testing.T) {
	rt, stop := open(t, t.TempDir())
	defer stop()
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: doc("a.test", "1", nil)})
	defer remove(t, rt, "a")
	before := await(t, rt, "a", is(runtime.Ready))
	pid := get(t, before.Routes["a.test"], "/pid")
	n, _ := strconv.Atoi(pid)
	p, err := os.FindProcess(n)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	// It has another port in its new life.
	after := await(t, rt, "a", func(o runtime.Observed) bool {
		return o.State == runtime.Ready && o.Routes["a.test"] != before.Routes["a.test"]
	})
	if got := get(t, after.Routes["a.test"], "/pid"); got == pid {
		t.Errorf("process %s answers after it was killed", pid)
	}
}

func TestSickInstanceRecovers(t *testing.T) {
	dir := t.TempDir()
	rt, stop := open(t, dir)
	defer stop()
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: doc("a.test", "1", nil)})
	defer remove(t, rt, "a")
	await(t, rt, "a", is(runtime.Ready))
	sick := filepath.Join(dir, "a", "data", "sick")
	if err := os.WriteFile(sick, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, rt, "a", failing("500"))
	if err := os.Remove(sick); err != nil {
		t.Fatal(err)
	}
	await(t, rt, "a", is(runtime.Ready))
}

func TestRemoveEndsTheWholeFamily(t *testing.T) {
	dir := t.TempDir()
	rt, stop := open(t, dir)
	defer stop()
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: doc("a.test", "1", map[string]string{"FAMILY": "1", "DEAF": "1"})})
	await(t, rt, "a", is(runtime.Ready))
	id := nonce(t, dir, "a")
	if got := len(carriers(t, id)); got != 2 {
		t.Fatalf("%d processes, want the instance and its child", got)
	}
	remove(t, rt, "a")
	if left := carriers(t, id); len(left) != 0 {
		t.Errorf("processes %v are left of a removed instance", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
}

func TestMismatchIsNeverSignalled(t *testing.T) {
	dir := t.TempDir()
	rt, stop := open(t, dir)
	defer stop()
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: doc("a.test", "1", nil)})
	defer remove(t, rt, "a")
	address := await(t, rt, "a", is(runtime.Ready)).Routes["a.test"]
	pid, _ := strconv.Atoi(get(t, address, "/pid"))
	born, _ := process.Birth(pid)
	for _, c := range []struct{ reason, birth, nonce string }{
		{"Another start time is another process.", "some-boot/1", nonce(t, dir, "a")},
		{"Another nonce is another instance.", born, "0123456789abcdef"},
		{"Nothing known proves nothing.", "", ""},
	} {
		if err := process.Kill(pid, c.birth, c.nonce); err != nil {
			t.Errorf("%s Kill: %v", c.reason, err)
		}
		if err := process.StopGroup(pid, c.birth, c.nonce); err != nil {
			t.Errorf("%s StopGroup: %v", c.reason, err)
		}
		if got := get(t, address, "/pid"); got != strconv.Itoa(pid) {
			t.Errorf("%s The process was harmed.", c.reason)
		}
	}
}

func TestDirectoryIsTakenOnce(t *testing.T) {
	dir := t.TempDir()
	_, stop := open(t, dir)
	if rt, err := process.Open(config(dir)); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second runtime over the directory: %v, %v", rt, err)
	}
	stop()
	_, stop = open(t, dir)
	stop()
}

func TestIDs(t *testing.T) {
	rt, stop := open(t, t.TempDir())
	defer stop()
	for _, id := range []string{"", ".", "..", "../x", "a/b", ".deleted", "a\x00", strings.Repeat("a", 129)} {
		if err := rt.Apply(t.Context(), runtime.Item{ID: id, Body: doc("h", "1", nil)}); !fault.Is(err, fault.Invalid) {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

func TestCapacity(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Capacity = 1
	rt, err := process.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: doc("a.test", "1", nil)})
	await(t, rt, "a", is(runtime.Ready))
	late := runtime.Item{ID: "b", Generation: 1, Token: 1, Body: doc("b.test", "1", nil)}
	apply(t, rt, late)
	await(t, rt, "b", is(runtime.Rejected))
	remove(t, rt, "a")
	apply(t, rt, late)
	await(t, rt, "b", is(runtime.Ready))
	remove(t, rt, "b")
}

func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(s string) {
		if _, err := f.WriteString(s); err != nil {
			t.Fatal(err)
		}
		if err := process.Bound(path, 10); err != nil {
			t.Fatal(err)
		}
	}
	write("0123456789")
	write("abc")
	write("new")
	for name, want := range map[string]string{path: "new", path + ".1": "3456789abc"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", filepath.Base(name), got, err, want)
		}
	}
}

func TestBackoffGrowsAndIsCapped(t *testing.T) {
	for failures := 1; failures < 100; failures++ {
		d := process.Backoff(failures)
		if d < 50*time.Millisecond || d > 30*time.Second {
			t.Errorf("after %d failures: %v", failures, d)
		}
		if failures > 12 && d < 15*time.Second {
			t.Errorf("after %d failures only %v", failures, d)
		}
	}
}
