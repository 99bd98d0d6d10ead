package cluster_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/sqlledger"
)

// waker tells whom commits wake.
type waker struct {
	*sqlledger.Ledger
	woken chan []ledger.Wake
}

func (w waker) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	r, err := w.Ledger.Commit(ctx, set)
	if err == nil && len(set.Puts) == 0 && len(set.Wakes) > 0 {
		w.woken <- set.Wakes
	}
	return r, err
}

// listening is a service that follows the log, and who is woken by it.
func listening(t *testing.T) (*cluster.Service, *sqlledger.Ledger, <-chan []ledger.Wake) {
	t.Helper()
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: t.TempDir() + "/l.db", Key: make([]byte, 32), Kinds: []ledger.Kind{cluster.Kind, cluster.KindProfile, operation.Kind, offering.Kind},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := waker{l, make(chan []ledger.Wake, 100)}
	s := cluster.NewService(w)
	clock := time.Now()
	var mu sync.Mutex
	s.SetClock(func() time.Time { // every look is a minute after the one before
		mu.Lock()
		defer mu.Unlock()
		clock = clock.Add(time.Minute)
		return clock
	})
	ctx, stop := context.WithCancel(context.Background())
	feed := ledger.NewFeed(l)
	begun := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { _ = feed.Run(ctx) })
	running.Go(func() { close(begun); _ = s.Follow(ctx, feed) })
	<-begun
	t.Cleanup(func() {
		stop()
		running.Wait()
		l.Close()
	})
	return s, l, w.woken
}

// hears returns whom a change wakes, made again until the follower listens.
func hears(t *testing.T, woken <-chan []ledger.Wake, change func()) []string {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		change()
		select {
		case wakes := <-woken:
			var out []string
			for _, w := range wakes {
				out = append(out, w.Ref.String())
			}
			slices.Sort(out)
			return out
		case <-time.After(200 * time.Millisecond):
		case <-late:
			t.Fatal("nobody is woken")
		}
	}
}

func put(t *testing.T, l *sqlledger.Ledger, o ledger.Object) {
	t.Helper()
	before, err := l.Get(t.Context(), o.Ref)
	if err == nil {
		o.Version = before.Version
	}
	if _, err := l.Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "test"}}}); err != nil {
		t.Fatal(err)
	}
}

func TestClustersHearOfNewOfferings(t *testing.T) {
	s, l, woken := listening(t)
	for id, spec := range map[string]cluster.Spec{"any": local, "kafka": {Provider: "local", Region: "local", Offering: "kafka"}} {
		if _, err := s.Register(byOps(), id, spec); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	got := hears(t, woken, func() {
		n++
		body, _ := json.Marshal(map[string]any{"steps": []any{n}})
		put(t, l, ledger.Object{Ref: ledger.Ref{Kind: "offering", ID: "dinosaur"}, Name: "dinosaur", Spec: body})
	})
	if !slices.Equal(got, []string{"cluster/any"}) {
		t.Errorf("woken are %v", got)
	}
}

func TestScalingHearsOfTheFleet(t *testing.T) {
	s, l, woken := listening(t)
	// Anything may stand for an instance here.
	s.Left = func(c ledger.Change) string {
		if c.Object.Kind == "offering" {
			return "edge"
		}
		return ""
	}
	for id, region := range map[string]string{"here": "east", "there": "west"} {
		p := scaled
		p.Serves = []cluster.Serves{{Provider: "aws", Regions: []string{region}}}
		if id == "there" {
			p.Serves = append(p.Serves, cluster.Serves{Provider: "gcp", Regions: []string{"east"}})
		}
		body, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		put(t, l, ledger.Object{Ref: ledger.Ref{Kind: cluster.KindProfile.Name, ID: id}, Spec: body})
	}
	ready := false
	flip := func() {
		ready = !ready
		phase := cluster.Waiting
		if ready {
			phase = cluster.Ready
		}
		put(t, l, ledger.Object{Ref: ledger.Ref{Kind: "cluster", ID: "edge"}, Phase: phase, Spec: json.RawMessage(`{"provider":"aws","region":"east"}`),
			Fields: ledger.Fields{"provider": "aws", "region": "east"}})
	}
	if got := hears(t, woken, flip); !slices.Equal(got, []string{"clusterprofile/here"}) {
		t.Errorf("a cluster comes or goes: woken are %v", got)
	}
	n := 0
	leave := func() {
		n++
		put(t, l, ledger.Object{Ref: ledger.Ref{Kind: "offering", ID: "o"}, Name: "o", Spec: json.RawMessage(`{"n":` + string(rune('0'+n%10)) + `}`)})
	}
	if got := hears(t, woken, leave); !slices.Equal(got, []string{"clusterprofile/here"}) {
		t.Errorf("a cluster is emptied: woken are %v", got)
	}
	if _, err := l.Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Counts: []ledger.Count{{Name: cluster.CapacityCounter("edge"), Delta: 1, Max: 9}}}); err != nil {
		t.Fatal(err)
	}
	far := func(id string) {
		put(t, l, ledger.Object{Ref: ledger.Ref{Kind: "cluster", ID: id}, Phase: cluster.Ready, Spec: json.RawMessage(`{"provider":"gcp","region":"east"}`),
			Fields: ledger.Fields{"provider": "gcp", "region": "east"}})
	}
	far("one")
	for (<-woken)[0].Ref.ID != "there" { // what the attempts before led to
	}
	leave()
	far("two")
	if got := <-woken; len(got) != 1 || got[0].Ref.ID != "there" {
		t.Errorf("something still runs there, and woken are %v", got)
	}
}

// logins remember whom they were made for.
type logins struct{ made map[string]string }

func (l *logins) EnsureLogin(_ context.Context, id, redirect string) (string, string, error) {
	l.made[id] = redirect
	return "login-" + id, "s3cr3t-" + id, nil
}

func (l *logins) RemoveLogin(_ context.Context, id string) error {
	delete(l.made, id)
	return nil
}

func TestPeopleLogInToClustersOfTheFleet(t *testing.T) {
	f := newFleet(t)
	book := &logins{made: map[string]string{}}
	f.Logins = book
	file := `[{name: oauth, manifests: [{apiVersion: v1, kind: Secret, metadata: {name: "${cluster.login}"}, stringData: {secret: "${secret('login')}"}}]}]`
	f.Offerings = shelf{dinosaur(t, file)}
	for id, spec := range map[string]cluster.Spec{
		"edge":   {Provider: "local", Region: "local", Domain: "edge.example.org"},
		"bare":   {Provider: "local", Region: "local"},
		"tenant": {Provider: "local", Region: "local", Domain: "acme.example.org", Org: "acme"},
	} {
		if _, err := f.Register(byOps(), id, spec); err != nil {
			t.Fatal(err)
		}
		f.rest(t, id)
	}
	if len(book.made) != 1 || book.made["edge"] != "https://oauth-openshift.edge.example.org/oauth2callback/drover" {
		t.Errorf("logins are %v", book.made)
	}
	facts, err := f.Facts(t.Context(), "edge")
	if err != nil || facts.Login != "login-edge" || facts.Provider != "local" || facts.Region != "local" {
		t.Errorf("expressions see %+v, %v", facts, err)
	}
	items, err := f.StepItems(t.Context(), f.see(t, "edge").Object)
	if err != nil || len(items) != 1 || string(items[0].Body) != `{"manifests":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"login-edge"},"stringData":{"secret":"s3cr3t-edge"}}]}` {
		t.Errorf("the step is %+v, %v", items, err)
	}
	for _, id := range []string{"bare", "tenant"} {
		items, err := f.StepItems(t.Context(), f.see(t, id).Object)
		if err != nil || len(items) != 1 {
			t.Fatalf("%s: %v, %v", id, items, err)
		}
	}
	// What somebody removed comes back, and goes with the cluster.
	delete(book.made, "edge")
	f.clock = f.clock.Add(time.Hour)
	if f.rest(t, "edge"); book.made["edge"] == "" {
		t.Error("a login that was removed does not come back")
	}
	if _, err := f.Delete(byOps(), "edge"); err != nil {
		t.Fatal(err)
	}
	f.clock = f.clock.Add(time.Hour)
	if f.rest(t, "edge"); len(book.made) != 0 {
		t.Errorf("logins that are left: %v", book.made)
	}
}
