package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// memory is what has to be known about an item besides what is wanted of it.
type memory struct {
	Run string `json:"run,omitempty"` // the sync of a manual deployment that was carried out, or given up, last
	// Sync is how the last one that was begun goes, without what it did, which Operation
	// tells; Again is when it is tried the next time.
	Sync  *runtime.SyncRun `json:"sync,omitempty"`
	Again time.Time        `json:"again,omitzero"`
	// Made is the digest of the body that was last applied as a whole: what differs
	// from it afterwards is somebody else's doing.
	Made string `json:"made,omitempty"`
	// Healing is what somebody did and is being put right, Healed what was put right
	// last.
	Healing *runtime.Healed `json:"healing,omitempty"`
	Healed  *runtime.Healed `json:"healed,omitempty"`
	// Operation is the last sync that came to an end.
	Operation *operation `json:"operation,omitempty"`
}

func remember(own json.RawMessage) memory {
	var m memory
	_ = json.Unmarshal(own, &m) // it was written by us; without it a sync is carried out twice
	return m
}

// memorize writes the memory down if it is another.
func (s *shift) memorize(ctx context.Context, e *keep.Entry, m memory) error {
	own, err := json.Marshal(m)
	if err != nil || bytes.Equal(own, e.Record.Own) {
		return err
	}
	next := e.Record
	next.Own = own
	return s.Save(ctx, e, next)
}

// manual reports whether nothing is done with a deployment but for its syncs.
func (d document) manual() bool { return d.Deployment != nil && d.Deployment.Manual }

// attend carries the sync of a manual deployment out that is asked for, once.
// Besides that it only compares: what somebody changes by hand is theirs.
func (s *shift) attend(ctx context.Context, e *keep.Entry, doc document, p plan) error {
	m, began := remember(e.Record.Own), s.r.cfg.Now()
	if run := doc.Deployment.Run; run != "" && m.Run != run {
		if err := s.enforce(ctx, e, p, doc.Deployment.Prune); err != nil {
			return err
		}
		m = remember(e.Record.Own)
		m.succeeds(doc, began, s.r.cfg.Now())
		if err := s.memorize(ctx, e, m); err != nil {
			return err
		}
	}
	s.watch.follow(e.Record.ID, p.inventory)
	found, err := s.compare(ctx, e.Record, p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.differs[e.Record.ID] = found
	s.mu.Unlock()
	return nil
}

// compare tells what a sync would change: in what is wanted, and of what is there
// and is not wanted any more.
func (s *shift) compare(ctx context.Context, rec keep.Record, p plan) ([]runtime.ResourceDifference, error) {
	set := p.set
	set.Force = true // it is only looked at
	all, err := s.r.cluster.Foresee(ctx, set)
	if err != nil {
		return nil, err
	}
	var out []runtime.ResourceDifference
	for _, f := range all {
		one := differing(f.ID)
		switch {
		case f.Err != nil:
			one.Change, one.Text = runtime.ToChange, "! "+f.Err.Error()
		case f.There == nil:
			one.Change, one.Text = runtime.ToCreate, f.Difference(runtime.MaxDifference)
		default:
			one.Change, one.Text = runtime.ToChange, f.Difference(runtime.MaxDifference)
			if one.Text == "" {
				continue
			}
		}
		out = append(out, one)
	}
	for _, line := range rec.Inventory {
		id, err := manifest.Parse(line)
		if err != nil || id.Lasting() || slices.Contains(p.inventory, line) {
			continue
		}
		there, err := s.r.cluster.Look(ctx, id)
		if err != nil {
			return nil, err
		}
		if there != nil && there.GetLabels()[manifest.OwnerLabel] == manifest.Mark(rec.ID) {
			one := differing(id)
			one.Change = runtime.ToRemove
			out = append(out, one)
		}
	}
	return out, nil
}

func differing(id manifest.ID) runtime.ResourceDifference {
	return runtime.ResourceDifference{Group: id.Group, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
}

// found is what was last compared of an item.
func (s *shift) found(id string) []runtime.ResourceDifference {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.differs[id]
}

// forget drops what was compared of an item.
func (s *shift) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.differs, id)
}
