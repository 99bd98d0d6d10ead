package subscription_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/subscription"
)

// slow is a receiver that takes its time, by the clock that it moves itself.
type slow struct {
	receiver
	now  time.Time
	each time.Duration
}

func (s *slow) Post(context.Context, hook.Post) error { s.now = s.now.Add(s.each); return nil }

// A receiver has as long as a round takes, and at least one event.
func TestSlowReceiversLetGo(t *testing.T) {
	for _, c := range []struct {
		reason string
		each   time.Duration
		want   int
	}{
		{"a fast one gets everything", time.Millisecond, 10},
		{"a slow one gets what there is time for", 400 * time.Millisecond, 3},
		{"a very slow one gets one", 9 * time.Second, 1},
	} {
		s := &slow{now: time.Unix(0, 0), each: c.each}
		w := &subscription.Webhook{Poster: s, Keeper: s, Now: func() time.Time { return s.now }}
		if n, err := w.Deliver(t.Context(), subscription.Subscription{}, make([]subscription.Event, 10)); n != c.want || err != nil {
			t.Errorf("%s: %d were delivered, want %d: %v", c.reason, n, c.want, err)
		}
	}
}

// few takes some of what is delivered at a time, and nothing before it may.
type few struct {
	sink
	atOnce  int
	entered chan struct{}
	may     chan struct{}
}

func (f *few) Deliver(ctx context.Context, s subscription.Subscription, events []subscription.Event) (int, error) {
	if f.entered != nil && s.Org == "evil" {
		f.entered <- struct{}{}
		<-f.may
	}
	return f.sink.Deliver(ctx, s, events[:min(len(events), f.atOnce)])
}

// round carries a subscription forward once, and writes what comes of it.
func (w *world) round(t *testing.T, ref ledger.Ref) reconcile.Result {
	t.Helper()
	res, err := w.service.Reconcile(t.Context(), reconcile.Task{Ref: ref})
	if err != nil {
		t.Error(err)
	}
	if len(res.Write.Puts) > 0 {
		res.Write.Cause = ledger.BySchedule("test")
		if _, err := w.store.Commit(t.Context(), res.Write); err != nil {
			t.Error(err)
		}
	}
	return res
}

// What there was no time for is told in the next round: nothing is left out, and
// nothing told twice.
func TestWhatThereWasNoTimeForIsTold(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	hook := &few{atOnce: 2}
	w.service.Sinks[subscription.ToWebhook] = hook
	sub, _, err := w.service.Create(admin("acme"), "ours", subscription.Spec{URL: "https://a.example/x", Kinds: []string{"thing"}})
	if err != nil {
		t.Fatal(err)
	}
	want := numbered("n", 5)
	w.write(t, "acme", want...)
	rounds := 1
	for w.round(t, sub.Ref).Again && rounds < 10 {
		rounds++
	}
	if diff := cmp.Diff(want, names(hook.told())); diff != "" || len(hook.told()) != len(want) || rounds != 3 {
		t.Errorf("in %d rounds %d were told (-want +got):\n%s", rounds, len(hook.told()), diff)
	}
}

// Among very many changes of no interest a subscription gets on, however few of them
// are read in a round.
func TestChangesOfNoInterestAreLeftBehind(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	sub, _, err := w.service.Create(admin("acme"), "ours", subscription.Spec{URL: "https://a.example/x", Kinds: []string{"thing"}})
	if err != nil {
		t.Fatal(err)
	}
	set := ledger.Set{Actor: "eve", Cause: ledger.ByRequest("r")}
	for range 700 {
		set.Puts = append(set.Puts, ledger.Put{Object: ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: ledger.NewID()}, Org: "evil"}, Op: "create"})
	}
	if _, err := w.store.Commit(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	w.write(t, "acme", "ours")
	now := time.Unix(0, 0)
	w.service.Now = func() time.Time { now = now.Add(600 * time.Millisecond); return now } // one look at the log is a round
	for rounds := 0; len(w.hook.told()) == 0; rounds++ {
		if rounds == 10 {
			t.Fatal("after ten rounds it is where it began")
		}
		w.round(t, sub.Ref)
	}
}

// However many slow receivers an organisation has, others get their turn, and whoever
// has more to tell lets them go first.
func TestOneOrganisationDoesNotTakeAllTurns(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	hook := &few{atOnce: 1, entered: make(chan struct{}), may: make(chan struct{})}
	w.service.Sinks[subscription.ToWebhook] = hook
	webhook := func(org, name string) ledger.Ref {
		sub, _, err := w.service.Create(admin(org), name, subscription.Spec{URL: "https://a.example/x", Kinds: []string{"thing"}})
		if err != nil {
			t.Fatal(err)
		}
		return sub.Ref
	}
	var theirs []ledger.Ref
	for _, name := range numbered("slow", 5) {
		theirs = append(theirs, webhook("evil", name))
	}
	ours := webhook("acme", "ours")
	w.write(t, "evil", "a", "b")
	w.write(t, "acme", "c")
	results := [4]reconcile.Result{}
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = w.round(t, theirs[i]) })
		<-hook.entered
	}
	if res := w.round(t, theirs[4]); !res.Next || res.Again {
		t.Errorf("a fifth of theirs is told at once: %+v", res)
	}
	w.round(t, ours)
	if diff := cmp.Diff([]string{"c"}, names(hook.told())); diff != "" {
		t.Errorf("told to another organisation meanwhile (-want +got):\n%s", diff)
	}
	close(hook.may)
	all.Wait()
	for i, res := range results {
		if res.Again || !res.Next || len(res.Write.Puts) != 1 {
			t.Errorf("%d goes on before those who wait: %+v", i, res)
		}
	}
	go func() { <-hook.entered }()
	if res := w.round(t, theirs[4]); !res.Again {
		t.Errorf("nobody waits, and it does not go on: %+v", res)
	}
}
