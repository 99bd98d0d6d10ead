package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

// accountService is a small account management service: everybody may have
// plenty, and what is reserved is kept until it is given back.
type accountService struct {
	*httptest.Server
	mu   sync.Mutex
	subs map[string]string // external id by subscription
	n    int
}

var quoted = regexp.MustCompile(`'([^']*)'`)

func newAccountService(t *testing.T) *accountService {
	s := &accountService{subs: map[string]string{}}
	mux := http.NewServeMux()
	const base = "/api/accounts_mgmt/v1"
	reply := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	type object = map[string]any
	mux.HandleFunc("GET "+base+"/organizations", func(w http.ResponseWriter, r *http.Request) {
		id := quoted.FindStringSubmatch(r.FormValue("search"))[1]
		reply(w, object{"items": []any{object{"id": "org-" + id, "external_id": id}}})
	})
	mux.HandleFunc("GET "+base+"/organizations/{id}/quota_cost", func(w http.ResponseWriter, r *http.Request) {
		reply(w, object{"items": []any{object{"quota_id": "q", "allowed": 10_000, "related_resources": []any{
			object{"resource_name": "rhosak", "product": "RHOSAK", "billing_model": "standard", "cost": 1},
		}}}})
	})
	mux.HandleFunc("GET "+base+"/subscriptions", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		items := []any{}
		for id, external := range s.subs {
			if external == quoted.FindStringSubmatch(r.FormValue("search"))[1] {
				items = append(items, object{"id": id, "status": "Active"})
			}
		}
		reply(w, object{"items": items})
	})
	mux.HandleFunc("POST "+base+"/cluster_authorizations", func(w http.ResponseWriter, r *http.Request) {
		var a struct {
			External string `json:"external_cluster_id"`
		}
		_ = json.NewDecoder(r.Body).Decode(&a)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.n++
		id := fmt.Sprint("sub-", s.n)
		s.subs[id] = a.External
		reply(w, object{"allowed": true, "subscription": object{"id": id}})
	})
	mux.HandleFunc("DELETE "+base+"/subscriptions/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, ok := s.subs[r.PathValue("id")]; !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		delete(s.subs, r.PathValue("id"))
		w.WriteHeader(http.StatusNoContent)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *accountService) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subs)
}

// A hundred kafkas come and go while a fifth of the calls to everybody outside
// fails, half of these after the other side has done what it was asked, and
// while a replica is killed: nothing of them is left anywhere.
func TestFleetNothingIsLeftAfterAStorm(t *testing.T) {
	const rounds, atOnce = 100, 10
	ams := newAccountService(t)
	quota := drover.HTTPProxy(t, ams.URL)
	c := whole
	c.args = []string{"--quota", "remote", "--quota-options", "url=http://" + quota.Addr}
	f := newFleet(t, c)
	for _, p := range []*drover.Proxy{f.sso, f.dns, quota} {
		p.Feel(drover.Lossy)
	}
	var next, done atomic.Int64
	var wg sync.WaitGroup
	killed := make(chan struct{})
	for range atOnce {
		wg.Go(func() {
			for i := next.Add(1); i <= rounds; i = next.Add(1) {
				f.round(t, int(i))
				if done.Add(1) == rounds/2 {
					close(killed)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	select {
	case <-killed:
	case <-ended:
		t.Fatalf("only %d rounds came to their end", done.Load())
	}
	f.servers[2].Kill() // in the midst of it; it is still asked, in vain
	f.servers[2].Start(t)
	<-ended
	t.Logf("identity provider: %d of %d calls failed; name server: %d of %d; account service: %d of %d",
		f.sso.Failed.Load(), f.sso.Failed.Load()+f.sso.Passed.Load(), f.dns.Failed.Load(), f.dns.Failed.Load()+f.dns.Passed.Load(), quota.Failed.Load(), quota.Failed.Load()+quota.Passed.Load())
	for _, p := range []*drover.Proxy{f.sso, f.dns, quota} {
		if p.Failed.Load() < 20 {
			t.Errorf("only %d calls failed", p.Failed.Load())
		}
		p.Feel(drover.Fair)
	}
	if left := f.clients(t); len(left) != 1 { // the agent's
		t.Errorf("%d clients are left: %v", len(left)-1, left)
	}
	if left := f.records(t); len(left) > 0 {
		t.Errorf("%d records are left: %v", len(left), left)
	}
	if n := ams.left(); n > 0 {
		t.Errorf("%d reservations are left", n)
	}
	f.discreet(t)
}

// round orders a kafka and deletes it: some when they are ready, some before.
func (f *fleet) round(t *testing.T, i int) {
	token := f.user(t, fmt.Sprintf("u%d", i), "acme")
	var k kafka
	drover.Until(t, "an order to be taken", func() bool {
		a, err := f.try(token, "POST", kafkasAsync, map[string]any{"name": fmt.Sprintf("k%d", i), "plan": "standard.x1", "region": "us-east-1"})
		if err != nil || a.Status >= 500 || a.Status == 409 { // 409: it was taken, and the answer was lost
			if list := f.find(token, fmt.Sprintf("k%d", i)); list.ID != "" {
				k = list
				return true
			}
			return false
		}
		if a.Status != http.StatusAccepted {
			t.Errorf("an order gets %d: %s", a.Status, a.Body)
			return true
		}
		return json.Unmarshal(a.Body, &k) == nil
	})
	if k.ID == "" {
		return
	}
	if i%3 > 0 {
		f.awaitStatus(t, token, k.ID, "ready")
		if m, ok := f.shard.Find(k.ID); ok && len(m.Spec.ServiceAccounts) == 1 {
			f.secret(m.Spec.ServiceAccounts[0].Password)
		}
	}
	drover.Until(t, "a delete to be taken", func() bool {
		a, err := f.try(token, "DELETE", kafkaAPI+"/kafkas/"+k.ID+"?async=true", nil)
		return err == nil && (a.Status == http.StatusAccepted || a.Status == http.StatusNotFound)
	})
	f.awaitGone(t, token, k.ID)
}

func (f *fleet) find(token, name string) kafka {
	a, err := f.try(token, "GET", kafkaAPI+"/kafkas?search=name+%3D+"+name, nil)
	var list struct{ Items []kafka }
	if err != nil || a.Status != http.StatusOK || json.Unmarshal(a.Body, &list) != nil || len(list.Items) == 0 {
		return kafka{}
	}
	return list.Items[0]
}

// Somebody outside is down, or lies, for a while: the instances that need them
// say whom they wait for, others proceed, what runs keeps running, and
// afterwards all is well by itself.
func TestFleetSomebodyOutsideIsAway(t *testing.T) {
	ams := newAccountService(t)
	quota := drover.HTTPProxy(t, ams.URL)
	prom := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	t.Cleanup(prom.Close)
	metrics := drover.HTTPProxy(t, prom.URL)
	c := whole
	c.replicas = 2
	c.args = []string{"--quota", "remote", "--quota-options", "url=http://" + quota.Addr, "--metrics-url", "http://" + metrics.Addr}
	f := newFleet(t, c)
	drover.Join(t, f.servers[0].URL(), "edge", f.servers[0].Cluster(t, "edge"))
	awaitCluster(t, f.servers[0], "edge")
	alice := f.user(t, "alice", "acme")
	order := func(name string) kafka {
		return f.order(t, alice, map[string]any{"name": name, "plan": "standard.x1", "region": "us-east-1"})
	}
	old := order("old")
	old = f.awaitStatus(t, alice, old.ID, "ready")
	dinosaur := func(name string) {
		t.Helper()
		mustOrder(t, f.servers[0].Client(t), name)
		awaitPhase(t, f.servers[0].Client(t), name, "ready")
	}
	wait := func(k kafka, culprit string) {
		t.Helper()
		drover.Until(t, k.Name+" to wait for the "+culprit, func() bool { return strings.Contains(f.message(t, k.ID), culprit) })
		stdout, _, code := f.servers[0].Run("describe", "kafka", k.ID)
		if code != 0 || !strings.Contains(stdout, culprit) {
			t.Errorf("drover describe does not name the %s:\n%s", culprit, stdout)
		}
	}
	after := func(k kafka) {
		t.Helper()
		f.awaitStatus(t, alice, k.ID, "ready")
		if got := f.awaitStatus(t, alice, old.ID, "ready"); got.Failed != "" {
			t.Errorf("what ran: %+v", got)
		}
	}
	for name, mood := range map[string]drover.Mood{"away": drover.Away, "asleep": drover.Asleep, "lying": drover.Lying} {
		t.Run("identity provider "+name, func(t *testing.T) {
			f.sso.Feel(mood)
			k := order("sso-" + name)
			wait(k, "identity provider")
			dinosaur("rex-" + name) // needs no account
			f.sso.Feel(drover.Fair)
			after(k)
		})
	}
	t.Run("identity provider stopped", func(t *testing.T) { // the process itself, which holds what it has taken
		before, carol := len(f.clients(t)), f.person(t, "carol-"+f.owner)
		known := func(when string) { // by every replica
			t.Helper()
			for i, s := range f.servers {
				var who struct{ User string }
				if a := f.at(t, s, carol, "GET", "/api/v1/whoami", nil); a.Status != http.StatusOK || json.Unmarshal(a.Body, &who) != nil || who.User != "carol-"+f.owner {
					t.Errorf("%s replica %d answers its user %d %s", when, i, a.Status, a.Body)
				}
			}
		}
		known("before")
		resume, ours := f.keycloak.Pause(t)
		if !ours && os.Getenv("DROVER_TEST_KEYCLOAK") == "" && runtime.GOOS == "linux" {
			t.Fatal("Keycloak was started by this test, and its process cannot be found")
		}
		if !ours {
			t.Skip("Keycloak is not ours to stop, or cannot be stopped on this system")
		}
		k := order("sso-stopped")
		wait(k, "identity provider")
		known("without it")
		if got := f.awaitStatus(t, alice, old.ID, "ready"); got.Failed != "" {
			t.Errorf("what runs: %+v", got)
		}
		dinosaur("rex-stopped")
		gone := order("sso-gone")
		wait(gone, "identity provider")
		f.remove(t, alice, gone.ID)
		resume()
		after(k)
		f.awaitGone(t, alice, gone.ID)
		if n := len(f.clients(t)); n != before+1 {
			t.Errorf("there are %d clients, of %d before and one that was made", n, before)
		}
	})
	t.Run("name server asleep", func(t *testing.T) {
		f.dns.Feel(drover.Asleep)
		k := order("dns-asleep")
		wait(k, "name servers")
		f.dns.Feel(drover.Fair)
		after(k)
	})
	t.Run("name server stopped", func(t *testing.T) {
		f.bind.Stop()
		k := order("dns")
		wait(k, "name servers")
		gone := order("dns-gone")
		wait(gone, "name servers")
		f.remove(t, alice, gone.ID)
		f.bind.Start(t)
		after(k)
		f.awaitGone(t, alice, gone.ID)
		if records := f.records(t); slices.ContainsFunc(records, func(r string) bool { return strings.Contains(r, gone.ID) }) {
			t.Errorf("records of what is gone: %v", records)
		}
	})
	t.Run("account service", func(t *testing.T) {
		for _, mood := range []drover.Mood{drover.Away, drover.Lying} {
			quota.Feel(mood)
			k := f.user(t, "new", fmt.Sprintf("new-%d", mood)) // nothing is known of them yet
			a := f.call(t, k, "POST", kafkasAsync, `{"name":"first","plan":"standard.x1","region":"us-east-1"}`)
			refused(t, "an order", a, 500, "KAFKAS-MGMT-121")
			f.awaitStatus(t, alice, old.ID, "ready")
			dinosaur(fmt.Sprintf("rex-%d", mood))
			quota.Feel(drover.Fair)
			drover.Until(t, "orders to be taken again", func() bool {
				return f.call(t, k, "POST", kafkasAsync, `{"name":"first","plan":"standard.x1","region":"us-east-1"}`).Status == http.StatusAccepted
			})
		}
	})
	t.Run("metrics", func(t *testing.T) {
		for name, mood := range map[string]drover.Mood{"500": drover.Fair, "away": drover.Away, "lying": drover.Lying} {
			metrics.Feel(mood)
			a := f.call(t, alice, "GET", kafkaAPI+"/kafkas/"+old.ID+"/metrics/query", nil)
			told := regexp.MustCompile(a.Error().OperationID + ".*metrics server") // users are told to try again, operators why
			if a.Status != http.StatusServiceUnavailable {
				t.Errorf("%s: %d %s", name, a.Status, a.Body)
			}
			drover.Until(t, "the log to name the metrics server", func() bool {
				return slices.ContainsFunc(f.servers, func(s *drover.Server) bool { return told.MatchString(s.Log()) })
			})
		}
	})
	f.discreet(t)
}
