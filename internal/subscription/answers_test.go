package subscription_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/subscription"
)

// ordered writes commands, as far as this package knows them.
func (w *world) ordered(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		put := ledger.Put{Object: ledger.Object{Ref: ledger.Ref{Kind: "command", ID: ledger.NewID()}, Org: "acme", Name: name, Phase: "accepted"}, Op: "accepted"}
		if _, err := w.store.Commit(t.Context(), ledger.Set{Actor: "alice", Cause: ledger.ByRequest("r"), Puts: []ledger.Put{put}}); err != nil {
			t.Fatal(err)
		}
	}
}

// While the broker refuses events, senders of commands are answered, however many
// changes come after the one that is refused. Once it takes them, all are told in order.
func TestAnswersGoOnWhileEventsAreRefused(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	if err := w.service.EnsureBus(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.bus.fail(fault.New(fault.Unavailable, "a queue that follows it is full").Because(bus.ReasonFull), 0)
	w.run(t)
	want := numbered("c", 700) // more than are delivered in one go
	w.ordered(t, want...)
	if diff := cmp.Diff(want, names(w.answers.until(t, has(len(want))))); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
	if told := w.bus.told(); len(told) > 0 {
		t.Fatalf("the broker took %d events: this shows nothing", len(told))
	}
	w.bus.fail(nil, 0)
	if diff := cmp.Diff(want, names(w.bus.until(t, has(len(want))))); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// A ledger whose answers went out with its events goes on where those are.
func TestAnswersBeginWhereEventsAre(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	head, err := w.store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := `{"cursor":` + strconv.FormatInt(head.Seq, 10) + `,"ledger":"` + head.Ledger + `","epoch":1}`
	put := ledger.Put{Object: ledger.Object{Ref: ledger.Ref{Kind: subscription.Kind.Name, ID: subscription.BusID}, Name: "bus", Phase: subscription.Active,
		Spec: []byte(`{"to":"bus","all":true}`), Status: []byte(old)}, Op: "create"}
	if _, err := w.store.Commit(t.Context(), ledger.Set{Actor: "system", Cause: ledger.ByRequest("r"), Puts: []ledger.Put{put}}); err != nil {
		t.Fatal(err)
	}
	w.ordered(t, "untold")
	if err := w.service.EnsureBus(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.run(t)
	if diff := cmp.Diff([]string{"untold"}, names(w.answers.until(t, has(1)))); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
}

// still is a log in which nothing more happens.
type still struct{ subscription.Log }

func (s still) Next(ctx context.Context, after int64) ([]ledger.Change, error) {
	changes, err := s.Changes(ctx, ledger.ChangeQuery{After: after, Limit: 100})
	if err == nil && len(changes) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return changes, err
}

// One that nothing concerns for days is not taken for one that missed something: its
// cursor follows, and no more often than that takes.
func TestACursorFollowsWhatIsOfNoInterest(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	if err := w.service.EnsureBus(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref := ledger.Ref{Kind: subscription.Kind.Name, ID: subscription.AnswersID}
	now := time.Now()
	w.service.Now = func() time.Time { return now }
	w.service.Feed = still{w.store}
	writes := func() int {
		t.Helper()
		res, err := w.service.Reconcile(t.Context(), reconcile.Task{Ref: ref})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Write.Puts) > 0 {
			res.Write.Cause = ledger.BySchedule("test")
			if _, err := w.store.Commit(t.Context(), res.Write); err != nil {
				t.Fatal(err)
			}
		}
		return len(res.Write.Puts)
	}
	w.write(t, "acme", "thing")
	if n := writes(); n != 0 {
		t.Errorf("at once: %d writes", n)
	}
	now = now.Add(2 * time.Hour)
	if n := writes(); n != 1 {
		t.Errorf("after two hours: %d writes", n)
	}
	now = now.Add(2 * time.Hour)
	if n := writes(); n != 0 {
		t.Errorf("after only the cursor has moved: %d writes", n)
	}
}

// tardy is a log that takes longer to read than a reader waits for news.
type tardy struct{}

func (tardy) Next(ctx context.Context, _ int64) ([]ledger.Change, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A log that is slow to read is not taken for one that has ended: whoever is behind
// would stay there until something else happens.
func TestASlowLogHasNotEnded(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	if err := w.service.EnsureBus(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.write(t, "acme", numbered("n", 3)...)
	w.service.Feed = tardy{}
	if _, err := w.service.Reconcile(t.Context(), reconcile.Task{Ref: ledger.Ref{Kind: subscription.Kind.Name, ID: subscription.BusID}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(numbered("n", 3), names(w.bus.told())); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
