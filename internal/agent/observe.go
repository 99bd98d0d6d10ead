package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/runtime"
)

const chunk = 500 // items of one message, where they are not of one bucket

// seen is one item as it is now.
type seen struct {
	v1.ObservedItem
	bucket int
	leaf   uint64
	held   bool // by the runtime, which may forget it
}

// view is everything that is observed at one time. It is not changed once made.
type view struct {
	items map[string]seen
	tree  v1.Tree
}

// look observes the runtime, and adds what it refused and what must not be made
// again. Leaves of what did not change are not computed anew.
func (a *Agent) look(ctx context.Context, last *view) (*view, error) {
	all, err := a.cfg.Runtime.Observe(ctx)
	if err != nil {
		return nil, fmt.Errorf("the data plane cannot be observed: %w", err)
	}
	v := &view{items: make(map[string]seen, len(all))}
	put := func(o v1.ObservedItem, held bool) {
		s, ok := last.items[o.ID]
		if !ok || !same(s.ObservedItem, o) {
			s = seen{ObservedItem: o, bucket: v1.BucketOf(o.ID), leaf: o.Leaf()}
		}
		s.held = held
		if old, twice := v.items[o.ID]; twice {
			v.tree[old.bucket] -= old.leaf
		}
		v.items[o.ID] = s
		v.tree[s.bucket] += s.leaf
	}
	for _, o := range all {
		put(observed(o), true)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.resume(all)
	for id, o := range a.failed {
		if k := a.book.items[id]; k == nil || !k.listed {
			delete(a.failed, id)
			continue
		}
		put(o, v.items[id].held)
	}
	for id := range a.traced {
		if k := a.book.items[id]; k == nil || !k.listed {
			delete(a.traced, id) // nobody asks any more what became of it
		}
	}
	for id, k := range a.book.items {
		if s, ok := v.items[id]; !k.barred || ok && s.State != string(runtime.Deleted) {
			continue
		}
		g, _ := a.book.grave(id)
		// Of a generation that was lost with the backup the control plane would hear nothing.
		put(v1.ObservedItem{ID: id, Kind: k.head.Kind, Generation: k.head.Generation, State: string(runtime.Deleted),
			Message: fmt.Sprintf("it was deleted here at generation %d and is not made again", g.Generation)}, v.items[id].held)
	}
	return v, nil
}

func observed(o runtime.Observed) v1.ObservedItem {
	out := v1.ObservedItem{ID: o.ID, Kind: o.Kind, Generation: o.Generation, State: string(o.State),
		Message: o.Message, Versions: o.Versions, Routes: o.Routes}
	for _, c := range o.Conditions {
		out.Conditions = append(out.Conditions, v1.Condition(c))
	}
	if len(o.Detail) > 0 {
		out.Detail, _ = json.Marshal(o.Detail) // as it arrives, so that both sides sum up the same
	}
	return out
}

func same(a, b v1.ObservedItem) bool {
	return a.Generation == b.Generation && a.Kind == b.Kind && a.State == b.State && a.Message == b.Message &&
		maps.Equal(a.Versions, b.Versions) && maps.Equal(a.Routes, b.Routes) && slices.Equal(a.Conditions, b.Conditions) &&
		bytes.Equal(a.Detail, b.Detail)
}

// teller knows what the control plane has been told. The loop's alone.
type teller struct {
	met   bool              // an answer has come in this life: before it, nobody knows what is known
	said  map[string]uint64 // leaves that were told and answered, or found to be known
	asked map[int]bool      // buckets that the control plane wants whole
}

// tell picks the items of the next message: buckets that were asked for, whole,
// and what changed since it was told. more says that there is more than fits.
func (t *teller) tell(v *view) (items []v1.ObservedItem, whole map[int]uint64, more bool) {
	if !t.met {
		return nil, nil, false
	}
	whole = map[int]uint64{}
	if len(t.asked) > 0 {
		buckets := map[int][]v1.ObservedItem{}
		for _, s := range v.items {
			if t.asked[s.bucket] {
				buckets[s.bucket] = append(buckets[s.bucket], s.ObservedItem)
			}
		}
		for _, i := range slices.Sorted(maps.Keys(t.asked)) {
			if len(items) > 0 && len(items)+len(buckets[i]) > chunk {
				more = true
				continue
			}
			items, whole[i] = append(items, buckets[i]...), v.tree[i]
		}
	}
	for id, s := range v.items {
		if _, ok := whole[s.bucket]; ok || t.said[id] == s.leaf {
			continue
		}
		if len(items) >= chunk {
			more = true
			break
		}
		items = append(items, s.ObservedItem)
	}
	return items, whole, more
}

// answered notes what an answer shows to be known. newest says that no later
// message was answered before: a held answer compares with what was true when
// its message was sent. news: there are buckets to tell; vain: some were told
// and are wanted again.
func (t *teller) answered(f *flight, wants []int, newest bool) (news, vain bool) {
	for _, o := range f.message.Items {
		if _, ok := t.said[o.ID]; newest || !ok {
			t.said[o.ID] = f.view.items[o.ID].leaf
		}
	}
	for i := range f.whole {
		delete(t.asked, i)
	}
	if !newest {
		return false, false
	}
	t.met = true
	wanted := map[int]bool{}
	for _, i := range wants {
		if i < 0 || i >= v1.Buckets {
			continue
		}
		wanted[i] = true
		t.asked[i] = true
		if _, sent := f.whole[i]; sent {
			vain = true
		} else {
			news = true
		}
	}
	for id, s := range f.view.items {
		if !wanted[s.bucket] {
			t.said[id] = s.leaf
		}
	}
	for id := range t.said {
		if _, ok := f.view.items[id]; !ok {
			delete(t.said, id)
		}
	}
	return news, vain
}

// forget drops removed items that the control plane has been told of and does
// not list. Their generations stay in the book.
func (a *Agent) forget(ctx context.Context, v *view, t *teller) error {
	var ids []string
	a.mu.Lock()
	if a.followed && a.frozen == "" && !a.saving {
		for id, s := range v.items {
			if s.State != string(runtime.Deleted) || !s.held || t.said[id] != s.leaf || a.book.dirty[s.bucket] {
				continue
			}
			if k := a.book.items[id]; k == nil || !k.listed {
				ids = append(ids, id)
			}
		}
	}
	a.mu.Unlock()
	for _, id := range ids {
		if err := a.cfg.Runtime.Forget(ctx, id); err != nil {
			return fmt.Errorf("cannot forget %s: %w", id, err)
		}
		a.mu.Lock()
		if k := a.book.items[id]; k != nil && !k.listed && k.item.Delete {
			a.book.change(id, func(k *known) { k.item = v1.Item{} })
			a.keep()
		}
		a.mu.Unlock()
	}
	return nil
}
