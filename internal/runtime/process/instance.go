package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/program"
	"github.com/droverhq/drover/internal/runtime"
)

// instance is one item of the runtime. What is wanted and what was seen are
// under mu; the process belongs to the supervisor alone.
type instance struct {
	r      *Runtime
	id     string
	wake   chan struct{}
	target atomic.Int32 // the port that the route leads to, 0 while not ready

	mu       sync.Mutex
	item     item
	known    bool  // the item is on disk
	removing bool  // the directory is going: nothing can change that any more
	dropped  bool  // forgotten; whoever holds this must look again
	rev      int64 // counts the changes of item
	host     string
	seen     runtime.Observed

	nonce     string         // of the item; it never changes while there is a supervisor
	proc      *running       // nil: none
	doubt     *program.Proof // a process that may be ours and cannot prove it
	leftovers bool           // processes of an earlier run may be about
	run       int64          // of the newest start
	failures  int            // ends in a row, soon after a start
}

func newInstance(r *Runtime, id string) *instance {
	return &instance{r: r, id: id, wake: make(chan struct{}, 1)}
}

func (in *instance) home() string    { return in.r.home(in.id) }
func (in *instance) logPath() string { return filepath.Join(in.home(), "output.log") }

// normal returns the body in the form that survives being written and read:
// two equal bodies have equal bytes.
func normal(it runtime.Item) (json.RawMessage, error) {
	if it.Delete {
		return nil, nil
	}
	var compact, escaped bytes.Buffer
	if err := json.Compact(&compact, it.Body); err != nil {
		return nil, fault.New(fault.Invalid, "the desired document of %s is not JSON", it.ID)
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	return escaped.Bytes(), nil
}

// restore takes over from the agent that ran before.
func (in *instance) restore(it item, all []program.Found) {
	in.item, in.known, in.nonce = it, true, it.Nonce
	in.seen = it.seen(runtime.Installing, "")
	if it.buried {
		in.seen.State = runtime.Deleted
		return
	}
	var c child
	_ = readJSON(filepath.Join(in.home(), "process.json"), &c) // without it, the nonce finds the process
	in.run = c.Run
	in.adopt(c, all)
	doc, err := it.document()
	in.setHost(doc.host())
	switch {
	case it.Delete || err != nil || it.Rejected:
	case it.Kind == step:
		in.seen.State = runtime.Ready
	case doc.Spec.Suspended && in.proc == nil:
		in.seen.State = runtime.Suspended
	case in.proc != nil && in.proc.Ready && in.proc.Digest == doc.Spec.Process.digest() && !doc.Spec.Suspended:
		// It was ready and still runs: the next probe says if that is no longer so.
		in.ready(doc, in.proc.Port)
	}
}

// adopt finds the process of the last start among those that carry our nonce.
func (in *instance) adopt(c child, all []program.Found) {
	p := program.Proof{PID: c.PID, Birth: c.Birth, Nonce: in.nonce, Log: in.logPath()}
	if c.PID == 0 {
		for _, f := range all {
			if f.Leader && f.Run == strconv.FormatInt(c.Run, 10) {
				p.PID, p.Birth = f.PID, f.Birth
			}
		}
		c.PID, c.Birth = p.PID, p.Birth
	}
	switch p.Verdict() {
	case program.Match:
		in.proc = &running{child: c, proof: p}
		in.r.ports[c.Port] = true
	case program.Unproven:
		in.doubt = &p
	}
	for _, f := range all {
		in.leftovers = in.leftovers || f.PID != p.PID
		if n, err := strconv.ParseInt(f.Run, 10, 64); err == nil && n > in.run {
			in.run = n // process.json was lost; a run number is never used twice
		}
	}
}

// apply takes an item; again says that the instance was forgotten meanwhile.
func (in *instance) apply(it runtime.Item) (again bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	old := in.item
	switch {
	case in.dropped:
		return true, nil
	case in.known && (it.Epoch < old.Epoch || it.Epoch == old.Epoch && it.Token < old.Token):
		return false, fault.New(fault.Conflict, "an item with a newer token than %d of epoch %d is applied already", it.Token, it.Epoch).Because("fenced")
	case in.known && it.Epoch == old.Epoch && it.Token == old.Token && it.Generation == old.Generation && it.Kind == old.Kind &&
		it.Proof == old.Proof && it.Delete == old.Delete && (it.Delete || bytes.Equal(it.Body, old.Body)) && !old.Rejected:
		return false, nil
	case in.removing:
		return false, fault.New(fault.Unavailable, "%s is being removed", in.id)
	}
	next := item{ID: in.id, Kind: it.Kind, Epoch: it.Epoch, Generation: it.Generation, Token: it.Token, Nonce: old.Nonce,
		Delete: it.Delete, Body: it.Body, Proof: it.Proof, Cause: it.Cause, Org: it.Org}
	if it.Delete {
		next.Body = old.Body
	}
	fresh := !in.known || old.buried
	if it.Delete && fresh {
		return false, in.bury(next)
	}
	if fresh {
		next.Nonce = newNonce()
	}
	if !it.Delete && it.Kind != step {
		next.Rejected = !in.r.place(in.id)
	}
	if err := in.write(next, fresh); err != nil {
		if fresh {
			in.r.vacate(in.id)
			in.abandon()
		}
		return false, fmt.Errorf("cannot keep %s: %w", in.id, err)
	}
	in.r.cfg.step("item")
	in.take(old, next)
	if fresh {
		in.nonce = next.Nonce // no supervisor reads it yet
		in.r.mu.Lock()
		defer in.r.mu.Unlock()
		if !in.r.closed {
			in.r.supervise(in)
		}
	}
	return false, nil
}

// about is the context of what is logged of the instance.
func (in *instance) about() context.Context {
	it, _ := in.wanted()
	return runtime.About(context.Background(), it.Cause, it.Org)
}

// abandon leaves no trace of an instance that never came to be.
func (in *instance) abandon() {
	if !in.known {
		in.dropped = true
		in.r.drop(in.id)
	}
}

// bury writes a removal of something that is not here: it is removed.
func (in *instance) bury(next item) error {
	if err := writeJSON(in.r.tombstone(in.id), next, true); err != nil {
		in.abandon()
		return fmt.Errorf("cannot keep the removal of %s: %w", in.id, err)
	}
	next.buried = true
	in.item, in.known = next, true
	in.seen = next.seen(runtime.Deleted, "")
	in.r.notify()
	return nil
}

func (in *instance) write(next item, fresh bool) error {
	if fresh {
		if err := os.MkdirAll(filepath.Join(in.home(), "data"), 0o700); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(in.home(), "item.json"), next, true)
}

// take makes the item current. An item that changes nothing of the process
// keeps the state; everything else is not so yet.
func (in *instance) take(old, next item) {
	in.item, in.known = next, true
	in.rev++
	was, wasErr := old.document()
	doc, err := next.document()
	same := old.Kind == next.Kind && wasErr == nil && err == nil && !old.Delete && !next.Delete && !old.Rejected && !next.Rejected &&
		was.Spec.Suspended == doc.Spec.Suspended && was.Spec.Process.digest() == doc.Spec.Process.digest()
	in.setHost(doc.host())
	seen := next.seen(runtime.Installing, "")
	if same {
		seen = in.seen
		seen.Generation = next.Generation
	}
	in.seen = seen
	if same && seen.State == runtime.Ready {
		in.ready(doc, int(in.target.Load()))
	}
	select {
	case in.wake <- struct{}{}:
	default:
	}
	in.r.notify()
}

// ready shows the instance as answering on the port.
func (in *instance) ready(doc document, port int) {
	in.target.Store(int32(port))
	in.seen.State, in.seen.Message = runtime.Ready, ""
	in.seen.Versions = doc.Spec.Versions
	in.seen.Routes = nil
	if in.host != "" {
		in.seen.Routes = map[string]string{in.host: loopback(port)}
	}
}

// show publishes a state, unless the item has changed since rev.
func (in *instance) show(rev int64, state runtime.State, message string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if rev != in.rev || in.seen.State == state && in.seen.Message == message {
		return
	}
	in.seen = in.item.seen(state, message)
	in.r.notify()
}

func (in *instance) showReady(rev int64, doc document, port int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.target.Store(int32(port))
	if rev != in.rev || in.seen.State == runtime.Ready && maps.Equal(in.seen.Versions, doc.Spec.Versions) {
		return
	}
	in.ready(doc, port)
	in.r.notify()
}

func (in *instance) observe() (runtime.Observed, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.seen, in.known && !in.dropped
}

func (in *instance) wanted() (item, int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.item, in.rev
}

// pause waits for a change of the item or for the channel.
func (in *instance) pause(ctx context.Context, until <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-in.wake:
	case <-until:
	}
}

func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
