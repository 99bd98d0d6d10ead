//go:build bench

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/test/drover"
)

// crop is how many instances each cluster of the large runs holds.
const crop = 10

// populate fills the ledger behind a stopped server with clusters and their
// instances, which are ready: copies of the one instance that is there.
func populate(t *testing.T, s *drover.Server, database string, n int) (names, ids []string) {
	t.Helper()
	l := direct(t, s, database)
	defer l.Close()
	began := time.Now()
	home, err := l.Get(t.Context(), ledger.Ref{Kind: cluster.Kind.Name, ID: "local"})
	if err != nil {
		t.Fatal(err)
	}
	_, status, err := cluster.Decode(home)
	if err != nil {
		t.Fatal(err)
	}
	status.Installation, status.Session, status.Client, status.Login, status.Version = "", "", "", "", "bench"
	if home.Status, err = json.Marshal(status); err != nil {
		t.Fatal(err)
	}
	found, err := l.List(t.Context(), ledger.Query{Kind: instance.Kind.Name, Limit: 1})
	if err != nil || len(found) == 0 {
		t.Fatalf("no instance to copy: %v", err)
	}
	names, ids = make([]string, n), make([]string, n*crop)
	seedWith(t, l, 0, n, func(set *ledger.Set, i int) {
		o := home
		names[i] = fmt.Sprintf("sim-%05d", i+1)
		o.ID, o.Name, o.Parent = names[i], names[i], ""
		set.Puts = append(set.Puts, ledger.Put{Object: o, Op: "create"})
	})
	seedWith(t, l, 0, len(ids), func(set *ledger.Set, i int) {
		o := settled(t, found[0], i, names[i/crop])
		ids[i] = o.ID
		set.Puts = append(set.Puts, ledger.Put{Object: o, Op: "create"})
	})
	t.Logf("seeded %d clusters and %d instances in %s", n, len(ids), time.Since(began).Round(time.Second))
	return names, ids
}

// settled is a copy of a ready instance on another cluster, whose agent has said
// what a simulated data plane says.
func settled(t *testing.T, o ledger.Object, i int, on string) ledger.Object {
	in, err := instance.Decode(o)
	if err != nil {
		t.Fatal(err)
	}
	old, oldID := o.Name, o.ID
	o.ID, o.Name, o.Parent = ledger.NewID(), fmt.Sprintf("dino-%06d", i), ""
	rename := func(data []byte) []byte {
		data = bytes.ReplaceAll(data, []byte(oldID), []byte(o.ID))
		return bytes.ReplaceAll(data, []byte(old), []byte(o.Name))
	}
	o.View, o.Spec = rename(o.View), rename(o.Spec)
	fields := ledger.Fields{}
	for k, v := range o.Fields {
		fields[k] = v
	}
	fields["cluster"], fields["host"] = on, o.Name+".dinosaurs.localhost"
	o.Fields = fields
	st := in.Status
	st.Cluster, st.Desired, st.Digest, st.Room, st.Operation = on, rename(st.Desired), "", nil, ""
	var doc struct {
		Spec struct {
			Versions map[string]string
			Endpoint struct{ Host string }
		}
	}
	if err := json.Unmarshal(st.Desired, &doc); err != nil {
		t.Fatal(err)
	}
	seen := *st.Observed
	seen.Leaf = v1.ObservedItem{ID: o.ID, Generation: seen.Generation, State: "ready", Versions: doc.Spec.Versions,
		Routes: map[string]string{doc.Spec.Endpoint.Host: "simulated"}}.Leaf()
	st.Observed = &seen
	if o.Status, err = json.Marshal(st); err != nil {
		t.Fatal(err)
	}
	o.Status = bytes.ReplaceAll(o.Status, []byte(`"`+old+`.`), []byte(`"`+o.Name+`.`))
	return o
}

// TestDataPlanes measures very many agents against one server.
func TestDataPlanes(t *testing.T) {
	n := setting("DROVER_BENCH_AGENTS", 10_000)
	while := time.Duration(setting("DROVER_BENCH_SECONDS", 60)) * time.Second
	each(t, func(t *testing.T, e engine) {
		args, database := e.args(t), ""
		if len(args) > 0 {
			database = args[1]
		}
		s := drover.Serve(t, args...)
		stop := simulateAt(t, s, "local", "local", "local")
		p := watch(t, s)
		if status, err := create(user(t, s, "alice", "acme"), "rex"); err != nil || status != 202 {
			t.Fatalf("create: %d %v", status, err)
		}
		p.await(t, "ready", 1, time.Minute)
		p.stop()
		stop()
		s.Stop()
		names, ids := populate(t, s, database, n)
		s.Start(t)
		h := newHerd(t, s, names)
		shake := handshake(t, h)

		began := time.Now()
		h.start(t, 400)
		h.agreed(t, 5*time.Minute)
		t.Logf("%d agents joined and agreed in %s, %d of %d messages failed, server CPU %s", n, time.Since(began).Round(time.Second),
			h.failed.Load(), h.messages.Load(), cpu(s.PID()))
		h.mu.Lock()
		t.Logf("refusals: %v", h.errors)
		h.mu.Unlock()
		time.Sleep(15 * time.Second) // connections that are not used any more go
		written := commits(t, s)
		idle := h.watch(while)
		written = commits(t, s) - written
		size := fmt.Sprintf("%d agents with %d instances", n, len(ids))
		report(size+", steady state: server cores / memory", e.name,
			fmt.Sprintf("%.2f cores / %d MiB (%.0f messages/s, %.3f ms each; %d failed, %d commits)", idle.cores(), resident(s.PID()),
				float64(idle.messages)/idle.took.Seconds(), idle.cpu.Seconds()*1000/float64(max(1, idle.messages)), idle.failed, written), "< 1 core / < 2 GiB")

		changes(t, e, h, ids, size)
		again := comeBack(t, e, h, idle, shake, size)
		reborn := rebirth(t, e, h, size)
		im, ib := idle.each(n)
		am, ab := again.each(n)
		rm, rb := reborn.each(n)
		report(size+": messages and bytes per agent and 10 s, at rest / after the server's restart / after the agents' restart", e.name,
			fmt.Sprintf("%.3f, %.0f / %.3f, %.0f / %.3f, %.0f", im, ib, am, ab, rm, rb), "the same")
	})
}

// handshake measures what a new connection with a token that the server has not
// seen costs it, with a request that asks for next to nothing.
func handshake(t *testing.T, h *herd) (each time.Duration) {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	var next, failed atomic.Int64
	before := cpu(h.s.PID())
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(h.agents); i = int(next.Add(1)) - 1 {
				req, _ := http.NewRequest(http.MethodGet, h.s.URL()+"/api/v1/whoami", nil)
				req.Header.Set("Authorization", "Bearer "+h.agents[i].token)
				resp, err := web.Do(req)
				if err != nil {
					failed.Add(1)
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode >= 500 {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	each = (cpu(h.s.PID()) - before) / time.Duration(len(h.agents))
	t.Logf("a new connection with a new token and an empty request: %s of server CPU (%d failed)", each, failed.Load())
	return each
}

// changes changes instances at an even pace and measures until their agents
// apply the change.
func changes(t *testing.T, e engine, h *herd, ids []string, size string) {
	t.Helper()
	const perSecond = 50
	total := perSecond * setting("DROVER_BENCH_CHANGES", 30)
	admin := h.s.Client(t)
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	picked := rand.Perm(len(ids))
	total = min(total, len(ids))
	used, began := cpu(h.s.PID()), time.Now()
	for i := range total {
		<-tick.C
		id := ids[picked[i]]
		seen := make(chan time.Time, 1)
		h.mu.Lock()
		h.waited[id] = seen
		h.mu.Unlock()
		wg.Go(func() {
			at := time.Now()
			_, err := admin.Update(context.Background(), "dinosaurs", id, v1.UpdateInstance{Parameters: map[string]any{"species": fmt.Sprint("s", i)}})
			if err != nil {
				t.Errorf("cannot change %s: %v", id, err)
				return
			}
			select {
			case then := <-seen:
				mu.Lock()
				took = append(took, then.Sub(at))
				mu.Unlock()
			case <-time.After(time.Minute):
				t.Errorf("the change of %s was not seen within a minute", id)
			}
		})
	}
	wg.Wait()
	cores := (cpu(h.s.PID()) - used).Seconds() / time.Since(began).Seconds()
	if len(took) == 0 {
		t.FailNow()
	}
	slices.Sort(took)
	report(size+": change → seen by its agent at 50 changes/s, p50 / p99 / max", e.name,
		fmt.Sprintf("%s / %s / %s (%d changes, %.2f cores)", ms(quantile(took, .5)), ms(quantile(took, .99)), ms(took[len(took)-1]), len(took), cores), "p99 < 1 s")
}

// comeBack kills the server and measures until all agents agree with the next one.
func comeBack(t *testing.T, e engine, h *herd, idle window, shake time.Duration, size string) window {
	t.Helper()
	n := len(h.agents)
	applied := h.applied.Load()
	h.s.Kill()
	time.Sleep(5 * time.Second) // all agents notice
	h.mark()
	began := time.Now()
	if err := h.s.Launch(); err != nil {
		t.Fatal(err)
	}
	if err := h.s.Await(time.Minute); err != nil {
		t.Fatal(err)
	}
	up := time.Since(began)
	messages := h.messages.Load()
	sent, answered := h.agreed(t, 5*time.Minute)
	used, took := cpu(h.s.PID()), time.Since(began)
	h.mu.Lock()
	t.Logf("ready after %s; %d messages; commits %d; refusals: %v", up.Round(time.Millisecond), h.messages.Load()-messages, commits(t, h.s), h.errors)
	h.mu.Unlock()
	report(size+": kill -9 and restart of the server: all admitted / all have had an answer after", e.name,
		fmt.Sprintf("%.1f s / %.1f s (%d items applied)", sent.Sub(began).Seconds(), answered.Sub(began).Seconds(), h.applied.Load()-applied), "< 90 s; 0")
	per := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(n) }
	rest := time.Duration(idle.cores() * float64(took))
	apart := used - shake*time.Duration(n)
	report(size+": server CPU per agent from the restart until all have agreed, handshakes apart, against steady state over the same time", e.name,
		fmt.Sprintf("%.2f x (%.2f ms against %.2f ms; with handshakes %.2f ms, %.2f x)", float64(apart)/float64(rest), per(apart), per(rest), per(used), float64(used)/float64(rest)), "<= 1.2 x")
	time.Sleep(15 * time.Second)
	return h.watch(30 * time.Second)
}

// rebirth restarts all agents at once.
func rebirth(t *testing.T, e engine, h *herd, size string) window {
	t.Helper()
	h.stop()
	applied := h.applied.Load()
	h.mark()
	began, used := time.Now(), cpu(h.s.PID())
	h.start(t, 0)
	sent, answered := h.agreed(t, 5*time.Minute)
	h.mu.Lock()
	t.Logf("refusals: %v", h.errors)
	h.mu.Unlock()
	report(size+": all agents restart at once: all admitted / all have had an answer after", e.name,
		fmt.Sprintf("%.1f s / %.1f s (%d items applied, server CPU %.1f s)", sent.Sub(began).Seconds(), answered.Sub(began).Seconds(),
			h.applied.Load()-applied, (cpu(h.s.PID())-used).Seconds()), "< 90 s; 0")
	time.Sleep(15 * time.Second)
	return h.watch(30 * time.Second)
}
