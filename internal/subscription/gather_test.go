package subscription_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/subscription"
)

// steady is a ledger with one subscription, and with a change each millisecond after it
// began, until there are enough.
type steady struct {
	subscription.Store
	began  time.Time
	enough int64
	sub    ledger.Object
}

func (s *steady) Get(context.Context, ledger.Ref) (ledger.Object, error) { return s.sub, nil }

func (s *steady) Head(context.Context) (ledger.Head, error) {
	return ledger.Head{Ledger: "l", Epoch: 1}, nil
}

func (s *steady) Changes(_ context.Context, q ledger.ChangeQuery) (out []ledger.Change, err error) {
	for seq := q.After + 1; seq <= min(time.Since(s.began).Milliseconds(), s.enough) && len(out) < q.Limit; seq++ {
		out = append(out, ledger.Change{Seq: seq, At: s.began.Add(time.Duration(seq) * time.Millisecond), Op: "create",
			Object: ledger.Object{Ref: ledger.Ref{Kind: "command", ID: strconv.FormatInt(seq, 10)}}})
	}
	return out, nil
}

// Next gives what there is, whether the context has ended or not, as a feed does.
func (s *steady) Next(ctx context.Context, after int64) ([]ledger.Change, error) {
	for {
		if out, err := s.Changes(ctx, ledger.ChangeQuery{After: after, Limit: 1000}); len(out) > 0 {
			return out, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Until(s.began.Add(time.Duration(after+1) * time.Millisecond))):
		}
	}
}

// taken is what a sink was given: how often, how late, and whether all in order.
type taken struct {
	calls  int
	last   int64
	oldest time.Duration
	gap    bool
	first  time.Duration
}

func (s *taken) Deliver(_ context.Context, _ subscription.Subscription, events []subscription.Event) (int, error) {
	for i := range events {
		late := time.Since(events[i].Time)
		if s.oldest = max(s.oldest, late); s.last == 0 {
			s.first = late
		}
		seq, _ := strconv.ParseInt(events[i].Sequence, 10, 64)
		s.gap = s.gap || seq != s.last+1
		s.last = seq
	}
	s.calls++
	return len(events), nil
}

func newSteady(to string, enough int64) (*subscription.Service, *steady, *taken) {
	status, _ := json.Marshal(subscription.Status{Ledger: "l", Epoch: 1})
	spec, _ := json.Marshal(subscription.Spec{To: to, All: true})
	l, sink := &steady{began: time.Now(), enough: enough}, &taken{}
	l.sub = ledger.Object{Ref: ledger.Ref{Kind: subscription.Kind.Name, ID: to}, Phase: subscription.Active, Spec: spec, Status: status}
	return subscription.NewService(subscription.Config{Store: l, Log: l, Feed: l, Encoder: plain{}, Sinks: map[string]subscription.Sink{to: sink}}), l, sink
}

// Under load the readers of the broker are not woken by each commit, and nobody waits
// long for that: not at all where a change comes alone.
func TestUnderLoadEventsAreGathered(t *testing.T) {
	for _, to := range []string{subscription.ToBus, subscription.ToAnswers} {
		synctest.Test(t, func(t *testing.T) {
			s, l, sink := newSteady(to, 1<<62)
			if _, err := s.Reconcile(t.Context(), reconcile.Task{Ref: l.sub.Ref}); err != nil {
				t.Fatal(err)
			}
			if sink.gap || sink.last < 950 || sink.calls > 60 || sink.oldest > 25*time.Millisecond || sink.first > 0 {
				t.Errorf("%s: in a second, of a thousand, %d were told in %d goes; the first was %s late, the latest %s; one is missing: %v",
					to, sink.last, sink.calls, sink.first, sink.oldest, sink.gap)
			}
		})
	}
}

// Whoever is stopped while he gathers tells nothing more, and has written what he told.
func TestWhoGathersCanBeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, sink := newSteady(subscription.ToBus, 1<<62)
		ctx, cancel := context.WithTimeout(t.Context(), 110*time.Millisecond+500*time.Microsecond)
		defer cancel()
		res, err := s.Reconcile(ctx, reconcile.Task{Ref: l.sub.Ref})
		if err != nil || len(res.Write.Puts) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		if now := time.Since(l.began); now > 111*time.Millisecond {
			t.Errorf("it went on until %s", now)
		}
		sub, err := subscription.Decode(res.Write.Puts[0].Object)
		if err != nil || sub.Status.Cursor != sink.last || sub.Status.Told != sink.last || sink.last > 105 || sub.Phase != subscription.Active {
			t.Errorf("it told of %d, and has written %+v as %s, %v", sink.last, sub.Status, sub.Phase, err)
		}
	})
}

// A webhook keeps nobody else from his turn to gather.
func TestAWebhookGathersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, sink := newSteady(subscription.ToWebhook, 3)
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		if _, err := s.Reconcile(t.Context(), reconcile.Task{Ref: l.sub.Ref}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 0 || sink.last != 3 {
			t.Errorf("%d were told within %s", sink.last, took)
		}
	})
}
