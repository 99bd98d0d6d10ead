package httpapi

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// heard is what an agent's message says of items, once it was taken.
type heard struct {
	sums    v1.Tree          // of the items that came, as a tree
	came    [v1.Buckets]bool // buckets of which any came
	later   [v1.Buckets]bool // buckets with one that could not be taken yet
	strange map[int][]string // strays among them, by bucket
	steps   map[string]stepped
	written []written       // instances and deployments that were changed by it
	known   []ledger.Object // those that were not, as the ledger has them
	garbage int             // items that cannot be read
	refused []string        // instances and deployments that make no sense
}

// written is an object as a report left it.
type written struct {
	object ledger.Object
	seq    int64
}

// stepped is what was said of a step.
type stepped struct {
	leaf uint64
	gone bool
}

// observe hands what can be read of the items to the instances, steps and
// deployments; what cannot harms nothing.
func (o *own) observe(ctx context.Context, clusterID string, items []json.RawMessage) (*heard, error) {
	h := &heard{strange: map[int][]string{}, steps: map[string]stepped{}}
	if len(items) == 0 {
		return h, nil
	}
	var seen []instance.Observation
	var steps []cluster.StepSeen
	var deployments []v1.ObservedItem
	states := map[string]string{}
	taken := map[[2]string]uint64{}
	for _, raw := range items {
		var it v1.ObservedItem
		if json.Unmarshal(raw, &it) != nil || it.ID == "" || len(it.ID) > ledger.MaxText {
			h.garbage++
			continue
		}
		leaf, bucket := it.Leaf(), v1.BucketOf(it.ID)
		key := [2]string{it.Kind, it.ID}
		if _, twice := taken[key]; twice { // an item is told once
			h.garbage++
			continue
		}
		taken[key] = leaf
		h.sums[bucket] += leaf
		h.came[bucket] = true
		if it.Kind != itemKinds[ofStep] && o.agents.heard(clusterID, it.ID, leaf) {
			continue
		}
		switch it.Kind {
		case "":
			states[it.ID] = it.State
			seen = append(seen, observation(it, leaf))
		case itemKinds[ofDeployment]:
			deployments = append(deployments, it)
		case itemKinds[ofStep]:
			h.steps[it.ID] = stepped{leaf, it.State == stateDeleted}
			steps = append(steps, cluster.StepSeen{ID: it.ID, Generation: it.Generation, State: it.State, Message: it.Message})
		}
	}
	if len(steps) > 0 {
		if err := o.Clusters.ReportSteps(ctx, clusterID, steps); err != nil {
			return nil, err
		}
	}
	out, err := o.Instances.Observe(ctx, clusterID, seen)
	if err != nil {
		return nil, err
	}
	for _, w := range out.Written {
		h.written = append(h.written, written{w.Object, w.Seq})
	}
	h.known = out.Known
	for _, id := range out.Later {
		h.later[v1.BucketOf(id)] = true
	}
	for _, id := range out.Strangers {
		if s := states[id]; s != stateDeleted && s != stateRejected {
			h.stray(id)
		}
	}
	h.refused = out.Refused
	return h, o.observeDeployments(ctx, clusterID, deployments, h)
}

// heard reports whether an agent has said the very same of an instance or a deployment
// before: of a bucket that is asked for, few are news, and the ledger need not be asked
// for the others. Where it has moved on since and the index has not, the two sides
// disagree once that has, and it is told again.
func (h *hub) heard(clusterID, id string, leaf uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.items[id], func(it *hubItem) bool { return it.at.id == clusterID && it.seen == leaf })
}

// States in which nothing of an item is left in the data plane.
const (
	stateDeleted  = "deleted"
	stateRejected = "rejected"
)

func observation(it v1.ObservedItem, leaf uint64) instance.Observation {
	o := instance.Observation{
		ID: it.ID, Generation: it.Generation, State: it.State, Message: it.Message, Versions: it.Versions, Leaf: leaf, Trace: it.Trace,
	}
	for _, c := range it.Conditions {
		o.Conditions = append(o.Conditions, instance.Condition(c))
	}
	return o
}

// maxStrays bounds the strays of a bucket that are remembered.
const maxStrays = 100

func (h *heard) stray(id string) {
	if b := v1.BucketOf(id); len(h.strange[b]) < maxStrays {
		h.strange[b] = append(h.strange[b], id)
	}
}

// oddity is a bucket of observed items that the two sides did not agree on
// although items of it came.
type oddity struct {
	leaf  uint64 // as the agent had it
	times int
	until time.Time // it is not asked for again before; zero: it is
}

const (
	// oddTimes is how often a bucket is asked for without success ...
	oddTimes = 3
	// ... before it is left alone for this long, unless it changes.
	oddRest = 5 * time.Minute
)

// settle compares what an agent observes with what is known of it, after its
// items were taken, and returns the buckets that it is to tell. A bucket all of
// whose items came is agreed on: what of it the ledger does not take (what is
// refused, gone or nobody's) is remembered as a sum, so that it need not be
// repeated. A bucket of which the ledger has more than the feed has brought yet is
// left for the next message: the sum would be wrong once it is here. Once all is
// agreed on, the strays are known; others says whether they are others than the
// ledger has.
func (h *hub) settle(p *plane, tree *v1.Tree, said *heard, now time.Time) (ask []int, strays []string, others bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range said.written {
		w := &said.written[i]
		if w.seq <= h.pos {
			continue // the feed has brought it, and maybe what came after
		}
		n := news{object: &w.object, seq: w.seq}
		if n.tell(); len(n.items) >= len(h.items[w.object.ID]) { // what leaves does so by the feed
			h.put(&n)
		}
	}
	for id, step := range said.steps {
		if it := p.step(id); it != nil {
			it.observe(step.leaf)
		} else if !step.gone {
			said.stray(id)
		}
	}
	awaited := h.awaited(p, said)
	agreed := true
	for b := range tree {
		if p.seen[b]+p.beyond(b) == tree[b] {
			delete(p.odd, b)
			continue
		}
		if awaited[b] {
			agreed = false
			continue
		}
		if said.sums[b] == tree[b] && !said.later[b] {
			p.agree(b, tree[b])
			delete(p.odd, b)
			if p.strange == nil {
				p.strange = map[int][]string{}
			}
			if p.strange[b] = said.strange[b]; len(p.strange[b]) == 0 {
				delete(p.strange, b)
			}
			continue
		}
		if agreed = false; p.resting(b, tree[b], said, now) {
			continue
		}
		ask = append(ask, b)
	}
	if !agreed {
		return ask, nil, false
	}
	for _, ids := range p.strange {
		strays = append(strays, ids...)
	}
	slices.Sort(strays)
	strays = strays[:min(len(strays), maxStrays)]
	return nil, strays, !slices.Equal(strays, p.strays)
}

// awaited are the buckets with an object that came and that is newer in the
// ledger than in the hub. The lock is held.
func (h *hub) awaited(p *plane, said *heard) (out [v1.Buckets]bool) {
	look := func(o *ledger.Object) {
		have := h.items[o.ID]
		if len(have) > 0 && have[0].version >= o.Version {
			return
		}
		n := news{object: o}
		n.tell()
		if len(have) > 0 || slices.ContainsFunc(n.items, func(it told) bool { return it.cluster == p.id }) {
			out[v1.BucketOf(o.ID)] = true
		}
	}
	for i := range said.written {
		look(&said.written[i].object)
	}
	for i := range said.known {
		look(&said.known[i])
	}
	return out
}

// beyond is the part of a bucket that belongs to no item of the hub.
func (p *plane) beyond(b int) uint64 {
	if p.foreign == nil {
		return 0
	}
	return p.foreign[b]
}

func (p *plane) agree(b int, leaf uint64) {
	if rest := leaf - p.seen[b]; rest != p.beyond(b) {
		if p.foreign == nil {
			p.foreign = &v1.Tree{}
		}
		p.foreign[b] = rest
	}
}

// resting reports whether a bucket is not to be asked for now, because that was
// tried in vain.
func (p *plane) resting(b int, leaf uint64, said *heard, now time.Time) bool {
	odd := p.odd[b]
	if odd != nil && odd.leaf != leaf {
		odd = nil
	}
	if odd != nil && now.Before(odd.until) {
		return true
	}
	if !said.came[b] && said.garbage == 0 {
		return false // it may have been lost on the way
	}
	if odd == nil || !odd.until.IsZero() {
		odd = &oddity{leaf: leaf}
		if p.odd == nil {
			p.odd = map[int]*oddity{}
		}
		p.odd[b] = odd
	}
	if odd.times++; odd.times < oddTimes {
		return false
	}
	odd.until = now.Add(oddRest)
	return true
}
