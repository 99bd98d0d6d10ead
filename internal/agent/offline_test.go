package agent_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

func logTo(b *bytes.Buffer) func(*agent.Config) {
	return func(c *agent.Config) { c.Logger = slog.New(slog.NewTextHandler(b, nil)) }
}

// An agent that starts without a control plane goes on with what it kept, as
// far as that is signed.
func TestStartWithoutAControlPlane(t *testing.T) {
	replace := func(name, old, new string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), old) {
				t.Fatalf("%s holds no %q: %v", name, old, err)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	bucket := func(id string) string { return fmt.Sprintf("items-%02d.json", v1.BucketOf(id)) }
	for name, c := range map[string]struct {
		reason string
		tamper func(*testing.T, string)
		want   []string // what the runtime is given
		named  string   // in the log
	}{
		"as it was":   {"Everything is there again.", func(*testing.T, string) {}, []string{"a", "b"}, ""},
		"body":        {"A body that somebody changed is refused.", replace(bucket("a"), "a.test", "evil.test"), []string{"b"}, "instance=a"},
		"generation":  {"So is another generation.", replace(bucket("a"), `"generation":1`, `"generation":9`), []string{"b"}, "instance=a"},
		"removal":     {"A removal that nobody signed removes nothing.", replace(bucket("a"), `"token":1`, `"token":1,"delete":true`), []string{"b"}, "instance=a"},
		"epoch":       {"So is another epoch.", replace(bucket("a"), `"epoch":3`, `"epoch":2`), []string{"b"}, "instance=a"},
		"proof":       {"So is what is not signed.", replace(bucket("a"), `"proof":`, `"was":`), []string{"b"}, "instance=a"},
		"place":       {"So is what lies in the wrong place.", func(t *testing.T, dir string) { swap(t, dir, bucket("a"), bucket("b")) }, nil, "instance=a"},
		"cut":         {"A file that was cut off is told of.", replace(bucket("a"), `}`, ``), []string{"b"}, bucket("a")},
		"no keys":     {"Without keys nobody vouches for anything.", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "keys.json")) }, nil, "instance=a"},
		"broken keys": {"Nor with broken ones.", replace("keys.json", `"keys"`, `"locks"`), nil, "the kept keys are not followed"},
		"other keys": {"Nor with another's.", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "keys.json"), []byte(newServer().keys), 0o600); err != nil {
				t.Fatal(err)
			}
		}, nil, "instance=a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, dir := newServer(), t.TempDir()
				s.say(1, item("a", 1), item("b", 1))
				stop := start(t, s, simulated.New(simulated.Config{}), dir)
				settle(time.Second)
				stop()
				c.tamper(t, dir)
				s.goDown(true)
				var log bytes.Buffer
				runs := simulated.New(simulated.Config{}) // of a runtime that has lost everything
				stop = start(t, s, runs, dir, logTo(&log))
				settle(time.Minute)
				var got []string
				for _, id := range []string{"a", "b"} {
					if o := observed(t, runs)[id]; o.State == runtime.Ready && o.Generation == 1 {
						got = append(got, id)
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s %s", c.reason, diff)
				}
				if n := len(observed(t, runs)); n != len(c.want) {
					t.Errorf("the runtime holds %d items", n)
				}
				if !strings.Contains(log.String(), c.named) {
					t.Errorf("the log names no %q: %s", c.named, log.String())
				}
				if text := log.String(); !strings.Contains(text, "cannot reach the control plane yet") || strings.Contains(text, "lost the control plane") {
					t.Errorf("of a control plane that it never had, it says %s", text)
				}
				s.goDown(false)
				settle(20 * time.Second)
				for _, id := range []string{"a", "b"} {
					if o := observed(t, runs)[id]; o.State != runtime.Ready || o.Routes[id+".test"] == "" {
						t.Errorf("with the control plane, %s is %+v", id, o)
					}
				}
				stop()
			})
		})
	}
}

func swap(t *testing.T, dir, a, b string) {
	for _, move := range [][2]string{{a, "x"}, {b, a}, {"x", b}} {
		if err := os.Rename(filepath.Join(dir, move[0]), filepath.Join(dir, move[1])); err != nil {
			t.Fatal(err)
		}
	}
}

// What was kept does not put back what the runtime has in a newer form.
func TestKeptIsNotPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir, rt := newServer(), t.TempDir(), simulated.New(simulated.Config{})
		s.say(1, item("a", 1), item("b", 1))
		stop := start(t, s, rt, dir)
		settle(time.Second)
		stop()
		for _, it := range []runtime.Item{
			{ID: "a", Epoch: 3, Generation: 2, Token: 1, Body: item("a", 2).Body},
			{ID: "b", Epoch: 3, Generation: 2, Token: 1, Delete: true},
		} {
			if err := rt.Apply(t.Context(), it); err != nil {
				t.Fatal(err)
			}
		}
		s.goDown(true)
		stop = start(t, s, rt, dir)
		settle(time.Minute)
		stop()
		if got := observed(t, rt); got["a"].Generation != 2 || got["b"].State != runtime.Deleted {
			t.Errorf("after a start with an older memory: %v", got)
		}
	})
}

func TestKeysAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newServer(), t.TempDir()
		s.say(1, item("a", 1), item("b", 1))
		stop := start(t, s, simulated.New(simulated.Config{}), dir)
		settle(time.Second)
		s.do(func() { s.rotate("k2") })
		settle(20 * time.Second)
		stop()
		s.goDown(true)
		rt := simulated.New(simulated.Config{})
		stop = start(t, s, rt, dir)
		settle(time.Minute)
		stop()
		if got := observed(t, rt); len(got) != 2 {
			t.Errorf("after the keys were changed, what is kept is good for %v", got)
		}
	})
}
