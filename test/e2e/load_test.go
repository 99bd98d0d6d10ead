package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
)

// 512 clients at once: every one is answered, and then the server is as before.
func TestManyClients(t *testing.T) {
	const clients, turns = 512, 4
	s := drover.Serve(t) // no data plane: 512 processes are not what is tried
	c := s.Client(t)
	users := make([]string, 8)
	for i := range users {
		users[i] = token(t, s, "--user", fmt.Sprintf("user%d", i), "--org", fmt.Sprintf("org%d", i))
	}
	const api = "/api/dinosaurs_mgmt/v1/dinosaurs"
	requests := func(i, turn int) drover.Request {
		r := drover.Request{Method: http.MethodGet, Token: users[i%len(users)], Timeout: drover.Patience}
		switch (i + turn) % 6 {
		case 0, 1:
			r.Method, r.URL, r.Body = http.MethodPost, api+"?async=true", fmt.Appendf(nil, `{"name":"d%d-%d"}`, i, turn)
		case 2:
			r.URL = api + "?search=" + "name+like+%27d%25%27&orderBy=created_at+desc"
		case 3:
			r.URL = api + fmt.Sprintf("/d%d-%d", i, turn) // mostly nobody
		case 4:
			r.Method, r.URL, r.Body = http.MethodPost, api+"?async=true", []byte(`{"name":`)
		case 5:
			r.URL, r.Token = api, "nonsense"
		}
		r.URL = s.URL() + r.URL
		return r
	}

	var mu sync.Mutex
	statuses := map[int]int{}
	acknowledged, unsure := map[string]bool{}, map[string]bool{} // orders by name
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			<-start
			for turn := range turns {
				r := requests(i, turn)
				a, err := drover.Ask(r)
				mu.Lock()
				if err != nil {
					t.Errorf("client %d got no answer: %v", i, err)
				} else {
					statuses[a.Status]++
					switch name := fmt.Sprintf("d%d-%d", i, turn); {
					case a.Status == http.StatusAccepted:
						acknowledged[name] = true
					case a.Status == http.StatusServiceUnavailable && r.Method == http.MethodPost:
						unsure[name] = true
					}
				}
				mu.Unlock()
			}
		})
	}
	close(start)
	wg.Wait()
	t.Logf("answers: %v", statuses)
	for status, n := range statuses {
		switch {
		case status == 200, status == 202, status == 429, status == 503, status >= 400 && status < 500:
		default:
			t.Errorf("%d answers have status %d", n, status)
		}
	}
	if len(acknowledged) == 0 || statuses[200] == 0 || statuses[400] == 0 || statuses[401] == 0 {
		t.Errorf("the load was not what it should be: %v", statuses)
	}

	if a := drover.Must(t, drover.Request{Method: http.MethodGet, URL: s.URL() + "/healthz"}); a.Status != http.StatusOK {
		t.Errorf("/healthz answers %d: whoever watches it would kill the server", a.Status)
	}
	for _, path := range []string{"/readyz", "/metrics"} {
		drover.Until(t, path+" to answer as before", func() bool {
			return drover.Must(t, drover.Request{Method: http.MethodGet, URL: s.URL() + path}).Status == http.StatusOK
		})
	}
	// All that was acknowledged is there, and nothing else but what nobody was told about:
	// a ledger that takes longer than a request may wait writes it nevertheless.
	there, err := c.List(t.Context(), "dinosaurs", client.ListOptions{Size: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range there.Items {
		if !acknowledged[o.Name] && !unsure[o.Name] {
			t.Errorf("%s is there, and nobody was told so", o.Name)
		}
		delete(acknowledged, o.Name)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d were acknowledged and are not there", len(acknowledged))
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ends with code %d", code)
	}
	s.Start(t)
	if got := head(t, c).Seq; got == 0 {
		t.Error("the log is empty")
	}
}

// Many watch at once: each sees every change once and in order, and only what
// its organisation may see.
func TestManyWatchers(t *testing.T) {
	const watchers, orders = 200, 5
	s := drover.Serve(t)
	ours, theirs := token(t, s, "--user", "alice", "--org", "acme"), token(t, s, "--user", "eve", "--org", "evil")
	since := head(t, s.Client(t)).Seq
	ctx, cancel := context.WithTimeout(context.Background(), drover.Patience)
	defer cancel()
	var wg sync.WaitGroup
	for i := range watchers {
		c := dial(t, s.URL(), ours)
		wg.Go(func() {
			var seen []string
			last := since
			for change, err := range c.Watch(ctx, client.WatchOptions{After: since}) {
				if err != nil {
					t.Errorf("watcher %d: %v after %v", i, err, seen)
					return
				}
				if change.Seq <= last || change.Object.Org != "acme" {
					t.Errorf("watcher %d: change %d of %q after %d", i, change.Seq, change.Object.Org, last)
				}
				last = change.Seq
				if change.Op == "create" && change.Object.Kind == "instance" { // besides its operation
					seen = append(seen, change.Object.Name)
				}
				if len(seen) == orders {
					break
				}
			}
			if got := fmt.Sprint(seen); got != "[d0 d1 d2 d3 d4]" {
				t.Errorf("watcher %d saw %s", i, got)
			}
		})
	}
	us, them := dial(t, s.URL(), ours), dial(t, s.URL(), theirs)
	for i := range orders {
		mustOrder(t, them, fmt.Sprintf("e%d", i))
		mustOrder(t, us, fmt.Sprintf("d%d", i))
	}
	wg.Wait()
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ends with code %d", code)
	}
}
