package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/runtime"
)

// What the agent was told is kept by bucket: a change writes one entry of the
// store, and nothing has to list them.

const (
	keysName = "keys.json"
	seqName  = "seq"
)

func bucketName(i int) string { return fmt.Sprintf("items-%02d.json", i) }

// kept is one bucket in the store.
type kept struct {
	Items   []keptItem `json:"items,omitempty"`
	Removed []grave    `json:"removed,omitempty"`
}

type keptItem struct {
	Item     v1.Item `json:"item"`
	Epoch    int64   `json:"epoch"`
	Unlisted bool    `json:"unlisted,omitempty"`
}

// seqText is how far the agent has followed a life of the ledger, as it is kept.
// A life that follows may begin at a lower sequence: one of another epoch would
// speak of what the ledger has not reached.
func seqText(epoch, seq int64) []byte { return fmt.Appendf(nil, "%d %d", epoch, seq) }

// seqOf reads it; 0, which costs a longer answer and no more, where it is not of
// this epoch.
func seqOf(text string, epoch int64) int64 {
	of, at, _ := strings.Cut(text, " ")
	if of != strconv.FormatInt(epoch, 10) {
		return 0
	}
	seq, _ := strconv.ParseInt(at, 10, 64)
	return max(seq, 0)
}

// encode is a bucket as it is kept.
func (b *book) encode(i int) kept {
	out := kept{Removed: b.graves[i]}
	for _, k := range b.items {
		if k.bucket == i && k.item.ID != "" {
			out.Items = append(out.Items, keptItem{Item: k.item, Epoch: k.epoch, Unlisted: !k.listed})
		}
	}
	return out
}

// load reads what was kept and believes what is signed. What is not is named in
// the log and left out; what runs of it is left alone, and the control plane
// will say it again.
func (a *Agent) load() {
	log := a.cfg.Logger.With("cluster", a.cfg.Cluster)
	read := func(name string) []byte {
		b, err := a.cfg.Store.Load(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Error("cannot read what was kept", "entry", name, "error", err)
		}
		return b
	}
	if text := read(keysName); len(text) > 0 {
		keys, err := parseKeys(string(text))
		if err != nil {
			log.Error("the kept keys are not followed", "why", err)
		}
		a.keys = keys
	}
	a.seq = seqOf(string(read(seqName)), a.mark.Epoch)
	for i := range v1.Buckets {
		text := read(bucketName(i))
		if len(text) == 0 {
			continue
		}
		var in kept
		if err := json.Unmarshal(text, &in); err != nil {
			log.Error("what was kept cannot be read; what runs is left alone", "entry", bucketName(i), "error", err)
			continue
		}
		for _, g := range in.Removed {
			if v1.BucketOf(g.ID) == i {
				a.book.bury(g)
			}
		}
		for _, it := range in.Items {
			if err := a.trusts(it, i); err != nil {
				log.ErrorContext(runtime.About(context.Background(), it.Item.Cause, it.Item.Org), "a kept item is refused; what runs of it is left alone", "instance", it.Item.ID, "why", err)
				continue
			}
			a.book.change(it.Item.ID, func(k *known) { k.item, k.epoch, k.listed = it.Item, it.Epoch, !it.Unlisted })
		}
	}
	clear(a.book.dirty)
}

// trusts says why a kept item is not good. Without keys none is: nobody vouches
// for what lay in a file.
func (a *Agent) trusts(k keptItem, bucket int) error {
	it := k.Item
	switch {
	case it.ID == "" || v1.BucketOf(it.ID) != bucket || a.book.items[it.ID] != nil:
		return errors.New("it is in a wrong place")
	case a.keys == nil:
		return errors.New("there are no keys to verify it with")
	case k.Epoch > a.mark.Epoch:
		return errors.New("it is of an epoch that this agent has not followed")
	case len(it.Body) == 0 && !it.Delete:
		return errors.New("it has no body")
	case len(it.Body) > 0 && !it.Filled && v1.BodyDigest(it.Body) != it.Digest:
		return errors.New("its body is not the one of its digest")
	}
	if g, ok := a.book.grave(it.ID); ok && g.holds(it, k.Epoch) {
		return errors.New("it was removed later")
	}
	return a.keys.verify(it, a.mark.Ledger, k.Epoch, a.cfg.Cluster)
}

// resume hands what was kept to the runtime, which goes on with what it has: an
// item that the runtime has in a newer form is not put back. Called with the
// lock, once there is an observation.
func (a *Agent) resume(now []runtime.Observed) {
	if a.resumed {
		return
	}
	a.resumed = true
	have := make(map[string]runtime.Observed, len(now))
	for _, o := range now {
		have[o.ID] = o
		if o.State == runtime.Deleted {
			a.book.bury(grave{ID: o.ID, Kind: o.Kind, Generation: o.Generation, Epoch: a.mark.Epoch})
		}
	}
	for id, k := range a.book.items {
		o, runs := have[id]
		if runs && (o.Generation > k.item.Generation || o.State == runtime.Deleted && !k.item.Delete) {
			a.book.change(id, func(k *known) { k.item, k.listed = v1.Item{}, false })
			continue
		}
		k.runs = runs && o.Generation == k.item.Generation
		if k.listed || !k.item.Delete {
			a.work.put(k.entry())
		}
	}
	if n := len(a.book.items); n > 0 {
		a.cfg.Logger.Info("goes on with what it was told before", "cluster", a.cfg.Cluster, "items", n)
	}
	a.keep()
}

// keep writes what has changed in the book, in the background: the runtime has
// its own memory of what it was given, so nothing waits for this but Forget.
// Called with the lock.
func (a *Agent) keep() {
	if a.saving || len(a.book.dirty) == 0 {
		return
	}
	a.saving = true
	a.wg.Go(func() {
		failures := 0
		for a.keepOne(&failures) {
		}
		a.nudge()
	})
}

// keepOne writes one bucket; false when there is none, or none can be written.
func (a *Agent) keepOne(failures *int) bool {
	a.mu.Lock()
	index := -1
	for i := range a.book.dirty {
		index = i
		break
	}
	if index < 0 || *failures > 2 { // tried again with the next change
		reached := seqText(a.mark.Epoch, a.seq)
		a.saving = false
		a.mu.Unlock()
		if *failures == 0 {
			_ = a.cfg.Store.Save(seqName, reached) // an older one costs a longer answer, no more
		}
		return false
	}
	delete(a.book.dirty, index)
	data, err := json.Marshal(a.book.encode(index))
	a.mu.Unlock()
	if err == nil {
		err = a.cfg.Store.Save(bucketName(index), data)
	}
	if err != nil {
		if *failures++; *failures == 1 {
			a.cfg.Logger.Error("cannot keep what was told; it goes on with it while it lives", "cluster", a.cfg.Cluster, "error", err)
		}
		a.mu.Lock()
		a.book.dirty[index] = true
		a.mu.Unlock()
	}
	return true
}
