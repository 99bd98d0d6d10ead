package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// desiredHub keeps the desired state of every cluster whose agent is connected
// to this replica. One goroutine follows the feed for all of them, so a change
// costs the same however many agents listen; it runs while there is any agent
// and is stopped by the last one that leaves.
type desiredHub struct {
	store desiredStore
	feed  *ledger.Feed

	mu       sync.Mutex
	sets     map[string]*desiredSet // by cluster
	pending  map[*desiredSet]bool   // sets that are not whole yet
	home     map[string]string      // instance to the connected cluster that holds it
	follower *follower              // nil while no agent is connected
}

// desiredStore is what the hub needs of the ledger.
type desiredStore interface {
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
	Head(ctx context.Context) (ledger.Head, error)
}

// follower is the hub's place in the log.
type follower struct {
	pos  int64
	stop context.CancelFunc
}

// desiredSet is one cluster's desired state. The hub's lock guards it.
type desiredSet struct {
	cluster string
	users   int
	items   []*desiredItem   // sorted by id
	gone    map[string]int64 // while loading: versions in which instances left
	need    int64            // the sequence from which on the set is whole; -1 while loading
	changed chan struct{}    // closed when the state a reader would send has changed
	err     error            // the load failed; nobody will mend this set
}

// desiredItem is one item, encoded once. It is never changed after it was made.
type desiredItem struct {
	v1.Item
	version int64
	secret  bool   // the body has marks in place of secrets
	head    []byte // the JSON of the item up to where a body may follow
}

func newDesiredHub(store desiredStore, feed *ledger.Feed) *desiredHub {
	return &desiredHub{store: store, feed: feed, sets: map[string]*desiredSet{}, pending: map[*desiredSet]bool{}, home: map[string]string{}}
}

// join returns the cluster's set, loading it if no agent of the cluster is
// connected yet. The caller must leave it.
func (h *desiredHub) join(ctx context.Context, cluster string) (*desiredSet, error) {
	h.mu.Lock()
	set, ok := h.sets[cluster]
	if ok {
		set.users++
		h.mu.Unlock()
		return set, nil
	}
	h.mu.Unlock()
	head, err := h.store.Head(ctx) // before the list, so that nothing falls in between
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	if set, ok = h.sets[cluster]; ok {
		set.users++
		h.mu.Unlock()
		return set, nil
	}
	set = &desiredSet{cluster: cluster, users: 1, gone: map[string]int64{}, need: -1, changed: make(chan struct{})}
	h.sets[cluster], h.pending[set] = set, true
	if h.follower == nil {
		run, stop := context.WithCancel(context.Background())
		h.follower = &follower{pos: head.Seq, stop: stop}
		go h.follow(run, h.follower)
	}
	h.mu.Unlock()
	if err := h.load(ctx, set); err != nil {
		h.fail(set, err)
		h.leave(set)
		return nil, err
	}
	return set, nil
}

// leave gives a set back.
func (h *desiredHub) leave(set *desiredSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if set.users--; set.users > 0 || h.sets[set.cluster] != set {
		return
	}
	h.drop(set)
}

// drop forgets a set, and stops the follower with the last one.
func (h *desiredHub) drop(set *desiredSet) {
	delete(h.sets, set.cluster)
	delete(h.pending, set)
	for _, it := range set.items {
		if h.home[it.ID] == set.cluster {
			delete(h.home, it.ID)
		}
	}
	if len(h.sets) == 0 && h.follower != nil {
		h.follower.stop()
		h.follower = nil
	}
}

// fail marks a set that could not be loaded; a later join makes a new one.
func (h *desiredHub) fail(set *desiredSet, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	set.err = err
	if h.sets[set.cluster] == set {
		h.drop(set)
	}
	set.announce()
}

const desiredPage = 5000

// load reads the cluster's instances. Changes that the follower has put in
// meanwhile win by their version; the set is whole once the follower has passed
// the head that was read after the list.
func (h *desiredHub) load(ctx context.Context, set *desiredSet) error {
	after := ""
	for {
		objects, err := h.store.List(ctx, ledger.Query{
			Kind: instance.Kind.Name, Scope: map[string]any{"cluster": set.cluster}, AfterID: after, Limit: desiredPage,
		})
		if err != nil {
			return err
		}
		h.mu.Lock()
		for _, o := range objects {
			if it, ok := makeItem(o); ok && set.gone[o.ID] < o.Version {
				if was := h.evict(o.ID, set.cluster); was != nil {
					was.announce() // the list is ahead of the follower
				}
				set.put(it)
				h.home[o.ID] = set.cluster
			}
		}
		h.mu.Unlock()
		if len(objects) < desiredPage {
			break
		}
		after = objects[len(objects)-1].ID
	}
	head, err := h.store.Head(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	set.need, set.gone = head.Seq, nil
	set.announce()
	return nil
}

// follow brings the sets up to date until ctx ends.
func (h *desiredHub) follow(ctx context.Context, f *follower) {
	for ctx.Err() == nil {
		changes, err := h.feed.Next(ctx, f.pos)
		if err != nil { // the store is away: agents keep what they have
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
			continue
		}
		h.apply(f, changes)
	}
}

func (h *desiredHub) apply(f *follower, changes []ledger.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.follower != f {
		return // stopped; another one may have begun elsewhere
	}
	touched := map[*desiredSet]bool{}
	for i := range changes {
		if o := &changes[i].Object; o.Kind == instance.Kind.Name {
			h.change(*o, touched)
		}
	}
	f.pos = changes[len(changes)-1].Seq
	for set := range h.pending {
		if set.need >= 0 && f.pos >= set.need {
			delete(h.pending, set)
			touched[set] = true
		}
	}
	for set := range touched {
		set.announce()
	}
}

func (h *desiredHub) change(o ledger.Object, touched map[*desiredSet]bool) {
	cluster, _ := o.Fields["cluster"].(string)
	if h.sets[cluster] == nil && h.home[o.ID] == "" && len(h.pending) == 0 {
		return // of no cluster whose agent is here
	}
	it, ok := makeItem(o)
	if !ok {
		cluster = ""
	}
	if was := h.evict(o.ID, cluster); was != nil {
		touched[was] = true
	}
	for set := range h.pending {
		if set.gone != nil && set.cluster != cluster {
			set.gone[o.ID] = o.Version
		}
	}
	if set := h.sets[cluster]; set != nil && ok {
		h.home[o.ID] = cluster
		if set.put(it) {
			touched[set] = true
		}
	}
}

// evict takes an instance out of the set of any cluster but this one, and
// returns the set that has lost it.
func (h *desiredHub) evict(id, cluster string) *desiredSet {
	was := h.home[id]
	if was == "" || was == cluster {
		return nil
	}
	delete(h.home, id)
	if set := h.sets[was]; set != nil && set.remove(id) {
		return set
	}
	return nil
}

// snapshot returns what the agent of the set is to be told now, and a channel
// that closes when that has changed. whole is false while the set is loading.
func (h *desiredHub) snapshot(set *desiredSet) (items []*desiredItem, seq int64, whole bool, changed <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if set.err != nil {
		return nil, 0, false, nil, set.err
	}
	if h.follower != nil {
		seq = h.follower.pos
	}
	whole = set.need >= 0 && seq >= set.need
	return slices.Clone(set.items), seq, whole, set.changed, nil
}

func (s *desiredSet) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func findItem(items []*desiredItem, id string) (int, bool) {
	return slices.BinarySearchFunc(items, id, func(it *desiredItem, id string) int { return strings.Compare(it.ID, id) })
}

// put takes an item unless a newer one is there, and reports whether the agent
// has to be told. A new token alone is not news: it fences what comes later.
func (s *desiredSet) put(it *desiredItem) bool {
	at, found := findItem(s.items, it.ID)
	if !found {
		s.items = slices.Insert(s.items, at, it)
		return true
	}
	was := s.items[at]
	if was.version >= it.version {
		return false
	}
	s.items[at] = it
	return was.Generation != it.Generation || was.Digest != it.Digest || was.Delete != it.Delete
}

func (s *desiredSet) remove(id string) bool {
	at, found := findItem(s.items, id)
	if found {
		s.items = slices.Delete(s.items, at, at+1)
	}
	return found
}

// makeItem encodes an instance as its data plane must have it; false if it has
// no place in one.
func makeItem(o ledger.Object) (*desiredItem, bool) {
	if !o.Deleted.IsZero() {
		return nil, false
	}
	src, ok := instance.DesiredItem(o)
	if !ok {
		return nil, false
	}
	var body bytes.Buffer // compact: no line break may end an event early
	if json.Compact(&body, src.Body) != nil {
		return nil, false
	}
	it := &desiredItem{version: o.Version, secret: bytes.Contains(body.Bytes(), []byte(offering.Secret(""))), Item: v1.Item{
		ID: src.ID, Generation: src.Generation, Token: src.Token, Delete: src.Delete,
		Body: body.Bytes(), Digest: v1.BodyDigest(body.Bytes()),
	}}
	id, _ := json.Marshal(it.ID)
	b := append([]byte(`{"id":`), id...)
	b = strconv.AppendInt(append(b, `,"generation":`...), it.Generation, 10)
	b = strconv.AppendInt(append(b, `,"token":`...), it.Token, 10)
	b = append(append(append(b, `,"digest":"`...), it.Digest...), '"')
	if it.Delete {
		b = append(b, `,"delete":true`...)
	}
	it.head = b
	return it, true
}

// digestOf is the digest of the items as both sides compute it.
func digestOf(items []*desiredItem) string {
	plain := v1.Desired{Items: make([]v1.Item, len(items))}
	for i, it := range items {
		plain.Items[i] = it.Item
	}
	return plain.ComputeDigest()
}

// encodeDesired writes the message, with the bodies that are not in sent, and
// brings sent up to date: the agent has the bodies of what is listed, and may
// have forgotten all others. filled are bodies with their secrets, by item.
func encodeDesired(d v1.Desired, items []*desiredItem, sent map[string]string, filled map[string][]byte) []byte {
	size := 256
	for _, it := range items {
		size += len(it.head) + 2
		if sent[it.ID] != it.Digest {
			size += len(it.Body) + len(filled[it.ID]) + 24
		}
	}
	id, _ := json.Marshal(d.Ledger)
	b := append(append(make([]byte, 0, size), `{"ledger":`...), id...)
	b = strconv.AppendInt(append(b, `,"epoch":`...), d.Epoch, 10)
	b = strconv.AppendInt(append(b, `,"seq":`...), d.Seq, 10)
	b = append(append(append(b, `,"digest":"`...), d.Digest...), `","items":[`...)
	for i, it := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, it.head...)
		if sent[it.ID] != it.Digest {
			body := []byte(it.Body)
			if with, ok := filled[it.ID]; ok {
				b, body = append(b, `,"filled":true`...), with
			}
			b = append(append(b, `,"body":`...), body...)
			sent[it.ID] = it.Digest
		}
		b = append(b, '}')
	}
	if len(sent) > len(items) {
		for id := range sent {
			if _, listed := findItem(items, id); !listed {
				delete(sent, id)
			}
		}
	}
	return append(b, `]}`...)
}
