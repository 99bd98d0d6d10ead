package httpapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// What was heard elsewhere is in the ledger before the feed brings it here. An
// agent that tells it in between is not asked for it once the feed has come.
func TestWhatTheFeedBringsLateIsNotAskedForAgain(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	a := w.agent("c1")
	a.sync() // it runs now
	w.away.Store(true)
	elsewhere := w.replica().agentAs(a)
	elsewhere.patient(elsewhere.message()) // and the answer is lost
	if o := w.observed(rex.ID); o == nil || o.Leaf != a.seen[rex.ID].Leaf() {
		t.Fatalf("the other replica has taken %+v", o)
	}
	a.number = elsewhere.number
	if out := a.sync(); len(out.Observed) > 0 {
		t.Errorf("it is asked for what it just told: %v", out.Observed)
	}
	w.away.Store(false)
	w.create("alice", "sue") // the feed moves
	a.seq = w.head().Seq     // and is waited for
	if out := a.sync(); len(out.Observed) > 0 {
		t.Errorf("it is asked again for what was agreed on: %v", out.Observed)
	}
}

// slowly is a store that keeps the first report about an instance waiting, on
// its way in or on its way out.
type slowly struct {
	ledger.Ledger
	began   atomic.Bool
	out     bool
	entered chan struct{}
	free    chan struct{}
}

func (s *slowly) Commit(ctx context.Context, set ledger.Set) (r ledger.Result, err error) {
	if !strings.HasPrefix(set.Actor, "agent:") || s.began.Swap(true) {
		return s.Ledger.Commit(ctx, set)
	}
	if s.out {
		r, err = s.Ledger.Commit(ctx, set)
	}
	close(s.entered)
	<-s.free
	if !s.out {
		r, err = s.Ledger.Commit(ctx, set)
	}
	return r, err
}

// An agent that has news while its last message is under way sends another one.
// They are taken in that order, however long the first one takes: the older word
// never replaces the newer one, and none of the two spoils what is agreed on.
func TestMessagesOfAnAgentAreTakenInTheirOrder(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		out    bool
		state  string // of the second message
	}{
		"other news, the first not written": {"What is older would be written last.", false, "error"},
		"other news, the first written":     {"What is older would be agreed on last.", true, "error"},
		"the same, the first not written":   {"The first would be a conflict.", false, "ready"},
		"the same, the first written":       {"The second finds it in the ledger, and the index does not have it.", true, "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 0, func(r *ranch) {
				r.register("c1")
				rex := r.place(r.create("alice", "rex").ID, "c1")
				store := &slowly{Ledger: r.ledger, out: c.out, entered: make(chan struct{}), free: make(chan struct{})}
				door := r.door(store)
				say := func(number int64, state string, tell bool) v1.Synced {
					item := v1.ObservedItem{ID: rex.ID, Generation: 1, State: state}
					q := v1.Sync{Protocol: v1.Protocol, Agent: "a", Installation: "home", Number: number, Ready: true, Capacity: 9}
					q.Observed.Add(item.ID, item.Leaf())
					if tell {
						q.Items = []v1.ObservedItem{item}
					}
					return door.say(q)
				}
				say(1, "ready", false)
				var both sync.WaitGroup
				both.Go(func() { say(2, "ready", true) })
				<-store.entered
				both.Go(func() { say(3, c.state, true) })
				synctest.Wait() // it is through, or waits for the first
				close(store.free)
				both.Wait()
				synctest.Wait() // the feed has brought everything
				if o := r.observed(rex.ID); o == nil || o.State != c.state {
					t.Errorf("%s The last word was %q, what is known is %+v", c.reason, c.state, o)
				}
				if out := say(4, c.state, false); len(out.Observed) > 0 {
					t.Errorf("%s The server asks for %v, which was agreed on", c.reason, out.Observed)
				}
			})
		})
	}
}

// An agent that is asked for a bucket tells all of it. Of what it has said before the
// ledger is not asked, and what it has not is taken; what another replica has taken in
// between, and was said differently since, is settled once the feed has brought it.
func TestWhatIsToldAgainIsNotLookedUp(t *testing.T) {
	virtual(t, 0, func(r *ranch) {
		r.register("c1")
		rex := r.place(r.create("alice", "rex").ID, "c1")
		var reads atomic.Int64
		door := r.door(counted{r.ledger, &reads})
		var number int64
		say := func(state string) v1.Synced {
			number++
			item := v1.ObservedItem{ID: rex.ID, Generation: 1, State: state}
			q := v1.Sync{Protocol: v1.Protocol, Agent: "a", Installation: "home", Number: number, Ready: true, Capacity: 9, Items: []v1.ObservedItem{item}}
			q.Observed.Add(item.ID, item.Leaf())
			out := door.say(q)
			synctest.Wait() // the feed has brought everything
			return out
		}
		for i, c := range []struct {
			state string
			looks bool
		}{{"installing", true}, {"installing", false}, {"ready", true}, {"ready", false}, {"installing", true}} {
			before := reads.Load()
			if out := say(c.state); len(out.Observed) > 0 {
				t.Errorf("message %d: %v is asked for", i, out.Observed)
			}
			if o := r.observed(rex.ID); o == nil || o.State != c.state {
				t.Errorf("message %d: it said %s, what is known is %+v", i, c.state, o)
			}
			if looked := reads.Load() > before; looked != c.looks {
				t.Errorf("message %d: the ledger was asked: %v, want %v", i, looked, c.looks)
			}
		}
		r.edit(rex.ID, func(in *instance.Instance) { in.Status.Observed = nil }) // another word, by another replica
		synctest.Wait()
		if say("installing"); r.observed(rex.ID) == nil {
			t.Error("what the ledger has lost is not taken anew")
		}
	})
}

// A message may take so long that what it says is gone is gone for everybody
// before it ends. It does not bring it back.
func TestWhatHasGoneMeanwhileDoesNotComeBack(t *testing.T) {
	virtual(t, 0, func(r *ranch) {
		r.register("c1")
		rex := r.place(r.create("alice", "rex").ID, "c1")
		r.edit(rex.ID, func(in *instance.Instance) { in.Phase, in.Spec.Deleted = instance.Deprovision, true })
		store := &slowly{Ledger: r.ledger, out: true, entered: make(chan struct{}), free: make(chan struct{})}
		say := r.door(store).say
		q := v1.Sync{Protocol: v1.Protocol, Agent: "a", Installation: "home", Number: 1, Ready: true, Capacity: 9}
		if out := say(q); len(out.Desired) != 1 {
			t.Fatalf("it is told %+v", out)
		}
		told := q
		told.Number, told.Items = 2, []v1.ObservedItem{{ID: rex.ID, Generation: 1, State: "deleted"}}
		told.Observed.Add(rex.ID, told.Items[0].Leaf())
		done := make(chan struct{})
		go func() { defer close(done); say(told) }()
		<-store.entered
		r.edit(rex.ID, func(in *instance.Instance) { in.Phase, in.Deleted = instance.Deleting, r.clock() })
		synctest.Wait() // the feed has brought it
		close(store.free)
		<-done
		q.Number = 3
		if out := say(q); len(out.Desired) > 0 {
			t.Errorf("the agent is told of %+v, which is gone", out.Desired)
		}
	})
}

// A process may end while its message is being taken, too. Its successor need
// not wait.
func TestAnAgentMayEndWhileItIsHeard(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		waits  bool  // a message before it
		more   int64 // that the cluster can hold, than it said before
		want   int
	}{
		"heard":              {"What it said before needs no reading, and is heard.", false, 0, http.StatusOK},
		"not heard":          {"What is new needs the ledger, and nobody waits for that any more.", false, 1, http.StatusOK},
		"another is waiting": {"One message was given up, the process is there.", true, 1, http.StatusConflict},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 0, func(r *ranch) {
				r.register("c1")
				door := r.door(r.ledger)
				q := v1.Sync{Protocol: v1.Protocol, Agent: "a", Installation: "home", Number: 1, Ready: true, Capacity: 9}
				door.say(q)
				synctest.Wait() // the feed has brought what was written
				if c.waits {
					q.Number, q.Wait = 2, true
					go door.say(q)
					synctest.Wait() // it is held
				}
				ctx, end := context.WithCancel(r.Context())
				end()
				q.Number, q.Wait, q.Capacity = 3, false, 9+c.more
				door.post(ctx, q)
				q.Number, q.Agent = 1, "b"
				if got := door.post(r.Context(), q); got.Code != c.want {
					t.Errorf("%s Its successor is answered %d: %s", c.reason, got.Code, got.Body)
				}
			})
		})
	}
}

// door is a server of its own that is spoken to without a network, as the agent
// of c1. Its instances are in a store.
type door struct {
	*ranch
	http.Handler
}

func (r *ranch) door(store ledger.Ledger) door {
	r.Helper()
	feed := ledger.NewFeed(r.ledger)
	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = feed.Run(ctx) }() // ends with the ranch
	end := r.stop
	r.stop = func() { stop(); end() }
	handler, err := httpapi.New(httpapi.Config{
		Ending: ctx, Ledger: r.ledger, Feed: feed, Offerings: r.offerings, Clusters: r.clusters,
		Instances:     instance.NewService(instance.Config{Store: store, Offerings: r.offerings}),
		Authenticator: &gate{}, Clock: r.clock, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		r.Fatal(err)
	}
	return door{r, handler}
}

func (d door) post(ctx context.Context, q v1.Sync) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/clusters/c1/sync", strings.NewReader(text(d, q)))
	req.Header.Set("Authorization", "Bearer agent-c1")
	w := httptest.NewRecorder()
	d.ServeHTTP(w, req)
	return w
}

// say is for messages that are answered.
func (d door) say(q v1.Sync) (out v1.Synced) {
	w := d.post(d.Context(), q)
	if w.Code != http.StatusOK {
		d.Errorf("message %d is answered %d: %s", q.Number, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		d.Error(err)
	}
	return out
}
