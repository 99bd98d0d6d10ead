package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// maxBodies bounds the bytes of bodies in one answer: the agent asks for the rest.
const maxBodies = 8 << 20

// maxAsked bounds the bodies that one message may ask for.
const maxAsked = 1000

// bodyPage is how many bodies are read from the ledger at once.
const bodyPage = 200

// exchange is one message of an agent and what it is answered. It belongs to the
// request's goroutine.
type exchange struct {
	*own
	id    string
	p     *plane
	req   *v1.Sync
	head  ledger.Head
	fresh bool // the agent has followed another life of the ledger, or none

	ask   []int  // buckets of observed items that it is to tell
	token string // a new one
	keys  string // a key set that it does not know
}

// proof is a signature of an item, good as long as what was signed is the same.
type proof struct {
	sum  [sha256.Size]byte
	text string
}

// part is an item that is to be told.
type part struct {
	v1.Item
	it      *hubItem
	leaf    uint64
	changed int64
	proof   *proof
}

// outlook is what an agent would be told now.
type outlook struct {
	seq     int64
	buckets []v1.Bucket // with room for the items
	parts   [][]part    // of the buckets
	asked   []part      // whose bodies it asked for
	changed <-chan struct{}
	over    bool // a newer message of the agent has come
	lost    bool // the cluster belongs to another installation
}

// look compares the trees. At rest it costs the same whatever there is.
func (x *exchange) look() outlook {
	h, p := x.agents, x.p
	h.mu.Lock()
	defer h.mu.Unlock()
	out := outlook{
		seq: h.pos, changed: p.signal(),
		over: p.agent != x.req.Agent || p.latest != x.req.Number,
		lost: p.installation != "" && p.installation != x.req.Installation,
	}
	if out.over || out.lost {
		return out
	}
	for b := range p.told {
		if p.told[b] == x.req.Desired[b] && (!x.fresh || p.first[b] == nil) {
			continue
		}
		var parts []part
		for it := p.first[b]; it != nil; it = it.next {
			parts = append(parts, it.part())
		}
		slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Kind, b.Kind)) })
		out.buckets, out.parts = append(out.buckets, v1.Bucket{Index: b}), append(out.parts, parts)
	}
	for _, id := range x.req.Bodies {
		for _, it := range h.items[id] {
			if it.at == p {
				out.asked = append(out.asked, it.part())
			}
		}
		if it := p.step(id); it != nil {
			out.asked = append(out.asked, it.part())
		}
	}
	return out
}

func (it *hubItem) part() part {
	return part{Item: it.item(), it: it, leaf: it.leaf, changed: it.changed, proof: it.proof}
}

// answer is what the agent is told now; news is false if that is nothing.
func (x *exchange) answer(ctx context.Context, see outlook) (out v1.Synced, news bool, err error) {
	out = v1.Synced{
		Protocol: v1.Protocol, Ledger: x.head.Ledger, Epoch: x.head.Epoch, Seq: see.seq,
		Interval: int64(x.Interval / time.Second), Observed: x.ask, Token: x.token, Keys: x.keys, Sites: x.sites(),
	}
	since := x.req.Seq
	if x.fresh {
		since = 0
	}
	var need []*part
	for i := range see.parts {
		for j := range see.parts[i] {
			if p := &see.parts[i][j]; (!p.Delete || p.it.sort == ofDeployment) && (since == 0 || p.changed > since) {
				need = append(need, p)
			}
		}
	}
	for i := range see.asked {
		need = append(need, &see.asked[i])
	}
	if err := x.bodies(ctx, need); err != nil {
		return out, false, err
	}
	for i, parts := range see.parts {
		for j := range parts {
			x.prove(ctx, &parts[j])
			see.buckets[i].Items = append(see.buckets[i].Items, parts[j].Item)
		}
	}
	out.Desired = see.buckets
	for i := range see.asked {
		if p := &see.asked[i]; len(p.Body) > 0 {
			x.prove(ctx, p)
			out.Bodies = append(out.Bodies, p.Item)
		}
	}
	news = len(out.Desired) > 0 || len(out.Bodies) > 0 || len(out.Observed) > 0 || out.Token != "" || out.Keys != ""
	return out, news, nil
}

// bodies reads bodies from the ledger. A body that is another one by now than
// the index says is left out: the change is on its way. So is one whose secrets
// cannot be had: the agent asks again, and the others need not wait.
func (x *exchange) bodies(ctx context.Context, need []*part) error {
	var home *ledger.Object // the cluster, where steps are among them
	byID := map[string][]*part{}
	var ids []any
	for _, p := range need {
		if p.it.sort == ofDeployment {
			continue
		}
		if p.it.sort == ofStep {
			if home == nil {
				o, err := x.Clusters.Get(ctx, x.id)
				if err != nil {
					return err
				}
				home = &o
			}
			x.stepBody(ctx, *home, p)
			continue
		}
		if byID[p.ID] == nil {
			ids = append(ids, p.ID)
		}
		byID[p.ID] = append(byID[p.ID], p)
	}
	for size := 0; len(ids) > 0 && size < maxBodies; {
		n := min(len(ids), bodyPage)
		objects, err := x.Ledger.List(ctx, ledger.Query{
			Kind: instance.Kind.Name, Where: ledger.Compare{Column: "id", Op: ledger.In, Values: ids[:n]}, Limit: n,
		})
		if err != nil {
			return err
		}
		ids = ids[n:]
		for _, o := range objects {
			size += x.body(ctx, o, byID[o.ID])
		}
	}
	return x.deploymentBodies(ctx, need)
}

// body puts an instance's body into the parts that are about it, and returns its size.
func (x *exchange) body(ctx context.Context, o ledger.Object, parts []*part) int {
	src, ok := instance.ItemOn(o, x.id)
	if !ok {
		return 0
	}
	body, filled := src.Body, false
	if !src.Delete && bytes.Contains(body, []byte(offering.Secret(""))) { // a removal needs no secrets
		var err error
		if body, err = x.Instances.Reveal(ctx, o, body); err != nil {
			if x.grumble(x.p) {
				x.Log.WarnContext(ctx, "cannot fill the secrets of an instance in; its agent is not told of it", "instance", o.ID, "error", err)
			}
			return 0
		}
		filled = true
	}
	for _, p := range parts {
		if p.Digest == src.Digest && p.Generation == src.Generation && p.Delete == src.Delete {
			p.Body, p.Filled, p.Org = body, filled, o.Org
		}
	}
	return len(body)
}

// stepBody puts a step's body into a part that is about it.
func (x *exchange) stepBody(ctx context.Context, home ledger.Object, p *part) {
	item, err := x.Clusters.StepItem(ctx, home, p.ID)
	switch {
	case fault.Is(err, fault.NotFound): // its turn is over
	case err != nil:
		if x.grumble(x.p) {
			x.Log.WarnContext(ctx, "cannot make a step of a cluster; its agent is not told of it", "cluster", x.id, "step", p.ID, "error", err)
		}
	case item.Digest == p.Digest && item.Generation == p.Generation && item.Delete == p.Delete && len(item.Body) > 0:
		p.Body, p.Filled, p.Org = item.Body, v1.BodyDigest(item.Body) != item.Digest, home.Org
	}
}

// prove signs an item that comes with its body, or that is to be removed. For
// the others the signature that came with the body holds.
func (x *exchange) prove(ctx context.Context, p *part) {
	if x.Issuer == nil || len(p.Body) == 0 && !p.Delete {
		return
	}
	sent := ""
	if len(p.Body) > 0 {
		sent = v1.BodyDigest(p.Body)
	}
	signed := p.SignedBytes(x.head.Ledger, x.head.Epoch, x.id, sent)
	sum := sha256.Sum256(signed)
	if p.proof != nil && p.proof.sum == sum {
		p.Proof = p.proof.text
		return
	}
	text, err := x.Issuer.SignDetached(ctx, signed)
	if err != nil { // it can be followed as long as the agent hears us
		if x.grumble(x.p) {
			x.Log.WarnContext(ctx, "cannot sign what an agent is told", "cluster", x.id, "error", err)
		}
		return
	}
	p.Proof = text
	h := x.agents
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.it.leaf == p.leaf {
		p.it.proof = &proof{sum, text}
	}
}

// grumble reports whether a trouble of a cluster is to be logged: not every time.
func (o *own) grumble(p *plane) bool {
	now := o.Clock()
	o.agents.mu.Lock()
	defer o.agents.mu.Unlock()
	if now.Sub(p.grumbled) < time.Minute {
		return false
	}
	p.grumbled = now
	return true
}

// belongs is why an agent is no longer told anything.
func (x *exchange) belongs(ctx context.Context) error {
	if err := x.Clusters.Belongs(ctx, x.id, x.req.Installation); err != nil {
		return err
	}
	return fault.New(fault.Unavailable, "cluster %q is being handed over; try again", x.id)
}
