package app_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// moody is a ledger whose calls fail, one after the other, as is said.
type moody struct {
	ledger.Ledger
	fails []error
	slow  time.Duration
	calls int
}

func (m *moody) next() error {
	m.calls++
	time.Sleep(m.slow)
	if m.calls <= len(m.fails) {
		return m.fails[m.calls-1]
	}
	return nil
}

func (m *moody) Get(_ context.Context, ref ledger.Ref) (ledger.Object, error) {
	return ledger.Object{Ref: ref}, m.next()
}

func (m *moody) Commit(context.Context, ledger.Set) (ledger.Result, error) {
	return ledger.Result{Seq: 7}, m.next()
}

func (m *moody) Shred(context.Context, string) error { return m.next() }

func TestTheLedgerIsAskedAgain(t *testing.T) {
	away := fault.New(fault.Unavailable, "the connection was lost")
	unknown := fault.New(fault.Unavailable, "the answer was lost").Because("outcome-unknown")
	gone, busy := fault.New(fault.Unavailable, "away").Because("database-away"), fault.New(fault.Unavailable, "busy").Because("database-busy")
	full := fault.New(fault.Unavailable, "the disk is full").Because("disk-full")
	get := func(ctx context.Context, l ledger.Ledger) error {
		o, err := l.Get(ctx, ledger.Ref{Kind: "thing", ID: "a"})
		if err == nil && o.ID != "a" {
			return errors.New("what was read is not what is returned")
		}
		return err
	}
	commit := func(ctx context.Context, l ledger.Ledger) error {
		done, err := l.Commit(ctx, ledger.Set{})
		if err == nil && done.Seq != 7 {
			return errors.New("what was written is not what is returned")
		}
		return err
	}
	shred := func(ctx context.Context, l ledger.Ledger) error { return l.Shred(ctx, "secret:a") }
	for _, c := range []struct {
		reason string
		call   func(context.Context, ledger.Ledger) error
		fails  []error
		slow   time.Duration
		calls  int
		want   error
	}{
		{"what works is asked once", get, nil, 0, 1, nil},
		{"a read that got no answer is made again", get, []error{away, away}, 0, 3, nil},
		{"but not for ever", get, []error{away, away, away, away, away, away}, 0, 5, away},
		{"what is not there does not come by asking", get, []error{fault.New(fault.NotFound, "no")}, 0, 1, fault.New(fault.NotFound, "no")},
		{"what takes long to fail takes as long again", get, []error{away, away}, 2 * time.Second, 1, away},
		{"a full disk does not empty itself", shred, []error{full}, 0, 1, full},
		{"a commit that was not written is made again", commit, []error{away, away}, 0, 3, nil},
		{"also where the database is away or busy", commit, []error{gone, busy}, 0, 3, nil},
		{"but not on a full disk", commit, []error{full}, 0, 1, full},
		{"one that may have been is not: it would be in its own way", commit, []error{unknown}, 0, 1, unknown},
		{"nor is one that may have been at a later try", commit, []error{away, unknown}, 0, 2, unknown},
		{"what is gone is gone the second time too", shred, []error{unknown}, 0, 2, nil},
	} {
		t.Run(c.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &moody{fails: c.fails, slow: c.slow}
				err := c.call(t.Context(), app.Insist(m))
				if m.calls != c.calls {
					t.Errorf("it was asked %d times, want %d", m.calls, c.calls)
				}
				if (err == nil) != (c.want == nil) || err != nil && (fault.Of(err) != fault.Of(c.want) || fault.Reason(err) != fault.Reason(c.want)) {
					t.Errorf("it ends with %v, want %v", err, c.want)
				}
			})
		})
	}
}

// Whoever waits no longer is not waited for.
func TestTheLedgerIsNotAskedForNobody(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &moody{fails: []error{fault.New(fault.Unavailable, "given up")}}
	if _, err := app.Insist(m).Get(ctx, ledger.Ref{}); err == nil || m.calls != 1 {
		t.Errorf("asked %d times: %v", m.calls, err)
	}
}

// After an outage the ledger answers at the first try, and nobody has to fail once
// more for the breaker to know.
func TestTheLedgerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := app.NewWatcher(prometheus.NewRegistry())
		m := &moody{}
		for range 1000 {
			m.fails = append(m.fails, fault.New(fault.Unavailable, "the connection was lost"))
		}
		l := app.InsistSeen(m, calls)
		open := func() (n int) {
			for _, side := range calls.Calls() {
				n += side.Open + side.HalfOpen
			}
			return n
		}
		for range 100 {
			_, _ = l.Get(t.Context(), ledger.Ref{Kind: "thing", ID: "a"})
		}
		if open() != 1 {
			t.Fatalf("during the outage %d are open", open())
		}
		m.fails = nil
		time.Sleep(10 * time.Second) // it rests for 5
		if _, err := l.Get(t.Context(), ledger.Ref{Kind: "thing", ID: "a"}); err != nil {
			t.Fatal(err)
		}
		if open() != 0 {
			t.Error("the ledger is back, and its breaker is open")
		}
	})
}

// durations keeps how long calls took.
type durations []string

func (d *durations) Called(name, outcome string, took time.Duration) {
	*d = append(*d, fmt.Sprint(name, " ", outcome, " ", took))
}
func (*durations) Breaker(string, string, string) {}
func (*durations) Retried(string, bool)           {}

// Every call is seen, not those alone that are made again.
func TestEveryCallOfTheLedgerIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took durations
		l := app.InsistSeen(&moody{slow: 100 * time.Millisecond}, &took)
		if _, err := l.Get(t.Context(), ledger.Ref{Kind: "thing", ID: "a"}); err != nil {
			t.Fatal(err)
		}
		l = app.InsistSeen(&moody{fails: []error{fault.New(fault.NotFound, "no")}}, &took)
		_, _ = l.Get(t.Context(), ledger.Ref{Kind: "thing", ID: "a"})
		l = app.InsistSeen(&moody{fails: []error{fault.New(fault.Unavailable, "away")}}, &took)
		_, _ = l.Get(t.Context(), ledger.Ref{Kind: "thing", ID: "a"})
		want := durations{"the ledger ok 100ms", "the ledger refused 0s", "the ledger failed 0s", "the ledger ok 0s"}
		if diff := cmp.Diff(want, took); diff != "" {
			t.Errorf("seen (-want +got):\n%s", diff)
		}
	})
}
