// Package executortest holds the contract of executors as tests: whatever makes
// the resources real, a plan touches nothing, what somebody else made is left
// alone, an error is never an absence, and secrets are shown to nobody.
//
// It owns the suite, and an executor that does nothing, for benches. It must not
// know any executor.
package executortest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// Shape of a thing's inputs.
type Shape int

// Shapes. Each is of the same thing, so that one becomes the other by a change.
const (
	Plain   Shape = iota
	Changed       // differs from Plain in what can be changed in place
	Moved         // differs from Plain in what cannot
	Later         // as Changed, but a value is executor.Unknown
	Veiled        // as Plain, but a value is executor.NewSecret(Canary)
)

// Canary is the secret that must be found nowhere.
const Canary = "canary-9f2c71d4e8"

// Config is an executor under test, with the hands of somebody who knows nothing
// of it.
type Config struct {
	Executor   executor.Executor
	Connection executor.Connection
	// Inputs of the nth thing, of which each is another one, in a shape; nil: the
	// executor has no such shape.
	Inputs func(n int, s Shape) map[string]any
	// Look shows everything that is there, by name, and nothing that changes by
	// itself.
	Look func(t testing.TB) map[string]string

	Take     func(t testing.TB, n int)        // makes the nth thing; nil: that cannot be
	Nameless bool                             // nobody can tell beforehand what a resource takes
	Edit     func(t testing.TB, n int)        // changes the nth thing, each time to something else
	Delete   func(t testing.TB, n int)        // removes the nth thing
	Beside   func(t testing.TB, n int) string // puts something beside it, named as List names it; nil: that cannot be

	Down func(t testing.TB) (up func())   // nil: nothing can be down
	Hang func(t testing.TB) (back func()) // what is behind it takes calls and does not answer; nil: nothing can hang
	// Cut lets n more requests through that change something, loses the answer to
	// the last of them, and everything after it; nil: it works with nobody.
	Cut func(t testing.TB, n int) (mend func())
	// Unwatched: it is a Watcher that has nothing to watch with here.
	Unwatched bool
	// Crowd is how many resources are made at once; default 100.
	Crowd int
	// Lives is how many lives of a resource are tried, at most 100; default none,
	// for executors that take their time.
	Lives int
	// Patience bounds what takes more than one call, and what is to be told. It is a bound
	// for failures, never a measure; default 4 min.
	Patience time.Duration
}

// Run tests an executor. Its tests use things of their own, one after the other.
func Run(t *testing.T, c Config) {
	if c.Crowd == 0 {
		c.Crowd = 100
	}
	if c.Patience == 0 {
		c.Patience = 4 * time.Minute
	}
	b := &bench{Config: c}
	for _, tc := range []struct {
		name string
		test func(*testing.T, *bench)
	}{
		{"it is described", described},
		{"a plan touches nothing", planTouchesNothing},
		{"what is made is as planned, and then nothing is to do", created},
		{"a change is shown and made", changed},
		{"what cannot be changed is replaced", replaced},
		{"what is not known stays unknown", unknown},
		{"secrets are shown to nobody", veiled},
		{"to apply twice is once", twice},
		{"a crash between the effect and its record is no matter", crashed},
		{"a crash at any request is no matter", cut},
		{"what cannot be remembered is not begun", unsaved},
		{"what is there and somebody else's is refused", foreign},
		{"a plan holds for what it has seen", moved},
		{"drift is told with what it was and is", drifted},
		{"what is gone is seen, and comes back", gone},
		{"a server that is down is no absence", down},
		{"a caller who leaves is not kept", left},
		{"only its own is destroyed, twice is fine", destroyed},
		{"whatever life it has, it ends well", walk},
		{"many at once do not meet", crowd},
		{"a change outside is told", watched},
		{"what nobody expects is named", listed},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, b) })
	}
}

type bench struct {
	Config
	mu sync.Mutex
	n  int
}

// next is the number of a thing that no test has used.
func (b *bench) next() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	return b.n
}

func (b *bench) look(t testing.TB, what string, want map[string]string) {
	t.Helper()
	if d := cmp.Diff(want, b.Look(t)); d != "" {
		t.Errorf("%s, there is something else (-want +got):\n%s", what, d)
	}
}

// thing is one resource as its caller keeps it.
type thing struct {
	*bench
	n int
	r executor.Resource
	// unsaved makes Save fail.
	unsaved error
	// saved is called when something was kept.
	saved func()
	log   record
}

// record is a log that others may read meanwhile.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

func (b *bench) thing(s Shape) *thing { return b.numbered(b.next(), s) }

func (b *bench) numbered(n int, s Shape) *thing {
	x := &thing{bench: b, n: n}
	x.r = executor.Resource{
		ID: fmt.Sprintf("res-%d-%s", n, strings.ToLower(rand.Text()[:10])), Address: fmt.Sprintf("thing[%d]", n), Environment: "suite",
		Org: "acme", Owner: "ann", Tags: []string{"tried"}, Connection: maps.Clone(b.Connection), Log: &x.log,
	}
	x.shape(s)
	return x
}

func (x *thing) shape(s Shape) *thing { x.r.Inputs = x.Inputs(x.n, s); return x }

// call is the resource as it is given to one call.
func (x *thing) call(acts bool) executor.Resource {
	r := x.r
	r.Inputs, r.Outputs = maps.Clone(r.Inputs), maps.Clone(r.Outputs)
	r.State = bytes.Clone(r.State)
	if acts {
		r.Save = func(ctx context.Context, state []byte) error {
			if x.unsaved != nil {
				return x.unsaved
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			x.r.State = bytes.Clone(state)
			if x.saved != nil {
				x.saved()
			}
			return nil
		}
	}
	return r
}

func (x *thing) plan(t testing.TB) executor.Change {
	t.Helper()
	c, err := x.Executor.Plan(t.Context(), x.call(false))
	if err != nil {
		t.Fatalf("cannot plan: %v", err)
	}
	return c
}

// try applies until it is done or fails, and records nothing.
func (x *thing) try(ctx context.Context) (executor.Result, error) {
	return x.until(ctx, x.Executor.Apply)
}

func (x *thing) until(ctx context.Context, call func(context.Context, executor.Resource) (executor.Result, error)) (executor.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, x.Patience)
	defer cancel()
	for {
		res, err := call(ctx, x.call(true))
		if err != nil || res.Done {
			return res, err
		}
		select {
		case <-ctx.Done():
			return res, fmt.Errorf("it is still not done (%s): %w", res.Message, ctx.Err())
		case <-time.After(min(max(res.After, 10*time.Millisecond), 200*time.Millisecond)):
		}
	}
}

// apply applies, and records the outcome.
func (x *thing) apply(t testing.TB) executor.Result {
	t.Helper()
	res, err := x.try(t.Context())
	if err != nil {
		t.Fatalf("cannot apply: %v", err)
	}
	x.r.Outputs, x.r.Mark = res.Outputs, ""
	if x.r.Outputs == nil {
		x.r.Outputs = map[string]any{}
	}
	return res
}

func (x *thing) observe(t testing.TB) executor.Observation {
	t.Helper()
	o, err := x.Executor.Observe(t.Context(), x.call(false))
	if err != nil {
		t.Fatalf("cannot observe: %v", err)
	}
	return o
}

// sound checks that it is there as it was applied.
func (x *thing) sound(t testing.TB, when string) {
	t.Helper()
	if o := x.observe(t); !o.Exists || len(o.Drift) > 0 {
		t.Errorf("%s: there %v, drift %+v", when, o.Exists, o.Drift)
	}
	if c := x.plan(t); c.Action != executor.None || len(c.Fields) > 0 {
		t.Errorf("%s: the plan is to %s (%s): %+v", when, c.Action, c.Why, c.Fields)
	}
}

func (x *thing) destroy(t testing.TB) {
	t.Helper()
	if _, err := x.until(t.Context(), x.Executor.Destroy); err != nil {
		t.Fatalf("cannot destroy: %v", err)
	}
}

func expect(t testing.TB, what string, err error, kind fault.Kind, reason string) {
	t.Helper()
	if !fault.Is(err, kind) || reason != "" && fault.Reason(err) != reason {
		t.Errorf("%s: got %q (%v, %q), want %v, %q", what, err, fault.Of(err), fault.Reason(err), kind, reason)
	}
}
