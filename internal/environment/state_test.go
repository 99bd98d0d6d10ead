package environment_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/sqlledger"
)

func stateOf(lineage string, serial int64, more string) []byte {
	return fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":%q,"outputs":{},"resources":[%s]}`, serial, lineage, more)
}

func newStates(t *testing.T) *environment.States {
	t.Helper()
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "drover.db"), Key: make([]byte, 32), Kinds: environment.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &environment.States{Store: l, Keeper: l}
}

func TestDecideState(t *testing.T) {
	locked := environment.State{Serial: 4, Lineage: "a", Sealed: "secret:x", Lock: &environment.StateLock{ID: "mine", Host: "h"}}
	free := locked
	free.Lock = nil
	for _, tc := range []struct {
		reason string
		now    environment.State
		lock   string
		data   []byte
		kind   fault.Kind
		why    string
		news   bool
	}{
		{"the first", environment.State{Lock: &environment.StateLock{ID: "mine"}}, "mine", stateOf("a", 1, ""), 0, "", true},
		{"the next", locked, "mine", stateOf("a", 5, ""), 0, "", true},
		{"the answer was lost", locked, "mine", stateOf("a", 4, ""), 0, "", false},
		{"an older one", locked, "mine", stateOf("a", 3, ""), fault.Conflict, "older", false},
		{"one of something else", locked, "mine", stateOf("b", 9, ""), fault.Conflict, "lineage", false},
		{"of another run", locked, "other", stateOf("a", 5, ""), fault.Conflict, "locked", false},
		{"without a lock while there is one", locked, "", stateOf("a", 5, ""), fault.Conflict, "locked", false},
		{"the lock was taken away", free, "mine", stateOf("a", 5, ""), fault.Conflict, "lock-lost", false},
		{"what was left behind is brought in", free, "", stateOf("a", 5, ""), 0, "", true},
		{"no JSON", locked, "mine", []byte("{"), fault.Invalid, "body", false},
		{"no state", locked, "mine", []byte(`{"serial":9}`), fault.Invalid, "body", false},
	} {
		next, news, err := environment.DecideState(tc.now, environment.StateWrite{Lock: tc.lock, Data: tc.data})
		if tc.why == "" && (err != nil || news != tc.news || next.Lineage != "a") || tc.why != "" && (!fault.Is(err, tc.kind) || fault.Reason(err) != tc.why) {
			t.Errorf("%s: %+v, %v, %v", tc.reason, next, news, err)
		}
	}
}

// Whatever runs do in whatever order, at most one holds a state, serials never go
// back, and one whose lock was taken away never writes.
func TestStatesHaveOneWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var now environment.State
		holder := ""
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			run := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "run")
			fence := int64(rapid.IntRange(0, 5).Draw(t, "fence"))
			switch rapid.SampledFrom([]string{"lock", "write", "unlock", "break"}).Draw(t, "step") {
			case "lock":
				next, err := environment.DecideLock(now, environment.StateLock{ID: run, Fence: fence})
				late := fence > 0 && fence < now.Fence
				if want := holder == run || holder == "" && !late; (err == nil) != want {
					t.Fatalf("%s locks what %q holds (fence %d of %d): %v", run, holder, fence, now.Fence, err)
				}
				if err == nil {
					holder = run
				}
				now = next
			case "write":
				serial := now.Serial + int64(rapid.IntRange(-1, 2).Draw(t, "by"))
				next, _, err := environment.DecideState(now, environment.StateWrite{Lock: run, Data: stateOf("l", serial, "")})
				if err == nil && (holder != run || next.Serial < now.Serial) {
					t.Fatalf("%s writes %d over %d while %q holds it", run, serial, now.Serial, holder)
				}
				if err == nil {
					now = next
				}
			default:
				if holder == run {
					now.Lock, holder = nil, ""
				}
			}
		}
	})
}

func TestStatesAreKept(t *testing.T) {
	s := newStates(t)
	ctx := t.Context()
	lock := environment.StateLock{ID: "run", Host: "here", Info: json.RawMessage(`{"ID":"run"}`)}
	if _, err := s.Lock(ctx, "r1", lock); err != nil {
		t.Fatal(err)
	}
	var first string
	for serial := range int64(8) {
		data := stateOf("a", serial+1, `{"mode":"managed","type":"x","name":"hush-hush-hush"}`)
		if err := s.Write(ctx, "r1", environment.StateWrite{Lock: "run", Data: data}); err != nil {
			t.Fatal(err)
		}
		now, _, err := s.Read(ctx, "r1")
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = now.Sealed
		}
	}
	now, data, err := s.Read(ctx, "r1")
	if err != nil || now.Serial != 8 || len(now.Earlier) != 5 || now.Earlier[0].Serial != 7 || !strings.Contains(string(data), "hush") {
		t.Errorf("kept is %+v, %v", now, err)
	}
	if _, err := s.Keeper.Unseal(ctx, first); err == nil {
		t.Error("one that nothing refers to any more is still there")
	}
	// The same serial with something else in it is another state.
	other := stateOf("a", 8, `{"mode":"managed","type":"x","name":"other"}`)
	if err := s.Write(ctx, "r1", environment.StateWrite{Lock: "run", Data: other}); fault.Reason(err) != "older" {
		t.Errorf("another state of the same serial: %v", err)
	}
	if err := s.Forget(ctx, "r1"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a state of what is still there was forgotten: %v", err)
	}
	held, err := s.Lock(ctx, "r1", environment.StateLock{ID: "other"})
	if fault.Reason(err) != "locked" || held == nil || held.ID != "run" || held.Since.IsZero() {
		t.Errorf("two hold it: %+v, %v", held, err)
	}
	if err := s.Write(ctx, "r1", environment.StateWrite{Lock: "run", Data: stateOf("a", 9, "")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Unlock(ctx, "r1", "run"); err != nil {
		t.Fatal(err)
	}
	if err := s.Unlock(ctx, "r1", "run"); fault.Reason(err) != "lock-lost" {
		t.Errorf("unlocked twice: %v", err)
	}
	for range 2 {
		if err := s.Forget(ctx, "r1"); err != nil {
			t.Errorf("an empty state cannot be forgotten: %v", err)
		}
	}
	if now, data, err := s.Read(ctx, "r1"); err != nil || data != nil || now.Sealed != "" || len(now.Earlier) > 0 {
		t.Errorf("of what was forgotten there is %+v, %v", now, err)
	}
	// And it begins again, with another lineage.
	if _, err := s.Lock(ctx, "r1", lock); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(ctx, "r1", environment.StateWrite{Lock: "run", Data: stateOf("b", 1, "")}); err != nil {
		t.Fatal(err)
	}
}

func TestLocksAreGivenToOne(t *testing.T) {
	s := newStates(t)
	var wait sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for i := range 16 {
		wait.Go(func() {
			_, err := s.Lock(t.Context(), "r2", environment.StateLock{ID: fmt.Sprint(i)})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				got++
			} else if fault.Reason(err) != "locked" {
				t.Errorf("%v", err)
			}
		})
	}
	wait.Wait()
	if got != 1 {
		t.Errorf("%d have the lock", got)
	}
}
