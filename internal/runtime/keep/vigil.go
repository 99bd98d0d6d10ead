package keep

import (
	"cmp"
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
)

const (
	vigilEach = 30 * time.Second // how often Secrets are looked at
	vigilPage = 500              // Secrets of one answer
)

// Healer is a Worker that notes in a record what somebody did to what is kept of the
// item.
type Healer interface {
	Healed(next *Record, what string)
}

// vigil finds Secrets that somebody has changed or removed: without one an agent that
// starts anew would know nothing of its item. Their metadata are read, page by page,
// however large they are. It is one goroutine, which ends with ctx.
func (s *Shift) vigil(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(s.d.cfg.Vigil, vigilEach))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.compare(ctx); err != nil && ctx.Err() == nil {
			s.d.cfg.Logger.Debug("what is kept of items could not be compared; nothing was changed", "error", err)
		}
	}
}

// compare puts right what is not kept as it was written.
func (s *Shift) compare(ctx context.Context) error {
	versions, err := s.d.keep.versions(ctx, s.d.cfg.Kind)
	if err != nil {
		return err
	}
	parts, err := s.d.keep.versions(ctx, "part")
	if err != nil {
		return err
	}
	s.mu.Lock()
	all := make(map[string]*Entry, len(s.items))
	for id, e := range s.items {
		all[id] = e
	}
	s.mu.Unlock()
	for id, e := range all {
		if err := s.restore(ctx, id, e, versions[s.d.name(id)], parts); err != nil {
			s.d.cfg.Logger.Warn("what is kept of an item is not as it was written, and cannot be written again", "item", id, "reason", fault.Reason(err), "error", err)
		}
	}
	return ctx.Err()
}

// restore writes the record of an item again, if its Secrets are not the ones that
// were written last. Listed is the version that a list had of the first of them.
func (s *Shift) restore(ctx context.Context, id string, e *Entry, listed string, parts map[string]string) error {
	e.busy.Lock()
	defer e.busy.Unlock()
	if !s.holds(id, e) || e.Record.ID == "" {
		return nil
	}
	lost, err := s.d.keep.lost(ctx, &e.was, parts)
	if err != nil || e.was.version == listed && !lost {
		return err
	}
	name := s.d.name(id)
	now, labels, err := s.d.keep.look(ctx, name)
	if err != nil {
		return err
	}
	if now != "" && labels[keepLabel] == s.d.cfg.Kind && !lost {
		if now == e.was.version { // it was written since the list was made
			return nil
		}
		ours, err := s.arrived(ctx, name, e.tried)
		if ours {
			e.was.version = now
		}
		if err != nil || ours {
			return err
		}
	}
	what := "changed"
	if now == "" {
		what = "deleted"
	}
	next := e.Record
	if h, ok := s.worker.(Healer); ok {
		h.Healed(&next, "what the agent keeps of it was "+what)
	}
	if err := s.Save(ctx, e, next); err != nil {
		return err
	}
	s.d.cfg.Logger.Warn("put right what was not done by us", "kind", "Secret", "name", name, "what", what, "item", id)
	s.Touch(id)
	return nil
}

// lost reports whether a part is not there, or is another; listed are the versions of
// a moment ago. Each version is read once.
func (k keeper) lost(ctx context.Context, was *kept, listed map[string]string) (bool, error) {
	for _, name := range was.names {
		if listed[name] != "" && listed[name] == was.sound[name] {
			continue
		}
		call, stop := context.WithTimeout(ctx, CallTimeout)
		part, err := k.part(call, name)
		stop()
		if err != nil {
			return false, k.explain(err, name)
		}
		if !soundPart(part) {
			return true, nil
		}
		if was.sound == nil {
			was.sound = map[string]string{}
		}
		was.sound[name] = part.ResourceVersion
	}
	return false, nil
}

// versions of all heads of a kind, without their content.
func (k keeper) versions(ctx context.Context, kind string) (map[string]string, error) {
	out, next := map[string]string{}, ""
	for {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "SecretList"})
		call, stop := context.WithTimeout(ctx, CallTimeout)
		err := k.kube.List(call, page, client.InNamespace(k.namespace), client.MatchingLabels{keepLabel: kind}, client.Limit(vigilPage), client.Continue(next))
		stop()
		if err != nil {
			return nil, k.explain(err, "")
		}
		for i := range page.Items {
			out[page.Items[i].Name] = page.Items[i].ResourceVersion
		}
		if next = page.Continue; next == "" {
			return out, nil
		}
	}
}
