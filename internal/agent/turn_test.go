package agent_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime"
)

func TestTenantsTakeTurns(t *testing.T) {
	of := func(workspace string, n int) runtime.Item {
		return runtime.Item{ID: fmt.Sprintf("%s-%d", workspace, n), Kind: runtime.KindDeployment, Body: json.RawMessage(`{"workspace":"` + workspace + `"}`)}
	}
	var items []runtime.Item
	for i := range 100 {
		items = append(items, of("loud", i))
	}
	items = append(items, of("quiet", 0), runtime.Item{ID: "instance", Body: json.RawMessage(`{"workspace":"loud"}`)}, of("quiet", 1))
	got := agent.Turns(items...)
	want := []string{"loud-0", "quiet-0", "instance", "loud-1", "quiet-1", "loud-2", "loud-3"}
	if d := cmp.Diff(want, got[:len(want)]); d != "" || len(got) != len(items) {
		t.Errorf("of %d items %d were applied, in this order:\n%s", len(items), len(got), d)
	}
}
