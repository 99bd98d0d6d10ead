//go:build linux

package process_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/process"
)

// killedAt runs an agent that applies the item and is killed at the step.
func killedAt(t *testing.T, dir, step string, it runtime.Item) {
	t.Helper()
	b, err := json.Marshal(it)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = []string{"ROLE=agent", "DIR=" + dir, "STEP=" + step, "ITEM=" + string(b)}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil || cmd.ProcessState.String() != "signal: killed" {
		t.Fatalf("the agent was not killed at %s: %v\n%s", step, err, out)
	}
}

func TestAgentKilledWhileCreating(t *testing.T) {
	for _, step := range []string{"item", "intent", "started", "process"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			it := runtime.Item{ID: "a", Generation: 1, Token: 5, Body: doc("a.test", "1", nil)}
			killedAt(t, dir, step, it)
			id := nonce(t, dir, "a")
			before := carriers(t, id)
			rt, stop := open(t, dir)
			defer stop()
			apply(t, rt, it)
			o := await(t, rt, "a", is(runtime.Ready))
			after := carriers(t, id)
			if len(after) != 1 {
				t.Errorf("killed at %s: processes %v, want one", step, after)
			}
			if got := get(t, o.Routes["a.test"], "/pid"); got != strconv.Itoa(after[0]) {
				t.Errorf("process %s answers, %d is ours", got, after[0])
			}
			if len(before) == 1 && before[0] != after[0] {
				t.Errorf("process %d was replaced by %d instead of adopted", before[0], after[0])
			}
			if (step == "started" || step == "process") && len(before) != 1 {
				t.Errorf("the child did not survive its agent: %v", before)
			}
			remove(t, rt, "a")
			if left := carriers(t, id); len(left) != 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

func TestAgentKilledWhileRemoving(t *testing.T) {
	for _, step := range []string{"item", "asked", "stopped", "tombstone", "removed"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			rt, stop := open(t, dir)
			apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 5, Body: doc("a.test", "1", map[string]string{"FAMILY": "1"})})
			await(t, rt, "a", is(runtime.Ready))
			id := nonce(t, dir, "a")
			stop()
			if got := len(carriers(t, id)); got != 2 {
				t.Fatalf("%d processes after the runtime was closed, want 2", got)
			}
			killedAt(t, dir, step, runtime.Item{ID: "a", Generation: 2, Token: 6, Delete: true})
			rt, stop = open(t, dir)
			defer stop()
			o := await(t, rt, "a", is(runtime.Deleted)) // without being told again
			if left := carriers(t, id); o.Generation != 2 || len(left) != 0 {
				t.Errorf("killed at %s: %+v, processes %v are left", step, o, left)
			}
			if _, err := os.Stat(filepath.Join(dir, "a")); !os.IsNotExist(err) {
				t.Errorf("the directory is left: %v", err)
			}
		})
	}
}

func TestAgentKilledWhileReplacing(t *testing.T) {
	for _, step := range []string{"item", "asked", "stopped", "intent", "started", "process"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			rt, stop := open(t, dir)
			apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 5, Body: doc("a.test", "1", nil)})
			await(t, rt, "a", is(runtime.Ready))
			stop()
			killedAt(t, dir, step, runtime.Item{ID: "a", Generation: 2, Token: 6, Body: doc("a.test", "2", map[string]string{"NEW": "1"})})
			rt, stop = open(t, dir)
			defer stop()
			o := await(t, rt, "a", func(o runtime.Observed) bool { return o.State == runtime.Ready && o.Generation == 2 })
			var env []string
			if err := json.Unmarshal([]byte(get(t, o.Routes["a.test"], "/env")), &env); err != nil {
				t.Fatal(err)
			}
			if pids := carriers(t, nonce(t, dir, "a")); len(pids) != 1 {
				t.Errorf("processes %v, want one", pids)
			}
			if !contains(env, "NEW=1") {
				t.Errorf("the old process answers as generation 2: %v", env)
			}
			remove(t, rt, "a")
		})
	}
}

func contains(all []string, s string) bool {
	for _, v := range all {
		if v == s {
			return true
		}
	}
	return false
}

// A stranger under a recorded pid is left alone, and the instance starts afresh.
func TestRecordedPidOfAStranger(t *testing.T) {
	dir := t.TempDir()
	rt, stop := open(t, dir)
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: doc("a.test", "1", nil)})
	await(t, rt, "a", is(runtime.Ready))
	remainder := nonce(t, dir, "a")
	stop()
	stranger := exec.Command(os.Args[0])
	stranger.Env = []string{"ROLE=linger"}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	born, _ := process.Birth(stranger.Process.Pid)
	for _, c := range []struct {
		reason, birth string
		err           bool
	}{
		{"A pid that was given to another is not ours.", "boot/1", false},
		{"A process that cannot show the nonce is neither signalled nor replaced.", born, true},
	} {
		rec, _ := json.Marshal(map[string]any{"run": 7, "port": 1, "pid": stranger.Process.Pid, "birth": c.birth})
		if err := os.WriteFile(filepath.Join(dir, "a", "process.json"), rec, 0o600); err != nil {
			t.Fatal(err)
		}
		rt, stop = open(t, dir)
		if c.err {
			await(t, rt, "a", is(runtime.Error))
		} else {
			await(t, rt, "a", is(runtime.Ready))
		}
		if _, alive := process.Birth(stranger.Process.Pid); !alive {
			t.Fatalf("%s It was ended.", c.reason)
		}
		stop()
	}
	_ = stranger.Process.Kill()
	_ = stranger.Wait()
	rt, stop = open(t, dir)
	defer stop()
	await(t, rt, "a", is(runtime.Ready))
	remove(t, rt, "a")
	if left := carriers(t, remainder); len(left) != 0 {
		t.Errorf("processes %v are left", left)
	}
}
