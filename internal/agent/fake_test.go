package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime"
)

// server is a control plane in memory. What it says reaches the connection that
// stands; a new connection is told the last state at once, with all bodies.
type server struct {
	mu      sync.Mutex
	last    *v1.Desired
	changed chan struct{}
	down    bool
	deaf    bool          // refuses reports, the stream stands
	drop    chan struct{} // closed to end the connections
	conns   [][2]string   // agents and their installations
	reports []v1.Report
}

func newServer() *server {
	return &server{changed: make(chan struct{}), drop: make(chan struct{})}
}

func (s *server) say(d v1.Desired) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = &d
	close(s.changed)
	s.changed = make(chan struct{})
}

// goDown refuses everything until it comes up again.
func (s *server) goDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	if down {
		close(s.drop)
		s.drop = make(chan struct{})
	}
}

func (s *server) Desired(ctx context.Context, _, agent, installation string) iter.Seq2[v1.Desired, error] {
	return func(yield func(v1.Desired, error) bool) {
		s.mu.Lock()
		s.conns = append(s.conns, [2]string{agent, installation})
		drop := s.drop
		var seen *v1.Desired
		for {
			down, last, changed := s.down, s.last, s.changed
			s.mu.Unlock()
			if down {
				yield(v1.Desired{}, errors.New("connection refused"))
				return
			}
			if last != seen && last != nil {
				seen = last
				if !yield(*last, nil) {
					return
				}
			}
			select {
			case <-ctx.Done():
				yield(v1.Desired{}, ctx.Err())
				return
			case <-drop:
				yield(v1.Desired{}, errors.New("connection lost"))
				return
			case <-changed:
			}
			s.mu.Lock()
		}
	}
}

func (s *server) Observe(_ context.Context, _ string, r v1.Report) (v1.Acknowledged, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down || s.deaf {
		return v1.Acknowledged{}, errors.New("connection refused")
	}
	r.Items = slices.Clone(r.Items)
	s.reports = append(s.reports, r)
	return v1.Acknowledged{Epoch: r.Epoch, Seq: r.Seq}, nil
}

// known is the newest of each item that was ever reported.
func (s *server) known() map[string]v1.ObservedItem {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]v1.ObservedItem{}
	for _, r := range s.reports {
		for _, it := range r.Items {
			known[it.ID] = it
		}
	}
	return known
}

func (s *server) count() (reports, conns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.reports), len(s.conns)
}

func (s *server) newest() v1.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reports[len(s.reports)-1]
}

func item(id string, generation int64) v1.Item {
	body := json.RawMessage(fmt.Sprintf(`{"spec":{"endpoint":{"host":%q},"versions":{"app":"%d"}}}`, id+".test", generation))
	return v1.Item{ID: id, Generation: generation, Token: generation, Body: body, Digest: v1.BodyDigest(body)}
}

func removal(id string, generation int64) v1.Item {
	it := item(id, generation)
	it.Delete = true
	return it
}

func desired(seq int64, items ...v1.Item) v1.Desired {
	slices.SortFunc(items, func(a, b v1.Item) int { return strings.Compare(a.ID, b.ID) })
	d := v1.Desired{Ledger: "L", Epoch: 3, Seq: seq, Items: items}
	d.Digest = d.ComputeDigest()
	return d
}

// start runs an agent until the returned function is called.
func start(t *testing.T, s agent.Client, rt runtime.Runtime, dir string) (stop func()) {
	t.Helper()
	a, err := agent.New(agent.Config{Client: s, Cluster: "c1", Runtime: rt, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// settle lets everything happen that happens within the time.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func observed(t *testing.T, rt runtime.Runtime) map[string]runtime.Observed {
	t.Helper()
	all, err := rt.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]runtime.Observed{}
	for _, o := range all {
		m[o.ID] = o
	}
	return m
}
