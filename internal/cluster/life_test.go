package cluster_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

// replica is a service that lives, until it is stopped or killed. A killed one
// writes nothing any more.
type replica struct {
	*cluster.Service
	stop func()
	mute *bool // it can write nothing
}

type mortal struct {
	*sqlledger.Ledger
	dead *bool
}

func (m mortal) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	if *m.dead {
		return ledger.Result{}, context.Canceled
	}
	return m.Ledger.Commit(ctx, set)
}

func (r *replica) admit(t *testing.T) {
	t.Helper()
	if err := r.Admit(t.Context(), "edge", cluster.Caller{Agent: "a", Installation: "home"}); err != nil {
		t.Fatal(err)
	}
}

func (r *replica) report(t *testing.T, n int64) {
	t.Helper()
	if err := r.Report(t.Context(), "edge", cluster.Report{Agent: "a", Installation: "home", Number: n, Ready: true, Capacity: 5}); err != nil {
		t.Fatal(err)
	}
}

// talk keeps the agent's connection for a while.
func (r *replica) talk(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Second) {
		r.Alive("edge", "a")
	}
}

// TestWhoAnswersForASession counts what is written about the cluster, whichever
// replicas live and end.
func TestWhoAnswersForASession(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		live   func(t *testing.T, begin func() *replica, kill func(*replica))
		want   string
		writes int // about the cluster, besides the first connection and report
	}{
		"restarted": {"an agent that comes back to the heir of its replica writes nothing", func(t *testing.T, begin func() *replica, kill func(*replica)) {
			one := begin()
			one.admit(t)
			one.report(t, 1)
			kill(one)
			two := begin()
			two.admit(t)
			two.report(t, 2)
			two.talk(5 * time.Minute)
		}, cluster.Ready, 0},
		"stopped": {"nor after a replica that has said that it ends", func(t *testing.T, begin func() *replica, _ func(*replica)) {
			one := begin()
			one.admit(t)
			one.report(t, 1)
			one.stop()
			two := begin()
			two.admit(t)
			two.report(t, 2)
			two.talk(5 * time.Minute)
		}, cluster.Ready, 0},
		"lost": {"an agent that dies with its replica is noticed by the next one", func(t *testing.T, begin func() *replica, kill func(*replica)) {
			one := begin()
			one.admit(t)
			one.report(t, 1)
			kill(one)
			begin()
			time.Sleep(75 * time.Second)
		}, cluster.Waiting, 1},
		"beside": {"or by one that lived beside it", func(t *testing.T, begin func() *replica, kill func(*replica)) {
			one := begin()
			begin()
			one.admit(t)
			one.report(t, 1)
			one.talk(time.Minute)
			kill(one)
			time.Sleep(75 * time.Second)
		}, cluster.Waiting, 1},
		"moved": {"an agent that goes to another while its replica lives is written down, and not called silent", func(t *testing.T, begin func() *replica, _ func(*replica)) {
			one, two := begin(), begin()
			one.admit(t)
			one.report(t, 1)
			one.talk(time.Minute)
			one.Leave("edge", "a")
			two.admit(t)
			two.report(t, 2)
			two.talk(5 * time.Minute)
		}, cluster.Ready, 1},
		"taken for dead": {"one that could write nothing for a while answers for its sessions again", func(t *testing.T, begin func() *replica, _ func(*replica)) {
			one := begin()
			begin()
			one.admit(t)
			one.report(t, 1)
			one.talk(time.Minute)
			*one.mute = true
			one.talk(30 * time.Second)
			*one.mute = false
			one.talk(5 * time.Minute)
		}, cluster.Ready, 0},
		"dead after all": {"and is missed when it ends in earnest", func(t *testing.T, begin func() *replica, kill func(*replica)) {
			one := begin()
			begin()
			one.admit(t)
			one.report(t, 1)
			one.talk(time.Minute)
			*one.mute = true
			one.talk(30 * time.Second)
			*one.mute = false
			one.talk(5 * time.Minute)
			kill(one)
			time.Sleep(75 * time.Second)
		}, cluster.Waiting, 1},
		"heir's heir": {"who takes over from an heir answers for all of them", func(t *testing.T, begin func() *replica, kill func(*replica)) {
			one := begin()
			one.admit(t)
			one.report(t, 1)
			for n := range int64(3) {
				kill(one)
				one = begin()
				one.admit(t)
				one.report(t, 2+n)
				one.talk(2 * time.Minute)
			}
		}, cluster.Ready, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "l.db"), Kinds: []ledger.Kind{cluster.Kind, cluster.KindReplica}})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				if _, err := cluster.NewService(l).Register(t.Context(), "edge", edge); err != nil {
					t.Fatal(err)
				}
				feed := ledger.NewFeed(l)
				ctx, end := context.WithCancel(t.Context())
				defer end()
				go func() { _ = feed.Run(ctx) }()
				deaths := map[*replica]*bool{}
				begin := func() *replica {
					dead := false
					ctx, stop := context.WithCancel(ctx)
					done := make(chan struct{})
					r := &replica{cluster.NewService(mortal{l, &dead}), func() { stop(); <-done }, &dead}
					deaths[r] = &dead
					go func() { defer close(done); _ = r.Live(ctx, feed) }()
					time.Sleep(time.Second)
					synctest.Wait()
					return r
				}
				kill := func(r *replica) { *deaths[r] = true; r.stop() }
				c.live(t, begin, kill)
				synctest.Wait()
				o, err := cluster.NewService(l).Get(t.Context(), "edge")
				if err != nil || o.Phase != c.want {
					t.Errorf("%s: it is %s, %v", c.reason, o.Phase, err)
				}
				changes, err := l.Changes(t.Context(), ledger.ChangeQuery{Kind: cluster.Kind.Name, ID: "edge", Limit: 100})
				if err != nil {
					t.Fatal(err)
				}
				var ops []string
				for _, ch := range changes {
					ops = append(ops, ch.Op)
				}
				if n := len(changes) - 3; n != c.writes { // registered, bound, ready
					t.Errorf("%s: %d changes more were written: %v", c.reason, n, ops)
				}
			})
		})
	}
}
