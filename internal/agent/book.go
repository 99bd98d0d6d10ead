package agent

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	v1 "github.com/droverhq/drover/api/v1"
)

// known is one item as the agent was told.
type known struct {
	bucket int
	item   v1.Item // the newest whole one that was good; without an id: none yet
	epoch  int64   // of the ledger that told it
	listed bool    // by the newest answer; what is not is left alone
	runs   bool    // the data plane had it when the agent began; not kept
	// head is what is listed where that is not the item: one whose body has not
	// come yet, or one that is barred. nil: the item is what is listed.
	head   *v1.Item
	barred bool // it was removed, and an older view lists it: it is not made again
	tenant string
	trace  string // in which it is applied next; not kept
}

// leaf is the item's share in the tree: what is listed counts, so that the two
// sides agree on what was said, whatever has become of it.
func (k *known) leaf() uint64 {
	switch {
	case !k.listed:
		return 0
	case k.head != nil:
		return k.head.Leaf()
	}
	return k.item.Leaf()
}

// grave remembers a removal, so that no older view brings back what was removed.
type grave struct {
	ID         string `json:"id"`
	Kind       string `json:"kind,omitempty"`
	Generation int64  `json:"generation"`
	Epoch      int64  `json:"epoch"`
}

// holds reports whether the item is an older view of what was removed. A ledger
// that was restored remembers less, and its word on an instance that was removed
// since is not followed; steps hold nobody's data and may be wanted again.
func (g grave) holds(it v1.Item, epoch int64) bool {
	return !it.Delete && it.Generation <= g.Generation && (it.Kind == "" || epoch <= g.Epoch)
}

// maxGraves of one bucket: the newest ten thousand or so of a cluster.
const maxGraves = 160

// book is what the agent was told, and its tree. It decides and does nothing:
// what is to be done is in the outcome.
type book struct {
	cluster string
	items   map[string]*known
	tree    v1.Tree
	graves  map[int][]grave // by bucket, the newest last
	dirty   map[int]bool    // buckets that are to be kept anew
	asked   map[string]uint64
	refused map[string]string // why items are not followed, by id
}

func newBook(cluster string) *book {
	return &book{cluster: cluster, items: map[string]*known{}, graves: map[int][]grave{}, dirty: map[int]bool{},
		asked: map[string]uint64{}, refused: map[string]string{}}
}

// outcome of an answer.
type outcome struct {
	work    []string  // ids whose items are to be applied
	refused []refusal // those that are newly refused
	news    bool      // the book has changed, or has something new to ask
}

// refusal of an item, and for whom it was wanted.
type refusal struct{ id, why, cause, org string }

// change moves one item and its leaf.
func (b *book) change(id string, f func(*known)) {
	k := b.items[id]
	if k == nil {
		k = &known{bucket: v1.BucketOf(id)}
		b.items[id] = k
	}
	b.tree[k.bucket] -= k.leaf()
	f(k)
	b.tree[k.bucket] += k.leaf()
	b.dirty[k.bucket] = true
	if !k.listed && k.item.ID == "" {
		delete(b.items, id)
	}
}

// check finds what no control plane says: such an answer is ignored as a whole.
func check(s v1.Synced) error {
	if s.Ledger == "" {
		return errors.New("it names no ledger")
	}
	seen := map[string]bool{}
	indices := map[int]bool{}
	for _, bucket := range s.Desired {
		if bucket.Index < 0 || bucket.Index >= v1.Buckets || indices[bucket.Index] {
			return errors.New("its buckets are not in order")
		}
		indices[bucket.Index] = true
		for _, it := range bucket.Items {
			if it.ID == "" || seen[it.ID] || v1.BucketOf(it.ID) != bucket.Index {
				return errors.New("its items are not in order")
			}
			seen[it.ID] = true
		}
	}
	for _, it := range s.Bodies {
		if it.ID == "" {
			return errors.New("its bodies name no items")
		}
	}
	return nil
}

// take follows an answer that was checked.
func (b *book) take(s v1.Synced, keys *keySet) outcome {
	var out outcome
	taken := map[int]bool{}
	listed := map[string]bool{}
	for _, bucket := range s.Desired {
		taken[bucket.Index] = true
		for _, it := range bucket.Items {
			listed[it.ID] = true
			b.list(it, s, keys, &out)
		}
	}
	if len(taken) > 0 {
		for id, k := range b.items {
			if taken[k.bucket] && k.listed && !listed[id] {
				b.change(id, func(k *known) { k.listed, k.head, k.barred = false, nil, false })
				delete(b.asked, id)
				out.news = true
			}
		}
		for id := range b.refused {
			if taken[v1.BucketOf(id)] && !listed[id] {
				delete(b.refused, id)
			}
		}
	}
	for _, it := range s.Bodies {
		// Only what is listed counts: a body may come after its item was dropped.
		if k := b.items[it.ID]; k != nil && k.listed && len(it.Body) > 0 {
			b.list(it, s, keys, &out)
		}
	}
	return out
}

// list takes one item that the control plane lists.
func (b *book) list(it v1.Item, s v1.Synced, keys *keySet, out *outcome) {
	k := b.items[it.ID]
	if g, ok := b.grave(it.ID); ok && g.holds(it, s.Epoch) {
		b.bar(it, k, out)
		return
	}
	if k != nil && k.item.ID != "" && k.item.Leaf() == it.Leaf() && len(it.Body) == 0 {
		if !k.listed || k.head != nil {
			b.change(it.ID, func(k *known) { k.listed, k.head, k.barred = true, nil, false })
			out.news, out.work = true, append(out.work, it.ID) // the runtime may have had no room before
		}
		return
	}
	borrowed := false
	if len(it.Body) == 0 && k != nil && k.item.Digest == it.Digest && len(k.item.Body) > 0 {
		it.Body, it.Filled, borrowed = k.item.Body, k.item.Filled, true
	}
	if len(it.Body) == 0 && !it.Delete {
		b.await(it, out)
		return
	}
	err := keys.verify(it, s.Ledger, s.Epoch, b.cluster)
	switch {
	case err != nil && borrowed, err != nil && len(it.Body) == 0:
		it.Body = nil
		b.await(it, out) // with its own body, the signature may fit
	case err != nil:
		b.refuse(it, err, out)
	case len(it.Body) > 0 && !it.Filled && !borrowed && v1.BodyDigest(it.Body) != it.Digest:
		b.refuse(it, errors.New("its body is not the one of its digest"), out)
	default:
		b.accept(it, s.Epoch, out)
	}
}

// accept makes an item the one that is wanted.
func (b *book) accept(it v1.Item, epoch int64, out *outcome) {
	delete(b.asked, it.ID)
	delete(b.refused, it.ID)
	if k := b.items[it.ID]; k != nil && k.listed && k.head == nil && keyOf(k.item) == keyOf(it) && bytes.Equal(k.item.Body, it.Body) {
		if k.item.Proof != it.Proof { // signed anew: nothing to do but to keep it
			k.item.Proof, k.epoch = it.Proof, epoch
			b.dirty[k.bucket], out.news = true, true
		}
		return
	}
	trace := it.Trace
	it.Trace = ""
	b.change(it.ID, func(k *known) {
		if it.Org == "" { // it comes with a body, and this may have none of its own
			it.Org = k.item.Org
		}
		k.trace = trace
		k.item, k.epoch, k.listed, k.head, k.barred = it, epoch, true, nil, false
	})
	if it.Delete {
		b.bury(grave{ID: it.ID, Kind: it.Kind, Generation: it.Generation, Epoch: epoch})
	} else {
		b.exhume(it.ID)
	}
	out.news, out.work = true, append(out.work, it.ID)
}

// await notes an item whose body is to be asked for.
func (b *book) await(it v1.Item, out *outcome) {
	it.Body = nil
	if leaf := it.Leaf(); b.asked[it.ID] != leaf {
		b.asked[it.ID], out.news = leaf, true
	}
	b.change(it.ID, func(k *known) { k.listed, k.head, k.barred = true, &it, false })
}

// refuse leaves everything as it is; the trees go on to differ, so that the
// control plane says it again.
func (b *book) refuse(it v1.Item, err error, out *outcome) {
	why := fmt.Sprintf("generation %d: %v", it.Generation, err)
	if b.refused[it.ID] != why {
		b.refused[it.ID], out.refused = why, append(out.refused, refusal{it.ID, why, it.Cause, it.Org})
	}
	if k := b.items[it.ID]; k != nil && k.head != nil && !k.barred {
		b.change(it.ID, func(k *known) { k.head = nil; k.listed = k.item.ID != "" })
	}
}

// bar notes an item that was removed here and that an older view lists.
func (b *book) bar(it v1.Item, k *known, out *outcome) {
	it.Body = nil
	if k != nil && k.barred && k.listed && k.head.Leaf() == it.Leaf() {
		return
	}
	b.change(it.ID, func(k *known) { k.listed, k.head, k.barred = true, &it, true })
	if out.news = true; b.items[it.ID].item.Delete {
		out.work = append(out.work, it.ID) // a removal that was left in the middle is finished
	}
}

func (b *book) grave(id string) (grave, bool) {
	graves := b.graves[v1.BucketOf(id)]
	at := slices.IndexFunc(graves, func(g grave) bool { return g.ID == id })
	if at < 0 {
		return grave{}, false
	}
	return graves[at], true
}

// bury remembers a removal. Those that the control plane still lists are never
// the ones that fall out of the memory.
func (b *book) bury(g grave) {
	i := v1.BucketOf(g.ID)
	if old, ok := b.grave(g.ID); ok {
		if old.Generation > g.Generation && old.Epoch >= g.Epoch {
			return
		}
		g.Generation = max(g.Generation, old.Generation)
		b.exhume(g.ID)
	}
	graves := append(b.graves[i], g)
	for at := 0; len(graves) > maxGraves && at < len(graves); {
		if k := b.items[graves[at].ID]; k != nil {
			at++
			continue
		}
		graves = slices.Delete(graves, at, at+1)
	}
	b.graves[i], b.dirty[i] = graves, true
}

// exhume drops the memory of a removal: a newer generation is wanted again.
func (b *book) exhume(id string) {
	i := v1.BucketOf(id)
	before := len(b.graves[i])
	graves := slices.DeleteFunc(b.graves[i], func(g grave) bool { return g.ID == id })
	if len(graves) == before {
		return
	}
	if b.graves[i], b.dirty[i] = graves, true; len(graves) == 0 {
		delete(b.graves, i)
	}
}

// lacking lists items whose bodies are to be asked for, at most n.
func (b *book) lacking(n int) []string {
	var ids []string
	for id := range b.asked {
		if len(ids) == n {
			break
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// resign asks again for what the present keys did not sign: the keys that did
// have gone, and what was kept could not be verified without the control plane.
func (b *book) resign(keys *keySet, ledger string) {
	for id, k := range b.items {
		if k.listed && k.head == nil && keys.verify(k.item, ledger, k.epoch, b.cluster) != nil {
			b.asked[id] = k.item.Leaf()
		}
	}
}
