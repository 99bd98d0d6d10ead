package gitops_test

import (
	"context"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/runtime"
)

// tellsOf reports the state of an item in the agent's words.
func (y *yard) tellsOf(cluster, id string, state runtime.State, words string) {
	y.t.Helper()
	it, ok := y.item(cluster, id)
	if !ok {
		y.t.Fatalf("%s has nothing of %s", cluster, id)
	}
	_, err := y.s.Observe(context.Background(), cluster, []gitops.Observation{{ID: id, Generation: it.Generation, State: string(state), Message: words, Leaf: it.Seen + 1}})
	y.must(err)
}

// What a removal waits for is told once it takes long: the agent's words of the
// first seconds are no trouble.
func TestARemovalThatLingersSaysWhy(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	y.work(time.Second)
	in := y.intent("uid-1", 1)
	in.Gone, in.Held = true, true
	y.apply(in)
	y.work(time.Second)
	y.tellsOf("hub", "uid-1", runtime.Installing, "it waits for ConfigMap a")
	y.work(5 * time.Second)
	if got := y.condition("uid-1", "DeletionError"); got != "" {
		t.Errorf("at once it is told %q", got)
	}
	y.work(time.Minute)
	const want = "True DeletionError: it waits for ConfigMap a"
	if got := y.condition("uid-1", "DeletionError"); got != want {
		t.Errorf("after a minute it is told %q", got)
	}
	if d := y.get("uid-1"); d.Phase != gitops.Deleting || y.mirror.released["uid-1"] {
		t.Errorf("it is %s", d.Phase)
	}
	commits := y.store.commits
	y.work(time.Hour)
	if y.store.commits != commits {
		t.Errorf("it was written %d times while it waits", y.store.commits-commits)
	}
	y.tellsOf("hub", "uid-1", runtime.Installing, "it waits for ConfigMap b")
	y.work(time.Second)
	if got := y.condition("uid-1", "DeletionError"); got != "True DeletionError: it waits for ConfigMap b" {
		t.Errorf("then it is told %q", got)
	}
	y.report("hub", "uid-1", runtime.Deleted, nil)
	y.work(time.Second)
	if d := y.get("uid-1"); d.Phase != gitops.Gone || !y.mirror.released["uid-1"] {
		t.Errorf("in the end it is %s", d.Phase)
	}
}
