package keep

import (
	"bytes"
	"context"
	"crypto/sha256"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
)

// Shift is the time during which this replica is at work. What it knows of
// items ends with it, since the next one may be another's.
type Shift struct {
	d       *Desk
	term    int64
	queue   line
	worker  Worker
	done    sync.WaitGroup
	stop    context.CancelFunc
	damaged int // records that could not be read

	mu    sync.Mutex
	items map[string]*Entry
	marks map[string]string // owner labels to ids
}

// Entry is one item. Whoever changes the record or the cluster holds busy: a
// Worker has it while it reconciles.
type Entry struct {
	Record  Record
	Applied bool // by this shift, and nothing of it was touched since

	busy    sync.Mutex
	was     kept
	saved   time.Time
	tried   [][sha256.Size]byte // what was written down last, and what was to be since
	told    bool                // to this shift: nobody vouches for what lay in a Secret
	message string              // of the last failure, told once to the log

	// Guarded by the shift's mu.
	seen    runtime.Observed
	listed  []string // what its inventory has, or is about to have
	touched bool     // something of it was changed in the cluster
	tenant  string   // of the last body
}

func (s *Shift) apply(ctx context.Context, it runtime.Item) error {
	e, fresh := s.entry(it.ID)
	e.busy.Lock()
	defer e.busy.Unlock()
	if !s.holds(it.ID, e) {
		return fault.New(fault.Unavailable, "the item was being forgotten; it is applied when it is told again").Because("forgotten")
	}
	if e.Record.ID != "" {
		same, err := e.Record.fence(it)
		if err != nil {
			return err
		}
		if same && e.Record.Seen.State != runtime.Rejected {
			if !e.told {
				e.told = true
				s.Wake(it.ID)
			}
			return nil
		}
	}
	next := e.Record
	if _, recalls := s.worker.(Recaller); next.ID == "" && it.Delete && !recalls {
		next.Gone, next.Seen = true, runtime.Observed{ID: it.ID, Kind: it.Kind, Generation: it.Generation, State: runtime.Deleted}
		next.Delete, next.Generation = true, it.Generation
	}
	next.take(it)
	if p, ok := s.worker.(Preparer); ok && !it.Delete {
		p.Prepare(&next)
	}
	if err := s.Save(ctx, e, next); err != nil {
		if fresh {
			s.forget(it.ID, e)
		}
		return err
	}
	e.Applied, e.told = false, true
	s.Show(e, next.Seen)
	s.Wake(it.ID)
	return nil
}

// entry of an id, made if there is none.
func (s *Shift) entry(id string) (e *Entry, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e = s.items[id]; e == nil {
		e, fresh = &Entry{}, true
		s.items[id], s.marks[manifest.Mark(id)] = e, id
	}
	return e, fresh
}

// holds reports whether the entry is still the id's: it may have been forgotten
// while somebody waited for it.
func (s *Shift) holds(id string, e *Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[id] == e
}

func (s *Shift) forget(id string, e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[id] == e {
		delete(s.items, id)
		delete(s.marks, manifest.Mark(id))
	}
}

// Marked returns the item whose objects have the owner's label.
func (s *Shift) Marked(label string) (id string, ours bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ours = s.marks[label]
	return id, ours
}

// Listed returns the inventories of all items, by id.
func (s *Shift) Listed() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string][]string, len(s.items))
	for id, e := range s.items {
		out[id] = e.listed
	}
	return out
}

// Kept returns the records of all items as they were when the shift began, for
// its Begin alone, and how many there are besides that cannot be read.
func (s *Shift) Kept() (all []Record, damaged int) {
	for _, e := range s.items {
		all = append(all, e.Record)
	}
	return all, s.damaged
}

// Save writes the record down; the entry has it afterwards.
func (s *Shift) Save(ctx context.Context, e *Entry, next Record) error {
	next.Term = s.term
	parts, err := pack(next)
	if err != nil {
		return err
	}
	name := s.d.name(next.ID)
	s.mu.Lock()
	e.listed = manifest.Union(e.listed, next.Inventory)
	s.mu.Unlock()
	if one := sum(parts); !slices.Contains(e.tried, one) {
		e.tried = append(e.tried[max(0, len(e.tried)-7):], one)
	}
	was, err := s.d.keep.put(ctx, s.d.cfg.Kind, name, parts, e.was)
	if fault.Reason(err) == "written-meanwhile" {
		// A newer replica has, or a write of ours arrived whose answer did not.
		if err := s.reread(ctx, e, name, next); err != nil {
			return err
		}
		was, err = s.d.keep.put(ctx, s.d.cfg.Kind, name, parts, e.was)
	}
	if err != nil {
		return err
	}
	was.parts = nil // the record has it
	e.was, e.Record, e.saved, e.tried = was, next, s.d.cfg.Now(), [][sha256.Size]byte{sum(parts)}
	s.mu.Lock()
	e.listed = next.Inventory
	if !next.Delete {
		e.tenant = runtime.Tenant(next.Kind, next.Body)
	}
	s.mu.Unlock()
	return nil
}

// reread finds out what the Secret holds by now.
func (s *Shift) reread(ctx context.Context, e *Entry, name string, next Record) error {
	now, there, err := s.d.keep.get(ctx, name)
	if err != nil {
		return err
	}
	if e.was = now; !there {
		return nil
	}
	if kept, err := unpack(now.parts); err == nil {
		if kept.Term > s.term {
			return fault.New(fault.Conflict, "a newer replica of the agent is at work on this cluster").Because("fenced")
		}
		if _, err := kept.fence(runtime.Item{Epoch: next.Epoch, Token: next.Token}); err != nil {
			return err
		}
	}
	return nil
}

// Show tells what is seen of an item from now on.
func (s *Shift) Show(e *Entry, seen runtime.Observed) {
	s.mu.Lock()
	e.seen = seen
	s.mu.Unlock()
	s.d.Notify()
}

// Complain tells the log about a failure, once until it changes.
func (s *Shift) Complain(e *Entry, err error) {
	if text := err.Error(); e.message != text {
		e.message = text
		s.d.cfg.Logger.WarnContext(e.Record.About(context.Background()), "cannot apply an item", "item", e.Record.ID, "reason", fault.Reason(err), "error", text)
	}
}

// Content forgets what was complained about.
func (s *Shift) Content(e *Entry) { e.message = "" }

// Settle shows what was seen, and writes down what a restart should tell.
func (s *Shift) Settle(ctx context.Context, e *Entry, seen runtime.Observed) error {
	kept := e.Record.Seen
	if reflect.DeepEqual(kept, seen) {
		s.mu.Lock()
		same := reflect.DeepEqual(e.seen, seen)
		s.mu.Unlock()
		if !same {
			s.Show(e, seen)
		}
		return nil
	}
	next := e.Record
	next.Seen = seen
	next.Settled = next.Settled || seen.State == runtime.Ready
	worth := kept.State != seen.State || kept.Generation != seen.Generation || !reflect.DeepEqual(kept.Versions, seen.Versions) || !reflect.DeepEqual(kept.Routes, seen.Routes)
	if worth {
		if err := s.Save(ctx, e, next); err != nil {
			return err
		}
	}
	e.Record = next
	s.Show(e, seen)
	return nil
}

// Failed is what users read about an item that could not be applied. What runs
// is not called broken because the cluster does not answer.
func Failed(r Record, err error) runtime.Observed {
	seen := r.Seen
	was := seen.Generation == r.Generation && (seen.State == runtime.Ready || seen.State == runtime.Suspended)
	kind := fault.Of(err)
	if fault.Reason(err) == "changed-meanwhile" {
		kind = fault.Unavailable // it is a matter of trying again
	}
	switch kind {
	case fault.Unavailable:
		if was {
			return seen
		}
		seen.State, seen.Message = runtime.Installing, err.Error()
	case fault.Exhausted:
		seen.State, seen.Message = runtime.Rejected, err.Error()
		if r.Settled {
			// It runs here already: nobody should move it for want of room to change it.
			seen.State = runtime.Error
		}
	case fault.Internal:
		seen.State, seen.Message = runtime.Error, "the data plane cannot apply it; its operator finds the reason in the agent's log"
	default:
		seen.State, seen.Message = runtime.Error, err.Error()
	}
	return seen
}

// Fence makes sure that the item's Secret is still as this replica wrote it.
// Another replica writes there before it touches any object of the item. What we
// ourselves wrote within a third of a lease needs no second look: nothing is written
// without the lease in any case, and others wait until it has run out.
func (s *Shift) Fence(e *Entry) func(context.Context) error {
	version, id, saved, tried := e.was.version, e.Record.ID, e.saved, e.tried
	return func(ctx context.Context) error {
		if since := s.d.cfg.Now().Sub(saved); since >= 0 && since < s.d.cfg.LeaseTime/3 {
			return nil
		}
		now, _, err := s.d.keep.look(ctx, s.d.name(id))
		if err != nil || now == version {
			return err
		}
		ours, err := s.arrived(ctx, s.d.name(id), tried)
		if err == nil && !ours {
			return fault.New(fault.Conflict, "another replica of the agent is at work on %s", id).Because("fenced")
		}
		return err
	}
}

// arrived reports whether a Secret holds what this replica wrote or has tried to write:
// somebody has labelled it, or it arrived and its answer did not. Another replica would
// have written something else.
func (s *Shift) arrived(ctx context.Context, name string, tried [][sha256.Size]byte) (bool, error) {
	if len(tried) == 0 {
		return false, nil
	}
	now, there, err := s.d.keep.get(ctx, name)
	return err == nil && there && slices.Contains(tried, sum(now.parts)), err
}

func sum(parts [][]byte) [sha256.Size]byte { return sha256.Sum256(bytes.Join(parts, []byte{0})) }
