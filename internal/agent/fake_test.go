package agent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime"
)

// server is a control plane in memory with the same trees as the real one.
type server struct {
	mu       sync.Mutex
	ledger   string
	epoch    int64
	seq      int64
	items    map[string]v1.Item
	changed  map[string]int64 // sequences in which items changed
	observed map[string]v1.ObservedItem
	interval int64
	signer   jose.Signer
	keys     string
	proofs   map[string]string // of what was signed with the present key
	spoil    func(*v1.Synced)  // makes a bad answer of a good one
	wake     chan struct{}
	refuse   error // answers nothing else
	refused  int   // messages
	drop     chan struct{}
	messages []v1.Sync
	latest   map[string]int64 // numbers by agent: a newer message ends those that are held
}

const cluster = "c1"

func newServer() *server {
	s := &server{ledger: "L", epoch: 3, interval: 10, items: map[string]v1.Item{}, changed: map[string]int64{},
		observed: map[string]v1.ObservedItem{}, latest: map[string]int64{}, wake: make(chan struct{}), drop: make(chan struct{})}
	s.rotate("k1")
	return s
}

// rotate signs with a new key from now on.
func (s *server) rotate(id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	private := jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(jose.ES256), Use: "sig"}
	if s.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, nil); err != nil {
		panic(err)
	}
	text, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{private.Public()}})
	s.keys, s.proofs = string(text), map[string]string{}
}

func (s *server) sign(it v1.Item) v1.Item {
	sent := ""
	if len(it.Body) > 0 {
		sent = v1.BodyDigest(it.Body)
	}
	content := it.SignedBytes(s.ledger, s.epoch, cluster, sent)
	if it.Proof = s.proofs[string(content)]; it.Proof != "" {
		return it
	}
	signed, err := s.signer.Sign(content)
	if err != nil {
		panic(err)
	}
	if it.Proof, err = signed.DetachedCompactSerialize(); err != nil {
		panic(err)
	}
	s.proofs[string(content)] = it.Proof
	return it
}

// do changes the server under its lock and wakes who waits.
func (s *server) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.wake)
	s.wake = make(chan struct{})
}

// say makes the items the whole desired state.
func (s *server) say(seq int64, items ...v1.Item) {
	s.do(func() {
		s.seq = seq
		next := map[string]v1.Item{}
		for _, it := range items {
			if was, ok := s.items[it.ID]; !ok || was.Leaf() != it.Leaf() {
				s.changed[it.ID] = seq
			}
			next[it.ID] = it
		}
		s.items = next
		s.settle()
	})
}

// settle drops what is known of items that are removed and no longer wanted.
func (s *server) settle() {
	maps.DeleteFunc(s.observed, func(id string, o v1.ObservedItem) bool {
		_, listed := s.items[id]
		return !listed && o.State == "deleted"
	})
}

// goDown refuses everything until it comes up again.
func (s *server) goDown(down bool) {
	s.do(func() {
		if s.refuse = nil; down {
			s.refuse = errors.New("connection refused")
			close(s.drop)
			s.drop = make(chan struct{})
		}
	})
}

func (s *server) Sync(ctx context.Context, _ string, m v1.Sync) (v1.Synced, error) {
	s.mu.Lock()
	if err := s.refuse; err != nil {
		s.refused++
		s.mu.Unlock()
		return v1.Synced{}, err
	}
	s.mu.Unlock()
	text, err := json.Marshal(m) // as over the wire
	if err != nil {
		return v1.Synced{}, err
	}
	m = v1.Sync{}
	if err := json.Unmarshal(text, &m); err != nil {
		return v1.Synced{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Number < s.latest[m.Agent] {
		return v1.Synced{}, &client.Error{Status: http.StatusConflict, Detail: v1.Error{Reason: "a later message came first"}}
	}
	drop := s.drop
	s.messages = append(s.messages, m)
	s.latest[m.Agent] = m.Number
	close(s.wake) // who waits is over
	s.wake = make(chan struct{})
	if m.Ledger == s.ledger || m.Ledger == "" {
		for _, o := range m.Items {
			s.observed[o.ID] = o
		}
		s.settle()
	}
	end := time.NewTimer(time.Duration(s.interval) * time.Second)
	defer end.Stop()
	for {
		a := s.answer(m)
		if !m.Wait || s.latest[m.Agent] != m.Number || len(a.Desired)+len(a.Bodies)+len(a.Observed) > 0 || a.Keys != "" {
			return a, nil
		}
		wake := s.wake
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			s.mu.Lock()
			return v1.Synced{}, ctx.Err()
		case <-drop:
			s.mu.Lock()
			return v1.Synced{}, errors.New("connection lost")
		case <-end.C:
			s.mu.Lock()
			return s.answer(m), nil
		case <-wake:
			s.mu.Lock()
		}
	}
}

// answer compares the trees.
func (s *server) answer(m v1.Sync) v1.Synced {
	a := v1.Synced{Protocol: v1.Protocol, Ledger: s.ledger, Epoch: s.epoch, Seq: s.seq, Interval: s.interval}
	var desired, observed v1.Tree
	for id, it := range s.items {
		desired.Add(id, it.Leaf())
	}
	for id, o := range s.observed {
		observed.Add(id, o.Leaf())
	}
	for _, i := range desired.Differ(&m.Desired) {
		b := v1.Bucket{Index: i}
		for _, id := range slices.Sorted(maps.Keys(s.items)) {
			if v1.BucketOf(id) != i {
				continue
			}
			it := s.sign(s.items[id])
			if s.changed[id] <= m.Seq && m.Epoch == s.epoch {
				it.Body = nil
			}
			b.Items = append(b.Items, it)
		}
		a.Desired = append(a.Desired, b)
	}
	for _, id := range m.Bodies {
		if it, ok := s.items[id]; ok {
			a.Bodies = append(a.Bodies, s.sign(it))
		}
	}
	a.Observed = observed.Differ(&m.Observed)
	if m.Keys != v1.BodyDigest([]byte(s.keys)) {
		a.Keys = s.keys
	}
	if s.spoil != nil {
		s.spoil(&a)
	}
	return a
}

// known is what the server was told of each item.
func (s *server) known() map[string]v1.ObservedItem {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]v1.ObservedItem{}
	for _, m := range s.messages {
		for _, o := range m.Items {
			known[o.ID] = o
		}
	}
	return known
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.messages) + s.refused
}

func (s *server) newest() v1.Sync {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages[len(s.messages)-1]
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

// start runs an agent until the returned function is called.
func start(t *testing.T, s agent.Client, rt runtime.Runtime, dir string, change ...func(*agent.Config)) (stop func()) {
	t.Helper()
	cfg := agent.Config{Client: s, Cluster: cluster, Runtime: rt, Dir: dir}
	for _, f := range change {
		f(&cfg)
	}
	a, err := agent.New(cfg)
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
