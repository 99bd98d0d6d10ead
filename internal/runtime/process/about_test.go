package process_test

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/process"
)

// lines hands over what is logged, with what its context knows.
type lines struct {
	slog.Handler
	said chan string
}

func (l lines) Handle(ctx context.Context, r slog.Record) error {
	cause, _ := ledger.KnownCause(ctx)
	l.said <- r.Message + "|" + string(cause) + "|" + ledger.OrgOf(ctx)
	return nil
}

func (lines) Enabled(context.Context, slog.Level) bool { return true }

// Whatever becomes of a process, the log goes back to the request that wanted it so,
// also that of an agent which was started anew.
func TestLinesGoBackToWhatWantedTheProcess(t *testing.T) {
	dir := t.TempDir()
	said := make(chan string, 1000)
	begin := func() *process.Runtime {
		cfg := config(dir)
		cfg.Logger = slog.New(lines{said: said})
		rt, err := process.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
	hear := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-said:
				if got == want {
					return
				}
			case <-time.After(2 * time.Minute):
				t.Fatalf("nobody says %q", want)
			}
		}
	}
	rt := begin()
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Cause: "request:night-shift-4711", Org: "acme", Body: doc("a.test", "one", nil)})
	await(t, rt, "a", is(runtime.Ready))
	hear("an instance was started|request:night-shift-4711|acme")
	hear("an instance is ready|request:night-shift-4711|acme")
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	rt = begin()
	defer rt.Close()
	pid, err := strconv.Atoi(get(t, await(t, rt, "a", is(runtime.Ready)).Routes["a.test"], "/pid"))
	if err != nil {
		t.Fatal(err)
	}
	one, err := os.FindProcess(pid)
	if err == nil {
		err = one.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	hear("an instance's process ended|request:night-shift-4711|acme")
	remove(t, rt, "a")
}
