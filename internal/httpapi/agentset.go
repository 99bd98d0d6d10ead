package httpapi

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// hub is an index of everything that data planes must have and were seen to
// have, for the whole fleet, without bodies. It is read from the ledger once,
// when the server begins, or the first agent comes where nobody says that it
// does, and then follows the feed: one goroutine for all agents, which ends with
// the server. A change costs the same however many agents and instances there are.
type hub struct {
	store hubStore
	feed  *ledger.Feed
	steps func(o ledger.Object) ([]cluster.StepItem, error) // without bodies: nobody outside is asked
	// deploys: there are deployments.
	deploys bool
	log     *slog.Logger
	roots   roots
	begin   sync.Once
	whole   chan struct{} // closed once the index is whole

	mu     sync.Mutex
	head   ledger.Head // who the ledger is; its Seq is where the load began
	pos    int64       // the sequence up to which changes are in
	need   int64       // the one from which on the index is whole; -1 while it is loaded
	moved  chan struct{}
	planes map[string]*plane     // by cluster
	items  map[string][]*hubItem // instances and deployments by id, each once per cluster that has a copy
}

// hubStore is what the hub needs of the ledger.
type hubStore interface {
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
	Head(ctx context.Context) (ledger.Head, error)
}

func newHub(c Config) *hub {
	return &hub{
		store: c.Ledger, feed: c.Feed, steps: c.Clusters.StepHeads, deploys: c.Deployments != nil, log: c.Log, need: -1, whole: make(chan struct{}),
		planes: map[string]*plane{}, items: map[string][]*hubItem{},
	}
}

const (
	desiredPage = 5000
	// hubRetry is the pause before the store is asked again.
	hubRetry = 200 * time.Millisecond
)

// start loads the index unless somebody has asked for that before.
func (h *hub) start(ending context.Context) {
	h.begin.Do(func() { go h.run(ending) })
}

// run is the hub's goroutine; it ends with ctx.
func (h *hub) run(ctx context.Context) {
	for h.load(ctx) != nil {
		if pause(ctx, hubRetry) != nil {
			return
		}
	}
	pos := h.head.Seq
	for ctx.Err() == nil {
		changes, err := h.feed.Next(ctx, pos)
		if fault.Reason(err) == "truncated" { // it was away for days
			if h.load(ctx) == nil {
				pos = h.head.Seq
				continue
			}
		}
		if err != nil { // the store is away: agents keep what they have
			_ = pause(ctx, hubRetry)
			continue
		}
		h.apply(ctx, changes)
		pos = changes[len(changes)-1].Seq
	}
}

// load reads the ledger in one pass. What changes meanwhile comes with the feed,
// which is followed from where the log ended before; the index is whole once it
// has passed the point where the log ended after.
func (h *hub) load(ctx context.Context) error {
	h.clear()
	head, err := h.store.Head(ctx)
	if err == nil {
		err = h.each(ctx, cluster.Kind.Name, head.Seq)
	}
	if err == nil {
		err = h.each(ctx, instance.Kind.Name, head.Seq)
	}
	if err == nil && h.deploys {
		err = h.each(ctx, gitops.KindDeployment.Name, head.Seq)
	}
	if err == nil {
		err = h.tombstones(ctx)
	}
	var after ledger.Head
	if err == nil {
		after, err = h.store.Head(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			h.log.WarnContext(ctx, "cannot read what data planes must have; agents wait", "error", err)
		}
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head, h.pos, h.need = head, head.Seq, after.Seq
	h.complete()
	return nil
}

// clear drops what a load that failed has left: of what has gone since, neither
// the next one nor the feed tells. Requests may hold the planes, which stay.
func (h *hub) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.items)
	for _, p := range h.planes {
		p.version, p.known = 0, false
		for _, it := range p.first {
			for ; it != nil; it = it.next {
				it.leave()
			}
		}
	}
}

// complete tells those who wait that the index is whole, if it is. The lock is held.
func (h *hub) complete() {
	if h.need < 0 || h.pos < h.need {
		return
	}
	select {
	case <-h.whole:
	default:
		close(h.whole)
	}
}

func (h *hub) each(ctx context.Context, kind string, seq int64) error {
	for after := ""; ; {
		objects, err := h.store.List(ctx, ledger.Query{Kind: kind, AfterID: after, Limit: desiredPage})
		if err != nil {
			return err
		}
		changes := make([]ledger.Change, len(objects))
		for i, o := range objects {
			changes[i] = ledger.Change{Object: o} // agents that have a sequence ask for the bodies they lack
		}
		h.apply(ctx, changes)
		if len(objects) < desiredPage {
			return nil
		}
		after = objects[len(objects)-1].ID
	}
}

// tombstones are read of clusters that were given up as lost: no list of what is
// there has what was deleted since.
func (h *hub) tombstones(ctx context.Context) error {
	h.mu.Lock()
	var lost []string
	for id, p := range h.planes {
		if p.abandoned != "" {
			lost = append(lost, id)
		}
	}
	h.mu.Unlock()
	for _, id := range lost {
		for after, more := "", true; more; more = after != "" {
			found, next, err := instance.Tombstones(ctx, h.store, id, after, desiredPage)
			if err != nil {
				return err
			}
			changes := make([]ledger.Change, len(found))
			for i, o := range found {
				changes[i] = ledger.Change{Object: o}
			}
			h.apply(ctx, changes)
			after = next
		}
	}
	return nil
}

// news is a change, decoded before the lock is taken.
type news struct {
	object  *ledger.Object
	seq     int64
	cause   string
	trace   string
	sort    sort
	items   []told
	status  *cluster.Status // nil: it cannot be read
	lost    string          // why the cluster was given up
	steps   []cluster.StepItem
	stepsOK bool
}

func (h *hub) apply(ctx context.Context, changes []ledger.Change) {
	all := make([]news, 0, len(changes))
	for i := range changes {
		n := news{object: &changes[i].Object, seq: changes[i].Seq, cause: h.roots.of(&changes[i]), trace: changes[i].Trace}
		switch n.object.Kind {
		case instance.Kind.Name, gitops.KindDeployment.Name:
			n.tell()
		case cluster.Kind.Name:
			n.read(ctx, h)
		default:
			continue
		}
		all = append(all, n)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range all {
		if n := &all[i]; n.object.Kind == cluster.Kind.Name {
			h.replace(n)
		} else {
			h.put(n)
		}
	}
	if len(changes) > 0 {
		h.pos = max(h.pos, changes[len(changes)-1].Seq)
		h.complete()
	}
	if h.moved != nil {
		close(h.moved)
		h.moved = nil
	}
}

// read decodes a cluster. One that cannot be read keeps what it had.
func (n *news) read(ctx context.Context, h *hub) {
	spec, status, err := cluster.Decode(*n.object)
	if err == nil {
		n.status, n.lost = &status, spec.Abandoned
	}
	if err == nil && n.object.Deleted.IsZero() {
		n.steps, err = h.steps(*n.object)
	}
	if err != nil {
		if ctx.Err() == nil {
			h.log.WarnContext(ctx, "cannot tell the steps of a cluster; its agent keeps what it has", "cluster", n.object.ID, "error", err)
		}
		return
	}
	n.stepsOK = true
}

// put takes an instance or a deployment unless a newer one is in already.
func (h *hub) put(n *news) {
	had := h.items[n.object.ID]
	if len(had) > 0 && had[0].version >= n.object.Version {
		if n.object.Version > 1 || n.seq <= had[0].changed {
			return
		}
		// The ledger has lost it and it was made anew. Until it says what data planes must
		// have, they have what they had.
		for _, was := range had {
			was.version = 1
		}
		if len(n.items) == 0 {
			return
		}
	}
	var have []*hubItem
	for _, was := range had {
		if slices.ContainsFunc(n.items, func(it told) bool { return it.cluster == was.at.id }) {
			have = append(have, was)
		} else {
			was.leave()
		}
	}
	for _, it := range n.items {
		at := slices.IndexFunc(have, func(was *hubItem) bool { return was.at.id == it.cluster })
		if at < 0 {
			at = len(have)
			item := &hubItem{id: strings.Clone(it.ID), sort: n.sort, bucket: uint8(v1.BucketOf(it.ID))}
			item.join(h.plane(it.cluster))
			have = append(have, item)
		}
		have[at].observe(it.seen)
		have[at].become(it.Item, n.seq)
	}
	for _, item := range have {
		item.version = n.object.Version
	}
	if len(have) == 0 {
		delete(h.items, n.object.ID)
		return
	}
	h.items[have[0].id] = have
}

// replace takes a cluster with its steps.
func (h *hub) replace(n *news) {
	p := h.plane(n.object.ID)
	if p.version >= n.object.Version {
		return
	}
	p.version, p.known = n.object.Version, n.object.Deleted.IsZero()
	if s := n.status; s != nil {
		if p.installation != s.Installation || p.client != s.Client || !p.known {
			p.announce() // who is held may have lost it
		}
		p.installation, p.client, p.anew, p.strays = s.Installation, s.Client, s.Anew, s.Strays
		p.abandoned = n.lost
	}
	if !n.stepsOK {
		return
	}
	wanted := make(map[string]bool, len(n.steps))
	for _, s := range n.steps {
		wanted[s.ID] = true
		it := p.step(s.ID)
		if it == nil {
			it = &hubItem{id: s.ID, sort: ofStep, bucket: uint8(v1.BucketOf(s.ID))}
			it.join(p)
		}
		it.become(v1.Item{Generation: s.Generation, Token: s.Token, Digest: s.Digest, Delete: s.Delete, Cause: n.cause, Trace: n.trace}, n.seq)
	}
	for _, it := range p.first {
		for ; it != nil; it = it.next {
			if it.sort == ofStep && !wanted[it.id] {
				it.leave()
			}
		}
	}
}
