package agent_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// through is a client that something happens to on the way.
type through struct {
	*server
	mu   sync.Mutex
	sync func(ctx context.Context, m v1.Sync, next func() (v1.Synced, error)) (v1.Synced, error)
}

func (c *through) Sync(ctx context.Context, cluster string, m v1.Sync) (v1.Synced, error) {
	c.mu.Lock()
	f := c.sync
	c.mu.Unlock()
	next := func() (v1.Synced, error) { return c.server.Sync(ctx, cluster, m) }
	if f == nil {
		return next()
	}
	return f(ctx, m, next)
}

func TestBusyServerIsGivenTheTimeItAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.say(1, item("a", 1))
		s.do(func() { s.refuse = &client.Error{Status: 503, RetryAfter: 30 * time.Second} })
		rt := simulated.New(simulated.Config{})
		stop := start(t, s, rt, t.TempDir())
		defer stop()
		settle(29 * time.Second)
		if n := s.count(); n != 1 {
			t.Errorf("%d attempts within the time that the server asked for", n)
		}
		settle(10 * time.Minute)
		if n := s.count(); n < 13 || n > 21 {
			t.Errorf("%d attempts in ten minutes, want one every 30 to 45 s", n)
		}
		s.goDown(false)
		settle(46 * time.Second)
		if got := observed(t, rt)["a"]; got.State != runtime.Ready {
			t.Errorf("after it: %+v", got)
		}
	})
}

// A connection of which nobody notices that it is dead is given up soon after
// the interval.
func TestHalfOpenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := &through{server: newServer()}, simulated.New(simulated.Config{})
		var log bytes.Buffer
		stop := start(t, s, rt, t.TempDir(), logTo(&log))
		defer stop()
		s.say(1, item("a", 1))
		settle(time.Second)
		s.mu.Lock()
		s.sync = func(ctx context.Context, _ v1.Sync, _ func() (v1.Synced, error)) (v1.Synced, error) {
			<-ctx.Done() // neither answered nor refused
			return v1.Synced{}, ctx.Err()
		}
		s.mu.Unlock()
		settle(30 * time.Second)
		s.say(2, item("a", 2))
		s.mu.Lock()
		s.sync = nil
		s.mu.Unlock()
		settle(20 * time.Second)
		if got := observed(t, rt)["a"]; got.Generation != 2 {
			t.Errorf("20 s after the line works again: %+v", got)
		}
		if !strings.Contains(log.String(), "lost the control plane; everything keeps running") {
			t.Errorf("of a control plane that it had, it says %s", log.String())
		}
	})
}

// tokened refuses tokens that are not good.
func tokened(tokens *agent.Tokens, good func(string) bool, give func(*v1.Synced)) func(context.Context, v1.Sync, func() (v1.Synced, error)) (v1.Synced, error) {
	return func(ctx context.Context, _ v1.Sync, next func() (v1.Synced, error)) (v1.Synced, error) {
		token, err := tokens.Bearer(ctx)
		if err != nil {
			return v1.Synced{}, err
		}
		if !good(token) {
			return v1.Synced{}, &client.Error{Status: 401}
		}
		a, err := next()
		if err == nil && give != nil {
			give(&a)
		}
		return a, err
	}
}

func TestTokenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		life := func(given string, good map[string]bool, give string) (used string, met bool) {
			s := &through{server: newServer()}
			tokens, err := agent.NewTokens(agent.Dir(dir), given)
			if err != nil {
				t.Fatal(err)
			}
			s.sync = tokened(tokens, func(token string) bool { return good[token] }, func(a *v1.Synced) { a.Token = give })
			stop := start(t, s, simulated.New(simulated.Config{}), dir, func(c *agent.Config) { c.Tokens = tokens })
			settle(30 * time.Second)
			stop()
			used, _ = tokens.Bearer(t.Context())
			return used, len(s.messages) > 0
		}
		for _, c := range []struct {
			reason, given string
			good          map[string]bool
			give, want    string
		}{
			{"The first one is the one it was started with.", "one", map[string]bool{"one": true}, "", "one"},
			{"A new one is used from then on.", "one", map[string]bool{"one": true, "two": true}, "two", "two"},
			{"After a restart as well.", "one", map[string]bool{"two": true}, "", "two"},
			{"If it is refused, the one it was started with is the way back.", "one", map[string]bool{"one": true}, "", "one"},
			{"An operator gives another.", "three", map[string]bool{"three": true}, "", "three"},
		} {
			used, met := life(c.given, c.good, c.give)
			if used != c.want || !met {
				t.Errorf("%s It uses %q, and is heard: %v", c.reason, used, met)
			}
		}
		info, err := os.Stat(filepath.Join(dir, "token"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file is %v, %v", info, err)
		}
	})
}

// Of two agents of one cluster the server hears one; the other harms nothing and
// has the cluster when the first is gone.
func TestTwoAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &through{server: newServer()}
		speaker, spoke := "", time.Time{}
		s.sync = func(_ context.Context, m v1.Sync, next func() (v1.Synced, error)) (v1.Synced, error) {
			s.mu.Lock()
			if speaker != m.Agent && time.Since(spoke) < 30*time.Second {
				s.mu.Unlock()
				return v1.Synced{}, &client.Error{Status: 409, Detail: v1.Error{Reason: "another agent speaks for the cluster"}}
			}
			speaker, spoke = m.Agent, time.Now()
			s.mu.Unlock()
			return next()
		}
		s.say(1, item("a", 1))
		first, second := simulated.New(simulated.Config{}), simulated.New(simulated.Config{})
		var log bytes.Buffer
		stopFirst := start(t, s, first, t.TempDir())
		settle(time.Second)
		stopSecond := start(t, s, second, t.TempDir(), logTo(&log))
		defer stopSecond()
		settle(5 * time.Minute)
		if len(observed(t, second)) != 0 || observed(t, first)["a"].State != runtime.Ready {
			t.Errorf("both run: %v, %v", observed(t, first), observed(t, second))
		}
		if n := strings.Count(log.String(), "another agent speaks"); n != 1 {
			t.Errorf("it says so %d times: %s", n, log.String())
		}
		stopFirst()
		settle(time.Minute)
		if got := observed(t, second)["a"]; got.State != runtime.Ready {
			t.Errorf("the first is gone, and the second has %v", got)
		}
	})
}

// Steps are items as others, and what a data plane says of itself is told.
func TestStepsAndFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		rt := &moody{Runtime: simulated.New(simulated.Config{})}
		stop := start(t, s, rt, t.TempDir(), func(c *agent.Config) { c.Resting = func() string { return "its API server" } })
		defer stop()
		step := item("operators.kafka", 4)
		step.Kind = "step"
		s.say(1, step)
		settle(time.Second)
		want := v1.ObservedItem{ID: "operators.kafka", Kind: "step", Generation: 4, State: "ready"}
		if diff := cmp.Diff(want, s.known()["operators.kafka"]); diff != "" {
			t.Error(diff)
		}
		m := s.newest()
		if p := m.Platform; p.Applications != 4 || p.Reconciled != 3 || p.Operations != 2 || !p.Jsonnet || !p.NoHealth || p.Left != "a, b" || p.Resting != "its API server" {
			t.Errorf("it says %+v of an Argo CD", p)
		}
		if diff := cmp.Diff(map[string]v1.Units{"kafka/standard": {Max: 5, Remaining: 2}}, m.Units); diff != "" || !m.Ready || m.Platform.Nodes != 3 {
			t.Errorf("it says %+v of itself: %s", m, diff)
		}
		rt.set("its API server is away", nil)
		settle(20 * time.Second)
		if m := s.newest(); m.Ready || m.Message != "its API server is away" {
			t.Errorf("a data plane that can apply nothing says %+v", m)
		}
		rt.set("", errors.New("secret path"))
		settle(20 * time.Second)
		if m := s.newest(); m.Ready || m.Message != "the data plane cannot be observed" || m.Observed == (v1.Tree{}) {
			t.Errorf("a data plane that cannot be observed says %+v", m)
		}
		rt.set("", nil)
		settle(20 * time.Second)
		if m := s.newest(); !m.Ready || m.Message != "" {
			t.Errorf("after it: %+v", m)
		}
	})
}

// moody is a runtime that tells more, and sometimes nothing.
type moody struct {
	*simulated.Runtime
	mu      sync.Mutex
	unready string
	err     error
}

func (r *moody) set(unready string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unready, r.err = unready, err
}

func (r *moody) Facts(context.Context) (runtime.Facts, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return runtime.Facts{Capacity: 7, Kind: "kubernetes", Nodes: 3, Engine: runtime.Engine{Applications: 4, Reconciled: 3, Operations: 2, Jsonnet: true, NoHealth: true, Left: "a, b"}, Unready: r.unready,
		Units: map[string]runtime.Units{"kafka/standard": {Max: 5, Remaining: 2}}}, nil
}

func (r *moody) Observe(ctx context.Context) ([]runtime.Observed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	return r.Runtime.Observe(ctx)
}
