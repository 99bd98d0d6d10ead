//go:build e2e && linux

package bootstrap_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
)

// patience bounds what takes half a minute on a quiet machine.
const patience = 10 * time.Minute

// line is what bootstrap tells with -o json.
type line struct {
	Step, Name, Phase, Message string
	Report                     struct {
		Outcome, Server, Data string
		Seconds               float64
		Repositories          []struct {
			Name, Error  string
			Environments []struct{ Name, Phase, Error string }
		}
	}
}

// world is a state directory with ports.
type world struct {
	t     testing.TB
	state string
	port  int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	for _, name := range []string{"POSTGRES", "RABBITMQ", "CONSUL", "OPENBAO"} {
		if os.Getenv("DROVER_TEST_NO_"+name) == "1" {
			t.Skip("a server is missing: DROVER_TEST_NO_" + name)
		}
	}
	for _, b := range []servers.Built{built.Consul, built.OpenBao} {
		if _, err := servers.Build(t.Context(), b, os.Stderr); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rabbitmq.Find(); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("DROVER_TEST_NO_PROMTOOL") != "1" { // which comes in one package with the server
		if out, err := exec.Command("../with-promtool.sh", "true").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	// Not the test's own: PostgreSQL runs as another user where this is root.
	dir, err := os.MkdirTemp("", "drover-bootstrap-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, state: filepath.Join(dir, "state"), port: block(t)}
	t.Cleanup(func() {
		if out, code := w.run("destroy", "--yes", "--state", w.state); code != 0 && code != 1 {
			t.Errorf("destroy: %d %s", code, out)
		}
		if left := w.processes(); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
		os.RemoveAll(dir)
	})
	return w
}

// block finds twelve free ports in a row, below those that systems give away.
func block(t testing.TB) int {
	t.Helper()
	for range 200 {
		_, text, _ := net.SplitHostPort(drover.FreeAddress(t))
		from, _ := strconv.Atoi(text)
		free := true
		for p := from; p < from+12 && free; p++ {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
			if free = err == nil; free {
				l.Close()
			}
		}
		if free {
			return from
		}
	}
	t.Fatal("there are no free ports")
	return 0
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(drover.Binary(), append([]string{"bootstrap"}, args...)...)
	cmd.Env = append(os.Environ(), "DROVER_CONFIG=")
	return cmd
}

// run runs it to its end.
func (w *world) run(args ...string) (string, int) {
	var out bytes.Buffer
	cmd := w.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func (w *world) local(more ...string) []string {
	return append([]string{"--location", "local", "--state", w.state, "--port", strconv.Itoa(w.port), "-o", "json", "--timeout", patience.String()}, more...)
}

// boot runs it on this machine until it ends, or kills it after so many lines; 0: never.
func (w *world) boot(killAfter int, more ...string) (lines []line, said string, killed bool, code int) {
	w.t.Helper()
	return w.steps(killAfter, w.local(more...)...)
}

// steps is boot wherever the arguments say.
func (w *world) steps(killAfter int, args ...string) (lines []line, said string, killed bool, code int) {
	w.t.Helper()
	return w.follow(killAfter, w.command(args...))
}

// follow is steps of a command that tells them.
func (w *world) follow(killAfter int, cmd *exec.Cmd) (lines []line, said string, killed bool, code int) {
	w.t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			w.t.Errorf("no JSON: %s", in.Text())
			continue
		}
		lines = append(lines, l)
		if killAfter > 0 && len(lines) == killAfter && l.Step != "report" {
			killed = true
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	return lines, errs.String(), killed, cmd.ProcessState.ExitCode()
}

// must runs it to its end, which is good, and returns what it says last.
func (w *world) must(more ...string) line {
	w.t.Helper()
	lines, said, _, code := w.boot(0, more...)
	if code != 0 || len(lines) == 0 {
		w.t.Fatalf("bootstrap ends with %d: %s\n%+v\n%s", code, said, lines, w.logs())
	}
	return lines[len(lines)-1]
}

// logs are the last of what the programs have said.
func (w *world) logs() string {
	var out strings.Builder
	all, _ := filepath.Glob(filepath.Join(w.state, "run", ".programs", "*", "output.log"))
	for _, name := range all {
		data, _ := os.ReadFile(name)
		fmt.Fprintf(&out, "== %s\n%s\n", name, data[max(0, len(data)-2000):])
	}
	return out.String()
}

func (w *world) client() *client.Client {
	w.t.Helper()
	token, err := os.ReadFile(filepath.Join(w.state, "run/drover/data/admin.token"))
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := client.New(client.Config{Server: "https://" + w.at(0), Token: strings.TrimSpace(string(token)), HTTPClient: w.http()})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// phase of an environment of the new Drover, and how many of its resources are ready.
func (w *world) phase(name string) (string, int) {
	o, err := w.client().Get(w.t.Context(), "environments", name, "")
	if err != nil {
		return err.Error(), 0
	}
	var status struct{ Counts struct{ Ready int } }
	if err := json.Unmarshal(o.Status, &status); err != nil {
		w.t.Fatal(err)
	}
	return o.Phase, status.Counts.Ready
}

// processes are those that work in the state directory, by program.
func (w *world) processes() map[string][]int {
	out := map[string][]int{}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		at, err := os.Readlink(proc + "/cwd")
		inside, ok := strings.CutPrefix(strings.TrimSuffix(at, " (deleted)"), w.state+"/run/")
		if err != nil || !ok {
			continue
		}
		name, _, _ := strings.Cut(inside, "/")
		pid, _ := strconv.Atoi(filepath.Base(proc))
		out[name] = append(out[name], pid)
	}
	return out
}

// pid of a program, as its record has it once it works.
func (w *world) pid(name string) int {
	w.t.Helper()
	var rec struct {
		PID   int
		Ready bool
	}
	drover.Until(w.t, name+" works", func() bool {
		data, err := os.ReadFile(filepath.Join(w.state, "run/.programs", name, "record.json"))
		if err == nil {
			err = json.Unmarshal(data, &rec)
		}
		return err == nil && rec.Ready && rec.PID > 1
	})
	return rec.PID
}
