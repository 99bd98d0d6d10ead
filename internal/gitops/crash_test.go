package gitops_test

import (
	"context"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/runtime"
)

// The process is killed before or after every third step while a sync run goes its
// way and another one waits, and while a name passes from one UID to the next.
func TestKilledWhileOthersWait(t *testing.T) {
	for at := 0; ; at += 3 {
		y := newYard(t)
		y.apply(y.manual())
		y.ask(y.runIntent("r1"))
		y.ask(y.runIntent("r2"))
		y.store.at = []int{at}
		calm := func(f func()) { // whoever asks is not killed
			rest := y.store.at
			y.store.at = nil
			f()
			y.store.at = rest
		}
		for _, id := range []string{"r1", "r2"} {
			y.work(time.Minute)
			if b := y.body("hub", "uid-1"); b.Sync == nil || b.Sync.ID != id {
				t.Fatalf("killed at %d: the agent is told %+v", at, b.Sync)
			}
			seen := fine("c1")
			seen.Run = &runtime.SyncRun{ID: id, Phase: "Succeeded", Revision: "c1"}
			calm(func() { y.report("hub", "uid-1", runtime.Ready, seen) })
			y.work(time.Minute)
			if r := y.syncrun(id); r.Phase != gitops.Succeeded || y.runTold(id).Phase != "Succeeded" {
				t.Fatalf("killed at %d: %s is %s", at, id, r.Phase)
			}
		}
		calm(func() {
			delete(y.mirror.there, "uid-1")
			y.apply(y.intent("uid-2", 1))
		})
		y.work(time.Minute)
		calm(func() { y.report("hub", "uid-1", runtime.Deleted, nil) })
		y.work(time.Minute)
		if it, ok := y.item("hub", "uid-2"); !ok || it.Delete {
			t.Fatalf("killed at %d: the next one does not begin", at)
		}
		calm(func() { y.report("hub", "uid-2", runtime.Ready, fine("c2")) })
		y.work(time.Minute)
		y.operationsEnded()
		if y.store.kills == 0 {
			if at < 20 {
				t.Errorf("only %d steps: this shows little", at)
			}
			return
		}
	}
}

// A fifth of all commits are lost, or made without the word of it.
func TestCommitsThatFail(t *testing.T) {
	y := newYard(t)
	in := y.intent("uid-1", 1)
	for i := range 40 {
		in.Generation++
		y.apply(in)
		y.store.at = []int{i % 7, i % 5}
		y.work(time.Minute)
		y.store.at = nil
		y.answer("hub", "uid-1", true)
	}
	y.work(time.Minute)
	if d := y.get("uid-1"); d.Phase != gitops.Deployed || d.Spec.Origin.Generation != in.Generation {
		t.Errorf("it is %s, generation %d", d.Phase, d.Spec.Origin.Generation)
	}
	if err := y.s.Resync(context.Background(), "deployment", "uid-1"); err != nil {
		t.Error(err)
	}
	y.operationsEnded()
}
