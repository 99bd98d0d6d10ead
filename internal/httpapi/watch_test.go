package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// visibleTo lists the sequences that an organisation's member must see.
func (w *world) visibleTo(org string, until int64) (seqs []int64) {
	w.Helper()
	changes, err := w.ledger.Changes(w.Context(), ledger.ChangeQuery{Until: until, Limit: 10000})
	if err != nil {
		w.Fatal(err)
	}
	for _, c := range changes {
		if c.Object.Org == org || c.Object.Kind == "offering" {
			seqs = append(seqs, c.Seq)
		}
	}
	return seqs
}

func TestWatchResumesWithoutLossOrDuplicates(t *testing.T) {
	w := newWorld(t)
	const writers, each = 6, 25
	var writing sync.WaitGroup
	for n := range writers {
		who := []string{"alice", "bob", "arthur"}[n%3]
		writing.Go(func() {
			for i := range each {
				_, err := w.instances.Create(w.as(who), w.dinosaur(), instance.Create{Name: fmt.Sprintf("d-%d-%d", n, i)})
				if err != nil {
					t.Errorf("cannot write: %v", err)
					return
				}
			}
		})
	}
	var got []int64
	last := "0"
	// Each connection is cut in the middle of what it is told, after a number
	// of events that differs from time to time, while the writers write.
	cut := func(events int) {
		l := w.listen("alice", "/api/v1/watch", last)
		defer l.close()
		for range events {
			e, ok := l.next()
			if !ok {
				return
			}
			var c v1.Change
			if err := json.Unmarshal([]byte(e.data), &c); err != nil {
				t.Fatalf("%v in %q", err, e.data)
			}
			if e.name != "change" || e.id != strconv.FormatInt(c.Seq, 10) {
				t.Fatalf("event %q of id %q holds sequence %d", e.name, e.id, c.Seq)
			}
			got, last = append(got, c.Seq), e.id
		}
	}
	for n := range 12 {
		cut(1 + n%5)
	}
	writing.Wait()
	want := w.visibleTo("acme", w.head().Seq)
	if len(want) != 1+2*each*writers*2/3 {
		t.Fatalf("the test is wrong: %d changes are alice's", len(want))
	}
	cut(len(want) - len(got))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("seen against written (-want +got):\n%s", d)
	}
}

func TestWatchShowsNothingOfOthers(t *testing.T) {
	w := newWorld(t)
	w.register("c1") // clusters are the operator's
	w.create("bob", "old")
	w.create("alice", "first")
	past := w.listen("alice", "/api/v1/watch?after=0", "")
	live := w.listen("alice", "/api/v1/watch", "")
	for i := range 20 {
		w.create("bob", fmt.Sprintf("b%d", i))
		w.create("carol", fmt.Sprintf("c%d", i))
	}
	w.create("alice", "last")
	check := func(l *listener, most int) {
		t.Helper()
		for n := 0; ; n++ {
			e, ok := l.next()
			if !ok {
				t.Fatal("the stream ended")
			}
			var c v1.Change
			if err := json.Unmarshal([]byte(e.data), &c); err != nil {
				t.Fatal(err)
			}
			if c.Object.Org != "acme" && c.Object.Kind != "offering" {
				t.Fatalf("alice was told of %+v", c.Object)
			}
			if n > most {
				t.Fatal("alice was told more than there is")
			}
			if c.Object.Kind == "operation" && c.Object.Name == "create-last" {
				return
			}
		}
	}
	check(past, 5)
	check(live, 2)
}

func TestWatchFilters(t *testing.T) {
	w := newWorld(t)
	rex := w.create("alice", "rex")
	w.create("alice", "rita")
	from := strconv.FormatInt(rex.Version-1, 10)
	cases := map[string]struct {
		reason, query string
		want          []string
	}{
		"resource": {"An offering's instances under its own name.", "resource=dinosaurs", []string{"rex", "rita", "end"}},
		"kind":     {"A kind.", "kind=operation", []string{"create-rex", "create-rita", "create-end"}},
		"object":   {"One object alone.", "resource=dinosaurs&id=" + rex.ID, []string{"rex", "rex"}},
	}
	listeners := map[string]*listener{}
	for name, c := range cases {
		listeners[name] = w.listen("alice", "/api/v1/watch?after="+from+"&"+c.query, "")
	}
	w.create("alice", "end")
	w.edit(rex.ID, func(in *instance.Instance) { in.Phase = instance.Preparing })
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for i, want := range c.want {
				e, _ := listeners[name].next()
				var change v1.Change
				if err := json.Unmarshal([]byte(e.data), &change); err != nil {
					t.Fatal(err)
				}
				if change.Object.Name != want {
					t.Errorf("%s: event %d is about %s, not %s", c.reason, i, change.Object.Name, want)
				}
			}
		})
	}
}

func TestWatchReplayObeysTheOwnerOfToday(t *testing.T) {
	w := newWorld(t)
	mine := w.create("carol", "mine")
	w.edit(mine.ID, func(in *instance.Instance) { in.Owner = "dave" })
	carol := w.listen("carol", "/api/v1/watch?after=0&resource=dinosaurs", "")
	dave := w.listen("dave", "/api/v1/watch?after=0&resource=dinosaurs", "")
	next := w.create("carol", "next")
	e, _ := carol.next()
	var c v1.Change
	if err := json.Unmarshal([]byte(e.data), &c); err != nil || c.Object.ID != next.ID {
		t.Errorf("carol is told of %s first", e.data)
	}
	for i, owner := range []string{"carol", "dave"} {
		e, _ := dave.next()
		if err := json.Unmarshal([]byte(e.data), &c); err != nil || c.Object.ID != mine.ID || c.Object.Owner != owner {
			t.Errorf("event %d of dave's is %s", i, e.data)
		}
	}
}

// A client that does not read is cut off rather than buffered for; another one
// does not notice.
func TestWatchThatNobodyReadsIsCutOff(t *testing.T) {
	w := newWorld(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/api/v1/watch?after=0&kind=cluster", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer root")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	reader := w.listen("root", "/api/v1/watch?after=0&kind=cluster", "")
	// More than the sockets of a connection hold.
	large, err := json.Marshal(map[string]string{"x": strings.Repeat("x", 200<<10)})
	if err != nil {
		t.Fatal(err)
	}
	const objects = 100
	for i := range objects {
		_, err := w.ledger.Commit(t.Context(), ledger.Set{Actor: "root", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{
			Object: ledger.Object{Ref: ledger.Ref{Kind: "cluster", ID: fmt.Sprintf("c%d", i)}, Spec: large}, Op: "create",
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := reader.next(); !ok || len(e.data) < len(large) {
			t.Fatalf("the reader lost event %d", i)
		}
	}
	w.awaitLog("path=/api/v1/watch")
	rest, _ := io.ReadAll(resp.Body)
	if n := strings.Count(string(rest), "event: change"); n >= objects {
		t.Errorf("the idle client was sent %d events", n)
	}
}

func TestStreamsEndWithTheRightToThem(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	watch := w.listen("alice", "/api/v1/watch", "")
	other := w.listen("arthur", "/api/v1/watch", "")
	agent := w.agent("c1")
	agent.sync()
	q := agent.message()
	q.Wait = true
	held := make(chan int, 1)
	go func() {
		status, _, _ := agent.post(t.Context(), q)
		held <- status
	}()
	w.awaitLog("path=/api/v1/clusters/c1/sync")
	w.gate.revoke("alice")
	w.gate.revoke("agent-c1")
	if e, ok := watch.next(); ok {
		t.Errorf("a stream went on without a right: %+v", e)
	}
	for range 3 { // it is quiet, but alive
		<-other.beats
	}
	w.place(w.create("arthur", "rex").ID, "c1")
	if _, ok := other.next(); !ok {
		t.Error("another stream ended too")
	}
	if status := <-held; status != 401 {
		t.Errorf("an agent is answered %d without a right", status)
	}
}

func TestWatchOutlastsTheStore(t *testing.T) {
	w := newWorld(t)
	l := w.listen("alice", "/api/v1/watch?resource=dinosaurs", "")
	w.away.Store(true)
	replay := w.listen("alice", "/api/v1/watch?resource=dinosaurs&after=0", "")
	for i := range 3 {
		w.create("alice", fmt.Sprintf("d%d", i))
	}
	w.away.Store(false)
	for _, l := range []*listener{l, replay} {
		for i := range 3 {
			e, ok := l.next()
			var c v1.Change
			if err := json.Unmarshal([]byte(e.data), &c); !ok || err != nil || c.Object.Name != fmt.Sprintf("d%d", i) {
				t.Errorf("event %d after the outage is %+v", i, e)
			}
		}
	}
}

func TestHeadOfAStreamEnds(t *testing.T) {
	w := newWorld(t)
	w.want(200, "alice", http.MethodHead, "/api/v1/watch", "", nil)
	w.awaitLog("path=/api/v1/watch")
}

func TestOneCallerHasSoManyStreams(t *testing.T) {
	w := newWorld(t)
	var open []*listener
	for range 256 {
		open = append(open, w.listen("alice", "/api/v1/watch", ""))
	}
	w.want(429, "alice", http.MethodGet, "/api/v1/watch", "", nil)
	other := w.listen("bob", "/api/v1/watch", "") // fails the test if it is refused
	other.close()
	for _, l := range open {
		l.close()
	}
}
