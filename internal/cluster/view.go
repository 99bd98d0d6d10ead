package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// view keeps all clusters decoded. Each look asks the log whether anything
// happened, and reads only what did, so that it is never older than the
// question: what other replicas wrote is in it, and after a restart it is read
// anew. What is written between a look and a commit can only cost another try,
// because the commit's bounds decide.
type view struct {
	mu    sync.Mutex
	head  ledger.Head
	byID  map[string]*Known
	lanes map[shape]*lane // of what is ordered
	found *clusters       // as they were when somebody last asked for all; nil: to be sorted anew
	since []*Known        // that have changed since, each in its place
}

// clusters are all that there are at one moment. Nobody changes them.
type clusters struct {
	byID   map[string]*Known
	sorted []*Known           // oldest first
	at     map[place][]*Known // the same, by place
}

type place struct{ provider, region string }

// far is how many changes behind it is cheaper to read all clusters again.
const far = 20_000

// look returns the clusters as they are now.
func (v *view) look(ctx context.Context, store ledger.Reader) (*clusters, error) {
	log, ok := store.(ledger.Log)
	if !ok {
		byID, err := readAll(ctx, store)
		return sortClusters(byID), err
	}
	head, err := log.Head(ctx)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.follow(ctx, store, log, head); err != nil {
		return nil, err
	}
	switch {
	case v.found == nil:
		v.found = sortClusters(maps.Clone(v.byID))
	case len(v.since) > 0:
		v.found = v.found.with(v.since)
	}
	v.since = nil
	return v.found, nil
}

// follow brings the view up to a head.
func (v *view) follow(ctx context.Context, store ledger.Reader, log ledger.Log, head ledger.Head) error {
	other := v.byID == nil || head.Ledger != v.head.Ledger || head.Epoch != v.head.Epoch
	switch {
	case !other && head.Seq <= v.head.Seq: // another look has been further already
		return nil
	case other || head.Seq-v.head.Seq > far:
		byID, err := readAll(ctx, store) // later than the head: what comes twice is told by its version
		if err != nil {
			return err
		}
		v.byID, v.lanes, v.found, v.since, v.head = byID, nil, nil, nil, head
		return nil
	}
	for after := v.head.Seq; after < head.Seq; {
		changes, err := log.Changes(ctx, ledger.ChangeQuery{After: after, Until: head.Seq, Kind: Kind.Name, Limit: followed})
		if fault.Reason(err) == "truncated" {
			v.byID = nil // the next look reads all
		}
		if err != nil {
			return err
		}
		for i := range changes {
			v.apply(changes[i].Object)
			after = changes[i].Seq
		}
		if len(changes) < followed {
			break
		}
		v.head.Seq = after
	}
	v.head = head
	return nil
}

const followed = 1000

// mended is how many changes it is cheaper to sort all clusters after.
const mended = 64

// apply takes one change. Those who looked before have clusters of their own.
func (v *view) apply(o ledger.Object) {
	old := v.byID[o.ID]
	if old != nil && old.version >= o.Version {
		return
	}
	k := know(o)
	if k != nil {
		v.byID[o.ID] = k
	} else {
		delete(v.byID, o.ID)
	}
	for _, l := range v.lanes {
		l.change(old, k)
	}
	if old == nil || k == nil || older(old, k) != 0 || old.place() != k.place() || len(v.since) >= mended {
		v.found, v.since = nil, nil
		return
	}
	v.since = append(v.since, k)
}

// with returns the clusters with some of them changed, which moves none.
func (c *clusters) with(changed []*Known) *clusters {
	out := &clusters{byID: maps.Clone(c.byID), sorted: slices.Clone(c.sorted), at: maps.Clone(c.at)}
	own := map[place]bool{}
	for _, k := range changed {
		at := k.place()
		if !own[at] {
			out.at[at], own[at] = slices.Clone(c.at[at]), true
		}
		out.byID[k.ID] = k
		for _, list := range [][]*Known{out.sorted, out.at[at]} {
			i, _ := slices.BinarySearchFunc(list, k, older)
			list[i] = k
		}
	}
	return out
}

func (k *Known) place() place { return place{k.Spec.Provider, k.Spec.Region} }

func older(a, b *Known) int {
	if d := a.Created.Compare(b.Created); d != 0 {
		return d
	}
	return strings.Compare(a.ID, b.ID)
}

// know decodes a cluster; nil for one that is gone. One that cannot be read is
// known as one that takes nothing: it must not keep others from being found.
func know(o ledger.Object) *Known {
	if !o.Deleted.IsZero() {
		return nil
	}
	k := &Known{ID: o.ID, Phase: o.Phase, Created: o.Created, version: o.Version, room: CapacityCounter(o.ID)}
	var err error
	if k.Spec, k.Status, err = Decode(o); err != nil {
		k.Spec.Provider, _ = o.Fields["provider"].(string)
		k.Spec.Region, _ = o.Fields["region"].(string)
		k.Spec.Org, k.Phase, k.Status = o.Org, Failed, Status{Reason: err.Error()}
	}
	return k
}

func readAll(ctx context.Context, store ledger.Reader) (map[string]*Known, error) {
	byID := map[string]*Known{}
	for after := ""; ; {
		found, err := store.List(ctx, ledger.Query{Kind: Kind.Name, AfterID: after, Limit: followed})
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if k := know(o); k != nil {
				byID[o.ID] = k
			}
			after = o.ID
		}
		if len(found) < followed {
			return byID, nil
		}
	}
}

func sortClusters(byID map[string]*Known) *clusters {
	c := &clusters{byID: byID, sorted: make([]*Known, 0, len(byID)), at: map[place][]*Known{}}
	for _, k := range byID {
		c.sorted = append(c.sorted, k)
	}
	slices.SortFunc(c.sorted, older)
	for _, k := range c.sorted {
		at := k.place()
		c.at[at] = append(c.at[at], k)
	}
	return c
}

// Age is how long a cluster has been in its phase.
func (k *Known) age(now time.Time) time.Duration {
	if k.Status.Since.IsZero() {
		return now.Sub(k.Created)
	}
	return now.Sub(k.Status.Since)
}
