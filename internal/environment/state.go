package environment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// KindState declares what OpenTofu remembers of a resource: the id is the
// resource's, the parent its environment. What is in it is sealed.
var KindState = ledger.Kind{Name: "tfstate", Totals: [][]string{{}}}

// State is what is known of a state without a look into it.
type State struct {
	Serial  int64  `json:"serial,omitempty"`
	Lineage string `json:"lineage,omitempty"`
	Sealed  string `json:"sealed,omitempty"` // reference of the keeper's
	// Earlier ones, the newest first.
	Earlier []EarlierState `json:"earlier,omitempty"`
	Lock    *StateLock     `json:"lock,omitempty"`
	// Fence is the highest of all who ever locked it: a run that was stalled past
	// its lease comes too late.
	Fence int64 `json:"fence,omitempty"`
}

// EarlierState is kept for people who have to go back to it.
type EarlierState struct {
	Serial int64     `json:"serial"`
	Sealed string    `json:"sealed"`
	Until  time.Time `json:"until"`
}

// StateLock is who works on a state.
type StateLock struct {
	ID    string    `json:"id"` // as OpenTofu made it up
	Who   string    `json:"who,omitempty"`
	Host  string    `json:"host,omitempty"`
	Run   string    `json:"run,omitempty"` // directory that the run works in on that host, and holds on to
	Fence int64     `json:"fence,omitempty"`
	Since time.Time `json:"since"`
	// Info is what OpenTofu says of itself, and wants to be told again.
	Info json.RawMessage `json:"info,omitempty"`
}

const (
	keptStates = 5        // earlier ones
	maxState   = 64 << 20 // bytes of one
	maxInfo    = 16 << 10 // bytes of what OpenTofu says of a lock
)

// StateWrite is a state as OpenTofu sends it.
type StateWrite struct {
	Lock string // id of the lock that the writer holds
	Data []byte
}

// DecideState says what a state becomes when it is written, and whether that is
// anything new. It is pure. Faults: Invalid (it is no state), Conflict (reasons
// "locked", "lock-lost", "lineage", "older").
func DecideState(now State, w StateWrite) (State, bool, error) {
	var head struct {
		Version int64  `json:"version"`
		Serial  int64  `json:"serial"`
		Lineage string `json:"lineage"`
	}
	switch {
	case len(w.Data) > maxState:
		return now, false, fault.New(fault.Invalid, "a state has at most %d MiB", maxState>>20).Because("body")
	case json.Unmarshal(w.Data, &head) != nil || head.Version == 0 || head.Lineage == "" || head.Serial < 0:
		return now, false, fault.New(fault.Invalid, "this is not the state of an OpenTofu module").Because("body")
	case now.Lock == nil && w.Lock != "":
		return now, false, fault.New(fault.Conflict, "the lock of this run was taken away: what it writes comes too late").Because("lock-lost")
	case now.Lock != nil && now.Lock.ID != w.Lock:
		return now, false, fault.New(fault.Conflict, "another run on %s holds the state since %s", now.Lock.Host, now.Lock.Since.Format(time.RFC3339)).Because("locked")
	case now.Lineage != "" && now.Lineage != head.Lineage:
		return now, false, fault.New(fault.Conflict, "this is the state of something else: its lineage is another one").Because("lineage")
	case head.Serial < now.Serial && now.Lineage != "":
		return now, false, fault.New(fault.Conflict, "a newer state was written meanwhile: %d, and this one is %d", now.Serial, head.Serial).Because("older")
	}
	same := head.Serial == now.Serial && head.Lineage == now.Lineage
	now.Serial, now.Lineage = head.Serial, head.Lineage
	return now, !same, nil
}

// DecideLock says what a state becomes when somebody wants to lock it. It is pure.
// Faults: Conflict (reasons "locked", "fence").
func DecideLock(now State, l StateLock) (State, error) {
	switch {
	case now.Lock != nil && now.Lock.ID == l.ID:
		return now, nil // the answer was lost
	case now.Lock != nil:
		return now, fault.New(fault.Conflict, "another run on %s holds the state since %s", now.Lock.Host, now.Lock.Since.Format(time.RFC3339)).Because("locked")
	case l.Fence > 0 && l.Fence < now.Fence:
		return now, fault.New(fault.Conflict, "a later run has worked on this state: this one comes too late").Because("fence")
	}
	now.Lock, now.Fence = &l, max(now.Fence, l.Fence)
	return now, nil
}

// States keeps what OpenTofu remembers. Whoever calls has to know that they may.
type States struct {
	Store  Store
	Keeper ledger.Keeper
	Now    func() time.Time // default: time.Now
}

// States of the room's resources.
func (s *Service) States() *States {
	return &States{Store: s.Store, Keeper: s.Keeper, Now: s.Now}
}

// Read returns what is known of a state, and the state; nil: there is none.
func (s *States) Read(ctx context.Context, resource string) (State, []byte, error) {
	for range attempts {
		_, now, err := s.load(ctx, resource)
		if err != nil || now.Sealed == "" {
			return now, nil, err
		}
		data, err := s.Keeper.Unseal(ctx, now.Sealed)
		if fault.Is(err, fault.NotFound) {
			continue // somebody has written a newer one
		}
		return now, data, err
	}
	return State{}, nil, fault.New(fault.Unavailable, "the state of %.80s changes all the time", resource)
}

func (s *States) load(ctx context.Context, resource string) (ledger.Object, State, error) {
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindState.Name, ID: resource})
	if fault.Is(err, fault.NotFound) {
		o = ledger.Object{Ref: ledger.Ref{Kind: KindState.Name, ID: resource}, Spec: json.RawMessage("{}")}
		of, err := s.Store.Get(ctx, ledger.Ref{Kind: KindResource.Name, ID: resource})
		if err == nil {
			o.Org, o.Owner, o.Name, o.Parent = of.Org, of.Owner, of.Name, of.Parent
		} else if fault.Is(err, fault.NotFound) {
			err = nil
		}
		return o, State{}, err
	}
	if err != nil {
		return o, State{}, err
	}
	var now State
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &now); err != nil {
			return o, now, fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err)
		}
	}
	return o, now, nil
}

// change writes what becomes of a state, again if somebody wrote meanwhile. What
// nothing refers to any more is shredded.
func (s *States) change(ctx context.Context, resource, op string, change func(State) (State, error)) error {
	for range attempts {
		o, now, err := s.load(ctx, resource)
		if err != nil {
			return err
		}
		next, err := change(now)
		if err != nil {
			return err
		}
		if o.Status, err = json.Marshal(next); err != nil {
			return err
		}
		o.Deleted = time.Time{}
		if next.Sealed == "" && next.Lock == nil {
			o.Deleted = s.now()
		}
		set := ledger.Set{Actor: cmp.Or(access.From(ctx).Actor(), "system"), Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: op}}}
		_, err = s.Store.Commit(ctx, set)
		switch fault.Reason(err) {
		case "version", "exists":
			continue
		}
		if err != nil {
			return err
		}
		kept := refs(next)
		for ref := range refs(now) {
			if !kept[ref] {
				_ = s.Keeper.Shred(ctx, ref) // what is left of it opens nothing
			}
		}
		return nil
	}
	return fault.New(fault.Unavailable, "the state of %.80s changes all the time", resource)
}

func refs(s State) map[string]bool {
	out := map[string]bool{}
	if s.Sealed != "" {
		out[s.Sealed] = true
	}
	for _, e := range s.Earlier {
		out[e.Sealed] = true
	}
	return out
}

func (s *States) now() time.Time {
	if s.Now == nil {
		return time.Now().UTC()
	}
	return s.Now().UTC()
}

// Write keeps a state in place of an older one. Faults as of DecideState.
func (s *States) Write(ctx context.Context, resource string, w StateWrite) error {
	ref := ""
	err := s.change(ctx, resource, "write", func(now State) (State, error) {
		next, news, err := DecideState(now, w)
		if err != nil {
			return now, err
		}
		if !news {
			return now, s.same(ctx, now, w.Data)
		}
		if ref == "" {
			if ref, err = s.Keeper.Seal(ctx, w.Data); err != nil {
				return now, err
			}
		}
		if now.Sealed != "" {
			next.Earlier = append([]EarlierState{{Serial: now.Serial, Sealed: now.Sealed, Until: s.now()}}, now.Earlier...)
			next.Earlier = next.Earlier[:min(len(next.Earlier), keptStates)]
		}
		next.Sealed = ref
		return next, nil
	})
	ledger.Discard(ctx, s.Keeper, err, ref)
	return err
}

// same refuses another state that calls itself the present one.
func (s *States) same(ctx context.Context, now State, data []byte) error {
	kept, err := s.Keeper.Unseal(ctx, now.Sealed)
	if err != nil || bytes.Equal(kept, data) {
		return err
	}
	return fault.New(fault.Conflict, "another state %d was written meanwhile", now.Serial).Because("older")
}

// Lock gives a state to one run. Where another one has it, that one's lock is
// returned besides. Faults as of DecideLock.
func (s *States) Lock(ctx context.Context, resource string, l StateLock) (*StateLock, error) {
	if l.ID == "" || len(l.ID) > 256 || len(l.Info) > maxInfo {
		return nil, fault.New(fault.Invalid, "a lock has an id").Because("body")
	}
	l.Since = s.now()
	var holder *StateLock
	err := s.change(ctx, resource, "lock", func(now State) (State, error) {
		holder = now.Lock
		return DecideLock(now, l)
	})
	return holder, err
}

// Unlock gives a state back. One that is not locked, or by another one by now, is
// left as it is: Conflict (reason "lock-lost") says so.
func (s *States) Unlock(ctx context.Context, resource, lock string) error {
	return s.change(ctx, resource, "unlock", func(now State) (State, error) {
		if now.Lock == nil || now.Lock.ID != lock {
			return now, fault.New(fault.Conflict, "this lock was taken away").Because("lock-lost")
		}
		now.Lock = nil
		return now, nil
	})
}

// Forget destroys a state of which nothing is left, with all that were before it.
// Faults: Conflict (reasons "locked", "resources").
func (s *States) Forget(ctx context.Context, resource string) error {
	now, data, err := s.Read(ctx, resource)
	if err != nil || now.Sealed == "" && now.Lock == nil {
		return err
	}
	var left struct {
		Resources []struct {
			Mode string `json:"mode"`
		} `json:"resources"`
	}
	if len(data) > 0 && json.Unmarshal(data, &left) != nil {
		return fault.New(fault.Internal, "cannot read the state of %.80s", resource)
	}
	for _, r := range left.Resources {
		if r.Mode == "managed" {
			return fault.New(fault.Conflict, "the state names what is still there: destroy that first").Because("resources")
		}
	}
	seen := now.Sealed
	return s.change(ctx, resource, "forget", func(now State) (State, error) {
		if now.Lock != nil {
			return now, fault.New(fault.Conflict, "a run on %s holds the state", now.Lock.Host).Because("locked")
		}
		if now.Sealed != seen {
			return now, fault.New(fault.Conflict, "another state was written meanwhile").Because("resources")
		}
		return State{Fence: now.Fence}, nil
	})
}

// Unlock takes the lock on the state of an environment's resource away from a run
// that is gone with its machine, for those who may apply. If it is not, whatever it
// writes from then on is refused.
func (s *Service) Unlock(ctx context.Context, environment, address string) (ledger.Object, error) {
	o, err := s.Get(ctx, environment)
	if err != nil {
		return o, err
	}
	e, err := Decode(o)
	if err != nil {
		return o, err
	}
	if err := s.allowed(ctx, "apply", e.Spec.Version, o, e.Name); err != nil {
		return o, err
	}
	found, err := s.Store.List(ctx, ledger.Query{Kind: KindResource.Name, Scope: map[string]any{"parent": o.ID}, Where: ledger.Compare{Column: "name", Op: ledger.Eq, Values: []any{address}}, Limit: 2})
	if err != nil {
		return o, err
	}
	if len(found) == 0 {
		return o, fault.New(fault.NotFound, "environment %s has no resource %.80q", e.Name, address)
	}
	states := s.States()
	for _, r := range found {
		_, now, err := states.load(ctx, r.ID)
		if err != nil {
			return o, err
		}
		if now.Lock == nil {
			continue
		}
		if err := states.Unlock(ctx, r.ID, now.Lock.ID); err != nil {
			return o, err
		}
		return o, nil
	}
	return o, fault.New(fault.Conflict, "nobody holds the state of %s/%s", e.Name, address).Because("phase")
}
