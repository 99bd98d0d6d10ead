package subscription_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/subscription"
)

func TestEverythingIsToldInOrder(t *testing.T) {
	databases(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		w.write(t, "acme", "before")
		if err := w.service.EnsureBus(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.replica().EnsureBus(t.Context()); err != nil {
			t.Fatalf("the second replica's: %v", err)
		}
		want := append(numbered("away", 3), numbered("live", 200)...)
		w.write(t, "acme", want[:3]...) // while nobody looks
		w.run(t)
		w.run(t) // two replicas
		w.write(t, "acme", want[3:]...)
		got := names(w.bus.until(t, has(len(want))))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		for _, e := range w.bus.told() {
			if e.SpecVersion != "1.0" || e.Source == "" || e.Subject == "" || e.Time.IsZero() || e.Partition != e.Subject {
				t.Fatalf("no CloudEvent: %+v", e)
			}
		}
	})
}

// Readers are killed again and again while others write: nothing is lost, and each
// object's events stay in order.
func TestNothingIsLostWhenReadersDie(t *testing.T) {
	databases(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		if err := w.service.EnsureBus(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := numbered("n", 120)
		for i := 0; i < len(want); i += 20 {
			stop := w.run(t)
			w.write(t, "acme", want[i:i+20]...)
			w.bus.until(t, has(i+1)) // at least one of these, and then the end
			stop()
		}
		w.run(t)
		if diff := cmp.Diff(want, names(w.bus.until(t, has(len(want))))); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// Whoever is stopped has told what he told, and has not failed: nobody hears it twice.
func TestAReaderThatIsStoppedWritesHowFarItGot(t *testing.T) {
	databases(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		if err := w.service.EnsureBus(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.write(t, "acme", "n")
		ctx, stop := context.WithCancel(t.Context())
		go func() { <-w.bus.came; stop() }()
		result, err := w.service.Reconcile(ctx, reconcile.Task{Ref: ledger.Ref{Kind: subscription.Kind.Name, ID: subscription.BusID}})
		if err != nil || len(result.Write.Puts) != 1 {
			t.Fatalf("%d puts, %v", len(result.Write.Puts), err)
		}
		sub, err := subscription.Decode(result.Write.Puts[0].Object)
		if told := int64(len(w.bus.told())); err != nil || told == 0 || sub.Status.Told != told || sub.Phase != subscription.Active {
			t.Errorf("%d were told; the subscription says %d and is %s: %v", told, sub.Status.Told, sub.Phase, err)
		}
	})
}

// A ledger in which nothing happens stays as it is: reading is no news.
func TestReadingIsNoNews(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	if err := w.service.EnsureBus(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _, err := w.service.Create(admin("acme"), "hook", subscription.Spec{URL: "https://a.example/x"})
	if err != nil {
		t.Fatal(err)
	}
	stop := w.run(t)
	w.write(t, "acme", "one")
	w.bus.until(t, has(1))
	w.hook.until(t, has(1))
	stop()
	before, _ := w.store.Head(t.Context())
	stop = w.run(t)
	w.write(t, "acme", "two")
	w.bus.until(t, has(2))
	w.hook.until(t, has(2))
	stop()
	after, _ := w.store.Head(t.Context())
	if n := after.Seq - before.Seq; n > 5 { // the thing, and a cursor of each, at the end of a run
		t.Errorf("one change was followed by %d others", n-1)
	}
	for _, e := range append(w.bus.told(), w.hook.told()...) {
		if e.Type == "dev.drover.subscription.updated" || e.Type == "dev.drover.subscription.move" {
			t.Errorf("a cursor is told of: %+v", e)
		}
	}
}

func TestAnOrganisationHearsOfItself(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	if _, _, err := w.service.Create(admin("acme"), "ours", subscription.Spec{URL: "https://a.example/x", Kinds: []string{"thing"}}); err != nil {
		t.Fatal(err)
	}
	w.run(t)
	w.write(t, "evil", "theirs")
	w.write(t, "acme", "hidden", "ours")
	if diff := cmp.Diff([]string{"ours"}, names(w.hook.until(t, has(1)))); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestWhoMayHaveAWebhook(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	for _, c := range []struct {
		reason string
		who    access.Principal
		kind   fault.Kind
		ok     bool
	}{
		{"a webhook is told of everything in the organisation", access.Principal{User: "u", Org: "acme"}, fault.Denied, false},
		{"its admin may", access.Principal{User: "a", Org: "acme", OrgAdmin: true}, 0, true},
		{"an admin of nothing may not", access.Principal{User: "a", OrgAdmin: true}, fault.Denied, false},
		{"an operator is told of all", access.Principal{User: "root", Admin: true}, 0, true},
		{"nobody", access.Principal{}, fault.Denied, false},
	} {
		sub, secret, err := w.service.Create(access.With(t.Context(), c.who), "h-"+c.who.User+c.who.Org, subscription.Spec{URL: "https://a.example/x"})
		if c.ok && (err != nil || secret == "" || sub.Spec.All != c.who.Admin) || !c.ok && !fault.Is(err, c.kind) {
			t.Errorf("%s: %v, %+v", c.reason, err, sub.Spec)
		}
	}
	mine, _, err := w.service.Create(admin("acme"), "mine", subscription.Spec{URL: "https://a.example/x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.service.Delete(admin("evil"), mine.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("another organisation's admin deletes it: %v", err)
	}
	if _, _, err := w.service.Update(access.With(t.Context(), access.Principal{User: "u", Org: "acme"}), mine.ID, subscription.Change{Rotate: true}); !fault.Is(err, fault.Denied) {
		t.Errorf("a member rotates its secret: %v", err)
	}
	if err := w.service.Delete(admin("acme"), mine.ID); err != nil {
		t.Error(err)
	}
	if _, err := w.store.Unseal(t.Context(), mine.Spec.Secret); err == nil {
		t.Error("its secret is still there")
	}
	if _, _, err := w.service.Create(admin("acme"), "mine", subscription.Spec{URL: "https://a.example/x"}); err != nil {
		t.Errorf("its name is not free again: %v", err)
	}
}

func TestWebhooksThatAreRefused(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	for reason, spec := range map[string]subscription.Spec{
		"a file is no receiver":         {URL: "file:///etc/passwd"},
		"no host":                       {URL: "https:///x"},
		"a password would be in clear":  {URL: "https://u:p@a.example"},
		"a kind that there is not":      {URL: "https://a.example", Kinds: []string{"nothing"}},
		"nothing":                       {},
		"a fragment never gets through": {URL: "https://a.example/#x"},
	} {
		if _, _, err := w.service.Create(admin("acme"), "h", spec); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// A receiver that fails is tried again, hears of everything in order when it is back,
// and one that does not want to hear is left alone until somebody says so.
func TestReceiversThatFail(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	sub, _, err := w.service.Create(admin("acme"), "ours", subscription.Spec{URL: "https://a.example/x"})
	if err != nil {
		t.Fatal(err)
	}
	w.hook.fail(fault.New(fault.Unavailable, "away"), 1) // takes one of each call
	w.run(t)
	want := numbered("n", 5)
	w.write(t, "acme", want...)
	got := w.hook.until(t, has(5))
	if diff := cmp.Diff(want, names(got)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	w.hook.fail(fault.New(fault.NotFound, "no more").Because(subscription.ReasonGone), 0)
	w.write(t, "acme", "unheard")
	phase := func(want string) subscription.Subscription {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			o, err := w.store.Get(t.Context(), sub.Ref)
			if err != nil {
				t.Fatal(err)
			}
			if o.Phase == want {
				s, _ := subscription.Decode(o)
				return s
			}
			if time.Now().After(deadline) {
				t.Fatalf("it is %s, and should be %s", o.Phase, want)
			}
			select {
			case <-w.hook.came:
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	if s := phase(subscription.Disabled); s.Status.Message != "no more" {
		t.Errorf("it says %q", s.Status.Message)
	}
	w.hook.fail(nil, 0)
	off := false
	if _, _, err := w.service.Update(admin("acme"), sub.ID, subscription.Change{Off: &off}); err != nil {
		t.Fatal(err)
	}
	if got := names(w.hook.until(t, has(6))); !slices.Contains(got, "unheard") {
		t.Errorf("what it missed is not told: %v", got)
	}
	phase(subscription.Active)
}

// Receivers that fell away at one moment are not all called again at one.
func TestReceiversAreNotCalledInStep(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	w.hook.fail(fault.New(fault.Unavailable, "away"), 0)
	w.write(t, "acme", "one")
	waits := map[time.Duration]bool{}
	for i := range 20 {
		sub, _, err := w.service.Create(admin("acme"), fmt.Sprint("s", i), subscription.Spec{URL: "https://a.example/x"})
		if err != nil {
			t.Fatal(err)
		}
		w.write(t, "acme", fmt.Sprint("n", i))
		r, err := w.service.Reconcile(t.Context(), reconcile.Task{Ref: sub.Ref})
		if err != nil || !r.Next || r.After < 150*time.Millisecond || r.After > 250*time.Millisecond {
			t.Fatalf("it comes to %+v, %v", r, err)
		}
		waits[r.After] = true
	}
	if len(waits) < 15 {
		t.Errorf("twenty receivers are called again at %d moments", len(waits))
	}
}

// A receiver may be away for a day, and is told everything afterwards; then nothing is
// sent to it any more. The broker is waited for as long as it takes.
func TestAReceiverThatIsAwayForADay(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	away := fault.New(fault.Unavailable, "away")
	for _, c := range []struct {
		reason, to string
		every      time.Duration
		tries      int
		want       string
	}{
		{"a moment", subscription.ToWebhook, time.Second, 1, subscription.Failing},
		{"nearly a day", subscription.ToWebhook, time.Hour, 24, subscription.Failing},
		{"a day", subscription.ToWebhook, time.Hour, 25, subscription.Disabled},
		{"a day in which hardly anybody tried", subscription.ToWebhook, 3 * time.Hour, 10, subscription.Failing},
		{"often, in less than a day", subscription.ToWebhook, time.Minute, 1000, subscription.Failing},
		{"the broker, for a week", subscription.ToBus, time.Hour, 168, subscription.Failing},
	} {
		sub, news := subscription.Subscription{Object: ledger.Object{Phase: subscription.Active}, Spec: subscription.Spec{To: c.to}, Status: subscription.Status{Cursor: 7}}, 0
		for i := range c.tries {
			var told bool
			if sub, told = subscription.Failed(sub, away, noon.Add(time.Duration(i)*c.every)); told {
				news++
			}
		}
		want := 1
		if c.want == subscription.Disabled {
			want = 2
		}
		if sub.Phase != c.want || news != want || sub.Status.Cursor != 7 || sub.Status.Message != "away" {
			t.Errorf("%s: it is %s after %d words of it, at %d, %q", c.reason, sub.Phase, news, sub.Status.Cursor, sub.Status.Message)
		}
	}
}

// Whoever follows is told that a receiver fails, and after a day of it that nothing is
// sent to it any more: once each, however often it was tried.
func TestTheEndOfASubscriptionIsTold(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	if err := w.service.EnsureBus(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	w.service.Now, w.service.Feed = func() time.Time { return now }, still{w.store}
	sub, _, err := w.service.Create(admin("acme"), "ours", subscription.Spec{URL: "https://a.example/x"})
	if err != nil {
		t.Fatal(err)
	}
	w.hook.fail(fault.New(fault.Unavailable, "away"), 0)
	w.write(t, "acme", "unheard")
	carry := func(ref ledger.Ref) {
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
	}
	told := func() (out []string) {
		t.Helper()
		carry(ledger.Ref{Kind: subscription.Kind.Name, ID: subscription.BusID})
		for _, e := range w.bus.told() {
			var d struct{ Op string }
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
			if e.Subject == sub.Ref.String() {
				out = append(out, e.Type+" "+d.Op)
			}
		}
		return out
	}
	for range 24 {
		carry(sub.Ref)
		now = now.Add(time.Hour)
	}
	want := []string{"dev.drover.subscription.created create", "dev.drover.subscription.moved failing"}
	if diff := cmp.Diff(want, told()); diff != "" {
		t.Errorf("before the day is over (-want +got):\n%s", diff)
	}
	for range 3 {
		carry(sub.Ref)
		now = now.Add(time.Hour)
	}
	if diff := cmp.Diff(append(want, "dev.drover.subscription.moved disabled"), told()); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
}

func TestTopicsAreOneWordEach(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b := rapid.String().Draw(r, "a"), rapid.String().Draw(r, "b")
		if w := subscription.Word(a); slices.ContainsFunc([]byte(w), func(c byte) bool { return c == '.' || c == '*' || c == '#' || c == ' ' }) {
			r.Errorf("%q is %q", a, w)
		}
		if a != b && subscription.Word(a) == subscription.Word(b) {
			r.Errorf("%q and %q are one word", a, b)
		}
	})
	e := subscription.NewEvent(ledger.Head{Ledger: "L", Epoch: 2}, &ledger.Change{Seq: 7, Object: ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: "a.b"}, Org: "acme", Version: 1}}, subscription.Shown{})
	if e.Topic() != "acme.thing.a%2Eb.created" || e.ID != "L-2-7" {
		t.Errorf("topic %s, id %s", e.Topic(), e.ID)
	}
}

func TestSignature(t *testing.T) {
	// The example of the Standard Webhooks specification.
	got := subscription.Sign([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// trimmed is a log of which retention has removed the beginning.
type trimmed struct {
	subscription.Log
	whole int64
}

func (l trimmed) Head(ctx context.Context) (ledger.Head, error) {
	h, err := l.Log.Head(ctx)
	h.Whole = l.whole
	return h, err
}

// What retention has removed before it was told is said to be lost.
func TestAGapIsNeverSilent(t *testing.T) {
	w := newWorld(t, t.TempDir()+"/l.db")
	sub, _, err := w.service.Create(admin("acme"), "ours", subscription.Spec{URL: "https://a.example/x"})
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "acme", "gone", "gone too", "there")
	w.service.Log = trimmed{w.store, sub.Status.Cursor + 3}
	for range 3 {
		res, err := w.service.Reconcile(t.Context(), reconcile.Task{Ref: sub.Ref})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Write.Puts) > 0 {
			res.Write.Cause = ledger.BySchedule("test")
			if _, err := w.store.Commit(t.Context(), res.Write); err != nil {
				t.Fatal(err)
			}
		}
	}
	o, err := w.store.Get(t.Context(), sub.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := subscription.Decode(o); err != nil || now.Status.Lost != 3 || now.Status.LostAt.IsZero() {
		t.Errorf("lost %d at %s, %v", now.Status.Lost, now.Status.LostAt, err)
	}
	if diff := cmp.Diff([]string{"there"}, names(w.hook.told())); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// What is sent is the event as its fields say, whatever its data.
func TestMessageIsTheEvent(t *testing.T) {
	for _, data := range []string{"", `{}`, `{"a":"<b>\u0000","c":[null]}`, `null`} {
		e := subscription.NewEvent(ledger.Head{Ledger: "l", Epoch: 1}, &ledger.Change{Seq: 7, Actor: `"me" <x>`, Object: ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: "1"}, Org: "acme"}},
			subscription.Shown{Data: json.RawMessage(data)})
		m, err := subscription.Message(&e)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		plain := e
		if data == "" {
			plain.Data = nil
		}
		text, _ := json.Marshal(plain)
		if json.Unmarshal(m.Body, &got) != nil || json.Unmarshal(text, &want) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("data %q: sent %s, want %s", data, m.Body, text)
		}
	}
}

// After a restore the same change has the same id, and another one that was given its
// sequence has not.
func TestIDsAfterARestore(t *testing.T) {
	before := ledger.Head{Ledger: "l", Epoch: 1}
	after := ledger.Head{Ledger: "l", Epoch: 2, Began: []ledger.Began{{Epoch: 2, After: 120}}}
	if was, is := subscription.EventID(before, 120), subscription.EventID(after, 120); was != is {
		t.Errorf("what was before the backup was told as %s, and is told as %s", was, is)
	}
	if was, is := subscription.EventID(before, 121), subscription.EventID(after, 121); was == is {
		t.Errorf("what was lost and what came in its place are both %s", is)
	}
}
