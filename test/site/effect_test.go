//go:build e2e

package site

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// deed is what an agent does.
type deed int

const (
	applies deed = iota // an item of some epoch, to its data plane
	says                // which epoch it has followed, in a message
	hears               // an answer of some epoch
)

// effect is a deed of one agent. Its history has them in the order in which they began.
type effect struct {
	did    deed
	epoch  int64 // applies: that wanted the item
	at     time.Time
	id     string // applies: the instance; empty: another kind of item
	number int64  // says: of the message; later ones may be sent first
	frozen bool   // says: that it applies nothing
}

// plane is a data plane, and the way to the control plane, that write down what is done.
type plane struct {
	*simulated.Runtime
	agent.Client
	mu      sync.Mutex
	effects []effect
}

func (p *plane) note(e effect) {
	e.at = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.effects = append(p.effects, e)
}

// Apply implements runtime.Runtime.
func (p *plane) Apply(ctx context.Context, it runtime.Item) error {
	done := effect{did: applies, epoch: it.Epoch}
	if it.Kind == "" {
		done.id = it.ID
	}
	p.note(done)
	return p.Runtime.Apply(ctx, it)
}

// Sync implements agent.Client.
func (p *plane) Sync(ctx context.Context, cluster string, m v1.Sync) (v1.Synced, error) {
	p.note(effect{did: says, epoch: m.Epoch, number: m.Number, frozen: !m.Ready})
	out, err := p.Client.Sync(ctx, cluster, m)
	if err == nil {
		p.note(effect{did: hears, epoch: out.Epoch})
	}
	return out, err
}

func (p *plane) history() []effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.effects[:len(p.effects):len(p.effects)]
}

// applied is what was done to instances.
func (p *plane) applied() []effect {
	return slices.DeleteFunc(slices.Clone(p.history()), func(e effect) bool { return e.did != applies || e.id == "" })
}

// tend runs the agent of a cluster in this process, until the test ends.
func tend(t *testing.T, server, cluster, token string) *plane {
	t.Helper()
	store := agent.Dir(t.TempDir())
	tokens, err := agent.NewTokens(store, token)
	if err != nil {
		t.Fatal(err)
	}
	sites, err := agent.NewSites(store, server, func(server string) (agent.Client, error) {
		return client.New(client.Config{Server: server, Bearer: tokens.Bearer, HTTPClient: client.HTTPClient(client.Transport())})
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{Runtime: simulated.New(simulated.Config{}), Client: sites}
	a, err := agent.New(agent.Config{Client: p, Cluster: cluster, Runtime: p, Store: store, Tokens: tokens, Heartbeat: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		_ = a.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

// undue finds what one agent should not have done: to one instance twice, or by the orders
// of two epochs; in an epoch when it had applied, or said that it follows, a later one, or
// that it had heard nothing of; or anything while it was told by a lower epoch and said that
// it applies nothing. What it was told in the first epoch it may do at its leisure until it
// follows the second, whenever that has begun elsewhere; what it had just begun then is seen
// a moment later.
func undue(history []effect) error {
	first := map[string]effect{}
	said := map[int64]int64{} // epochs by the numbers of messages
	var applied, followed, heard int64
	var since time.Time // it has applied or followed what it has
	var lower, frozen bool
	for _, e := range history {
		switch e.did {
		case hears:
			heard = max(heard, e.epoch)
			if lower = e.epoch < followed; !lower {
				frozen = false
			}
		case says:
			for number, epoch := range said {
				if number < e.number && epoch > e.epoch || number > e.number && epoch < e.epoch {
					return fmt.Errorf("message %d is of an agent that has followed epoch %d, message %d of one that has followed %d", number, epoch, e.number, e.epoch)
				}
			}
			if said[e.number] = e.epoch; e.epoch > max(applied, followed) {
				since = e.at
			}
			followed = max(followed, e.epoch)
			frozen = lower && e.frozen
		case applies:
			switch old, twice := first[e.id]; {
			case e.id != "" && twice:
				return fmt.Errorf("%s was applied in epoch %d, and again in epoch %d, %s later", e.id, old.epoch, e.epoch, e.at.Sub(old.at))
			case e.epoch < max(applied, followed) && e.at.Sub(since) < moment:
			case e.epoch < applied:
				return fmt.Errorf("%q was applied in epoch %d after something of %d was", e.id, e.epoch, applied)
			case e.epoch < followed:
				return fmt.Errorf("%q was applied in epoch %d after the agent had followed %d", e.id, e.epoch, followed)
			case e.epoch > heard:
				return fmt.Errorf("%q was applied in epoch %d by an agent that had heard of %d at most", e.id, e.epoch, heard)
			case frozen:
				return fmt.Errorf("%q was applied in epoch %d by an agent that was told by a lower one, and said that it applies nothing", e.id, e.epoch)
			}
			if first[e.id] = e; e.epoch > max(applied, followed) {
				since = e.at
			}
			applied = max(applied, e.epoch)
		}
	}
	return nil
}

// moment is how long a worker may take from its last look to what it does.
const moment = time.Second

func TestCheckerFindsEffects(t *testing.T) {
	apply := func(id string, epoch int64) effect { return effect{did: applies, id: id, epoch: epoch} }
	say := func(number, epoch int64) effect { return effect{did: says, number: number, epoch: epoch} }
	freeze := func(number, epoch int64) effect {
		return effect{did: says, number: number, epoch: epoch, frozen: true}
	}
	hear := func(epoch int64) effect { return effect{did: hears, epoch: epoch} }
	atOnce := func(e effect) effect { e.at = time.Unix(1, 0); return e } // with the one before
	begun := []effect{freeze(1, 0), hear(1), say(2, 1), apply("x", 1)}
	followed := append(slices.Clip(begun), hear(2), say(3, 2))
	for _, tc := range []struct {
		reason  string
		history []effect
		ok      bool
	}{
		{"nothing", nil, true},
		{"one after the other", append(slices.Clip(followed), apply("y", 2), apply("", 2), apply("", 2)), true},
		{"the first epoch's, while the agent knows of no other", append(slices.Clip(begun), apply("y", 1), hear(2), apply("z", 2)), true},
		{"what was begun when the answer came", append(slices.Clip(begun), hear(2), apply("y", 1), say(3, 2), apply("z", 2)), true},
		{"what was begun a moment before the second was followed", append(slices.Clip(followed), atOnce(apply("y", 1)), apply("z", 2)), true},
		{"likewise, and something of the second was quicker", append(slices.Clip(begun), hear(2), apply("y", 2), atOnce(apply("z", 1))), true},
		{"a message that was overtaken", append(slices.Clip(begun), hear(2), say(4, 2), say(3, 1), apply("y", 2)), true},
		{"frozen, and thawed by the epoch that it follows", append(slices.Clip(followed), hear(1), freeze(4, 2), hear(2), apply("y", 2)), true},
		{"frozen, and thawed by a later one", append(slices.Clip(followed), hear(1), freeze(4, 2), hear(3), apply("y", 3)), true},

		{"one of them twice", append(slices.Clip(begun), apply("x", 1)), false},
		{"one in both epochs", append(slices.Clip(followed), apply("x", 2)), false},
		{"the first epoch's after something of the second", append(slices.Clip(begun), hear(2), apply("y", 2), apply("z", 1)), false},
		{"likewise, of another kind", append(slices.Clip(begun), hear(2), apply("", 2), apply("", 1)), false},
		{"the first epoch's after the second was followed, and nothing of it applied", append(slices.Clip(followed), apply("y", 1)), false},
		{"the first epoch is followed again", append(slices.Clip(followed), hear(1), say(4, 1)), false},
		{"likewise, by a message that was overtaken", append(slices.Clip(begun), hear(2), say(4, 1), say(3, 2)), false},
		{"the first epoch's, told by the old site", append(slices.Clip(followed), hear(1), apply("y", 1)), false},
		{"an epoch that nobody told of", append(slices.Clip(begun), apply("y", 2)), false},
		{"frozen, and it goes on", append(slices.Clip(followed), hear(1), freeze(4, 2), apply("y", 2)), false},
		{"frozen, and not thawed by the lower epoch", append(slices.Clip(followed), hear(1), freeze(4, 2), hear(1), freeze(5, 2), apply("y", 2)), false},
	} {
		for i, now := 0, time.Now(); i < len(tc.history); i++ {
			if tc.history[i].at.IsZero() {
				now = now.Add(time.Minute)
			}
			tc.history[i].at = now
		}
		if err := undue(tc.history); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
}

// logs are what the ledgers of both sites hold of two epochs.
type logs struct {
	after int64     // the last change of the first epoch that the new site has
	begun time.Time // when the first change of the second was written
	ended time.Time // when the old site has written for the last time
}

func readLogs(t *testing.T, w *world) (out logs) {
	t.Helper()
	ask := func(at, question string, args ...any) (n int64) {
		t.Helper()
		db, err := pgx.Connect(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close(context.Background())
		if err := db.QueryRow(t.Context(), question, args...).Scan(&n); err != nil {
			t.Fatalf("%s: %v", question, err)
		}
		return n
	}
	old, fresh := w.first.URL(w.name), w.second.URL(w.name)
	out.after = ask(fresh, "SELECT after_seq FROM epochs WHERE epoch = 2")
	out.begun = time.UnixMicro(ask(fresh, "SELECT min(at) FROM log WHERE seq > $1", out.after))
	out.ended = time.UnixMicro(ask(old, "SELECT max(at) FROM log"))
	if n := ask(old, "SELECT epoch FROM head"); n != 1 {
		t.Errorf("the old site's ledger is in epoch %d", n)
	}
	return out
}

// born are the first changes of dinosaurs that a site has in its log, by name.
func born(t *testing.T, c *client.Client) map[string]v1.Change {
	t.Helper()
	out := map[string]v1.Change{}
	for after := int64(0); ; {
		page, err := c.Changes(t.Context(), client.ChangeOptions{After: after, Resource: "dinosaurs", Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range page.Items {
			if _, ok := out[change.Object.Name]; !ok {
				out[change.Object.Name] = change
			}
		}
		if len(page.Items) == 0 || page.Next <= after {
			return out
		}
		after = page.Next
	}
}
