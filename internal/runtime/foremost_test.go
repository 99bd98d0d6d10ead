package runtime_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/runtime"
)

// Whatever the list, nothing in trouble goes while something in order stays, and the
// order is the list's.
func TestForemost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := rapid.SliceOfN(rapid.SampledFrom([]string{"Synced", "OutOfSync"}), 0, 30).Draw(t, "states")
		room := rapid.IntRange(0, 30).Draw(t, "room")
		var all []runtime.DeployedResource
		troubled := 0
		for i, s := range states {
			all = append(all, runtime.DeployedResource{Name: string(rune('A' + i)), Status: s})
			if s != "Synced" {
				troubled++
			}
		}
		got, had, last := runtime.Foremost(all, room), 0, ""
		for _, r := range got {
			if r.Name <= last {
				t.Fatalf("%s comes after %s", r.Name, last)
			}
			if last = r.Name; r.Troubled() {
				had++
			}
		}
		if len(got) != min(room, len(all)) || had != min(troubled, room) {
			t.Fatalf("%d are kept, %d of them in trouble, of %d and %d with room for %d", len(got), had, len(all), troubled, room)
		}
	})
	if !(runtime.DeployedResource{Status: "Synced", Health: &runtime.HealthStatus{Status: "Degraded"}}).Troubled() || !(runtime.SyncedResource{Status: "SyncFailed"}).Troubled() {
		t.Error("what is degraded, or could not be applied, is in order")
	}
}
