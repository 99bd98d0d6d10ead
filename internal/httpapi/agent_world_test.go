package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// dataPlane is an agent and what it runs, as small as the protocol allows.
type dataPlane struct {
	*world
	who, cluster, process, home string

	number, epoch, seq int64
	ledger, keys       string
	told               map[string]v1.Item // by id; bodies that were sent stay
	seen               map[string]v1.ObservedItem
	runs               map[string]bool
	removed            map[string]bool // what it was told to remove once
	acked              map[string]uint64
	asked              []int
}

func (w *world) agent(cluster string) *dataPlane {
	return &dataPlane{
		world: w, who: "agent-" + cluster, cluster: cluster, process: "agent-" + cluster, home: "home-" + cluster,
		told: map[string]v1.Item{}, seen: map[string]v1.ObservedItem{}, runs: map[string]bool{}, removed: map[string]bool{}, acked: map[string]uint64{},
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (d *dataPlane) ids() []string { return slices.Sorted(maps.Keys(d.told)) }

// message is what the agent says now, under a new number.
func (d *dataPlane) message() v1.Sync {
	d.number++
	q := v1.Sync{
		Protocol: v1.Protocol, Version: "test", Agent: d.process, Installation: d.home, Number: d.number,
		Ledger: d.ledger, Epoch: d.epoch, Seq: d.seq, Ready: true, Capacity: 100, Keys: d.keys,
		Units: map[string]v1.Units{"dinosaur/standard": {Max: 100, Remaining: 90}}, Platform: &v1.Platform{Kind: "simulated"},
	}
	for _, id := range d.ids() {
		it := d.told[id]
		q.Desired.Add(id, it.Leaf())
		if it.Body == nil && !it.Delete {
			q.Bodies = append(q.Bodies, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.seen)) {
		o := d.seen[id]
		q.Observed.Add(id, o.Leaf())
		if d.acked[id] != o.Leaf() || slices.Contains(d.asked, v1.BucketOf(id)) {
			q.Items = append(q.Items, o)
		}
	}
	return q
}

// post sends a message without taking the answer.
func (d *dataPlane) post(ctx context.Context, q v1.Sync) (int, v1.Synced, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.server.URL+"/api/v1/clusters/"+d.cluster+"/sync", strings.NewReader(text(d, q)))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.who)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, v1.Synced{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	var out v1.Synced
	if err == nil && resp.StatusCode == 200 {
		err = json.Unmarshal(data, &out)
	}
	return resp.StatusCode, out, err
}

// sync exchanges one message.
func (d *dataPlane) sync() v1.Synced {
	d.Helper()
	q := d.message()
	status, out := d.patient(q)
	if status != 200 {
		d.Fatalf("a message is answered %d: %.2000s", status, d.logged())
	}
	d.take(q, out)
	return out
}

// patient sends a message, again while the server gets ready: the newest under a new
// number, as agents do, for the one before may have been taken.
func (d *dataPlane) patient(q v1.Sync) (int, v1.Synced) {
	d.Helper()
	for late := time.Now().Add(20 * time.Second); ; {
		status, out, err := d.post(d.Context(), q)
		if err != nil {
			d.Fatal(err)
		}
		if status != 503 {
			return status, out
		}
		if time.Now().After(late) {
			d.Fatalf("the server never gets ready: %.2000s", d.logged())
		}
		if q.Number == d.number {
			d.number++
			q.Number = d.number
		}
	}
}

// try is the status that a message is answered with.
func (d *dataPlane) try() int {
	d.Helper()
	status, _ := d.patient(d.message())
	return status
}

// hold sends a message that waits; what is returned awaits the answer.
func (d *dataPlane) hold() func() v1.Synced {
	q := d.message()
	q.Wait = true
	type answer struct {
		status int
		out    v1.Synced
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		status, out, err := d.post(d.Context(), q)
		done <- answer{status, out, err}
	}()
	return func() v1.Synced {
		d.Helper()
		a := <-done
		if a.err != nil || a.status != 200 {
			d.Fatalf("a held message is answered %d, %v", a.status, a.err)
		}
		d.take(q, a.out)
		return a.out
	}
}

// leave sends a message that waits, and returns what breaks its connection once
// the message is on its way.
func (d *dataPlane) leave() func() {
	q := d.message()
	q.Wait = true
	ctx, cancel := context.WithCancel(d.Context())
	sent, done := make(chan struct{}), make(chan struct{})
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }})
	go func() {
		defer close(done)
		_, _, _ = d.post(ctx, q)
	}()
	return func() {
		<-sent // what was never sent, nobody can miss
		cancel()
		<-done
	}
}

// take follows an answer to a message.
func (d *dataPlane) take(q v1.Sync, out v1.Synced) {
	d.Helper()
	if out.Epoch == d.epoch && out.Seq < d.seq {
		return // overtaken by a newer one
	}
	d.ledger, d.epoch, d.seq, d.asked = out.Ledger, out.Epoch, out.Seq, out.Observed
	for _, o := range q.Items {
		d.acked[o.ID] = o.Leaf()
	}
	if out.Keys != "" {
		d.keys = v1.BodyDigest([]byte(out.Keys))
	}
	for _, b := range out.Desired {
		for id := range d.told {
			if v1.BucketOf(id) == b.Index && !slices.ContainsFunc(b.Items, func(it v1.Item) bool { return it.ID == id }) {
				delete(d.told, id)
				if d.seen[id].State == "deleted" {
					delete(d.seen, id) // nobody asks for it any more
				}
			}
		}
		for _, it := range b.Items {
			if v1.BucketOf(it.ID) != b.Index {
				d.Fatalf("%s is in bucket %d", it.ID, b.Index)
			}
			d.follow(it)
		}
	}
	for _, it := range out.Bodies {
		d.follow(it)
	}
}

// follow does what an item says.
func (d *dataPlane) follow(it v1.Item) {
	d.Helper()
	was := d.told[it.ID]
	if it.Generation < was.Generation {
		d.Fatalf("%s goes back from generation %d to %d", it.ID, was.Generation, it.Generation)
	}
	if it.Body == nil && was.Digest == it.Digest {
		it.Body = was.Body
	}
	if it.Body != nil && !it.Filled && v1.BodyDigest(it.Body) != it.Digest {
		d.Fatalf("the body of %s is not the one of its digest", it.ID)
	}
	d.told[it.ID] = it
	switch {
	case it.Delete:
		delete(d.runs, it.ID)
		d.removed[it.ID] = true
		d.seen[it.ID] = v1.ObservedItem{ID: it.ID, Generation: it.Generation, State: "deleted"}
	case d.removed[it.ID]:
		d.Fatalf("%s was removed and comes back", it.ID)
	case it.Body != nil:
		d.runs[it.ID] = true
		d.seen[it.ID] = v1.ObservedItem{
			ID: it.ID, Generation: it.Generation, State: "ready", Versions: map[string]string{"dinosaur": "1.0.0"},
			Conditions: []v1.Condition{{Type: "Ready", Status: "True"}},
		}
	}
}

// reached exchanges messages until the server's index has everything that is in
// the ledger, of other clusters, too.
func (d *dataPlane) reached() {
	d.Helper()
	d.sync() // who has never been told anything is told what there is
	d.seq = d.head().Seq
	d.sync()
}

// until exchanges messages until something is so.
func (d *dataPlane) until(what string, so func() bool) {
	d.Helper()
	for range 2000 {
		if d.sync(); so() {
			return
		}
	}
	d.Fatalf("the agent is never told %s", what)
}

// settled exchanges messages until the two sides agree.
func (d *dataPlane) settled() {
	d.Helper()
	for range 2000 {
		if out := d.sync(); len(out.Desired)+len(out.Bodies)+len(out.Observed) == 0 && len(d.lacking()) == 0 {
			return
		}
	}
	d.Fatal("the two sides never agree")
}

func (d *dataPlane) lacking() (out []string) {
	for id, it := range d.told {
		if it.Body == nil && !it.Delete {
			out = append(out, id)
		}
	}
	return out
}
