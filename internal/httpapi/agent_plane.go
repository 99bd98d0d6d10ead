package httpapi

import (
	"context"
	"strings"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// plane is one cluster in the hub, whose lock guards it.
type plane struct {
	id           string
	known        bool // the ledger has it
	version      int64
	client       string // account of its agent
	installation string
	anew         time.Time // tokens from before are another's
	strays       []string  // as the ledger has them
	abandoned    string    // why it was given up as lost; empty: it was not

	told, seen v1.Tree
	first      [v1.Buckets]*hubItem // the items of a bucket are a list
	foreign    *v1.Tree             // what the agent observes beyond its items; nil: nothing
	odd        map[int]*oddity      // buckets that were not agreed on at once
	strange    map[int][]string     // strays by bucket

	taking   chan struct{} // holds a token while a message of its agent is taken
	changed  chan struct{} // closed when its agent may have to be told something; nil: nobody waits
	agent    string        // process that spoke last ...
	latest   int64         // ... and the number of its message
	held     int           // messages that wait for news
	pace     pace
	grumbled time.Time // when its troubles were logged last
}

// hubItem is an instance, a step or a deployment as a tree needs it.
type hubItem struct {
	id         string
	digest     string
	at         *plane
	next, prev *hubItem
	generation int64
	token      int64
	version    int64 // of the object; 0 for a step
	changed    int64 // sequence of the change that the agent was to hear of
	leaf, seen uint64
	proof      *proof // of the body as it was sent last
	bucket     uint8
	sort       sort
	gone       bool // it is to be removed
	why        *why // it is wanted so, until its agent has been heard of it; nil: not known
}

// why is the cause of an item, and the trace where that is followed.
type why struct{ cause, trace string }

// plane returns a cluster's, which is made where there is none yet. The lock is held.
func (h *hub) plane(id string) *plane {
	p := h.planes[id]
	if p == nil {
		p = &plane{id: strings.Clone(id), taking: make(chan struct{}, 1)}
		h.planes[p.id] = p
	}
	return p
}

// turn waits until no other message of the plane's agent is being taken, and
// returns what ends this one's turn. Of two at once the older word could replace
// the newer one, in the ledger and in what is agreed on.
func (p *plane) turn(ctx context.Context) (done func(), err error) {
	done = func() { <-p.taking }
	select {
	case p.taking <- struct{}{}:
		return done, nil // whoever has ended its connection meanwhile, too: what it said counts
	default:
	}
	select {
	case p.taking <- struct{}{}:
		return done, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *plane) step(id string) *hubItem {
	for it := p.first[v1.BucketOf(id)]; it != nil; it = it.next {
		if it.sort == ofStep && it.id == id {
			return it
		}
	}
	return nil
}

// empty reports whether there is nothing to tell its agent.
func (p *plane) empty() bool {
	for _, it := range p.first {
		if it != nil {
			return false
		}
	}
	return true
}

func (p *plane) announce() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// signal is closed when the plane's agent may have to be told something.
func (p *plane) signal() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

func (it *hubItem) join(p *plane) {
	it.at, it.next = p, p.first[it.bucket]
	if it.next != nil {
		it.next.prev = it
	}
	p.first[it.bucket] = it
}

// leave takes an item out of its plane; it.next stays for who walks the list.
func (it *hubItem) leave() {
	p := it.at
	p.told[it.bucket] -= it.leaf
	p.seen[it.bucket] -= it.seen
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		p.first[it.bucket] = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	}
	p.announce()
}

// become takes over what is wanted. A new token alone is not news.
func (it *hubItem) become(w v1.Item, seq int64) {
	it.token = w.Token
	w.ID, w.Kind = it.id, it.kind()
	leaf := w.Leaf()
	if leaf == it.leaf {
		return
	}
	it.at.told[it.bucket] += leaf - it.leaf
	it.leaf, it.generation, it.gone, it.changed, it.proof = leaf, w.Generation, w.Delete, seq, nil
	if it.why = nil; w.Cause != "" || w.Trace != "" {
		it.why = &why{strings.Clone(w.Cause), strings.Clone(w.Trace)}
	}
	if it.digest != w.Digest {
		it.digest = strings.Clone(w.Digest)
	}
	it.at.announce()
}

func (it *hubItem) observe(leaf uint64) {
	if it.seen != leaf {
		it.why = nil
	}
	it.at.seen[it.bucket] += leaf - it.seen
	it.seen = leaf
}

// sort is what an item is.
type sort uint8

const (
	ofInstance sort = iota
	ofStep
	ofDeployment
)

// kinds of items as agents are told them, by sort.
var itemKinds = [...]string{ofInstance: "", ofStep: "step", ofDeployment: "deployment"}

func (it *hubItem) kind() string { return itemKinds[it.sort] }

func (it *hubItem) item() v1.Item {
	out := v1.Item{ID: it.id, Kind: it.kind(), Generation: it.generation, Token: it.token, Digest: it.digest, Delete: it.gone}
	if it.why != nil {
		out.Cause, out.Trace = it.why.cause, it.why.trace
	}
	return out
}
