package httpapi_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
)

func TestTokenNeeded(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	for path, open := range map[string]bool{
		"/api/dinosaurs_mgmt": true, api: true, api + "/openapi": true, api + "/errors": true, api + "/errors/7": true,
		"/healthz": true, "/readyz": true, "/metrics": true, "/.well-known/jwks.json": true,
		dinosaurs: false, dinosaurs + "/x": false, dinosaurs + "/errors": false, dinosaurs + "/openapi": false, api + "/status": false,
		api + "/cloud_providers": false, api + "/errors/7/x": false, api + "/agent-clusters/c1": false, api + "/nope": false,
		"/api/nope": false, "/api/nope/v1": false, "/api/": false, "/api/v1": false, "/api/v1/errors": false, "/api/v1/openapi": false,
		"/api/v1/kinds": false, "/api/v1/instances": false, "/api/dinosaurs_mgmt/v1/dinosaurs/../errors/x/y": false,
	} {
		t.Run(path, func(t *testing.T) {
			w := r.do(t, "", "GET", path, "")
			if open {
				w.ok(200)
				return
			}
			w.refused("it is not public", 401, "15")
			if w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Error("the answer does not say how to authenticate")
			}
		})
	}
	for name, tc := range map[string]struct {
		reason  string
		headers map[string]string
		status  int
	}{
		"bearer":         {"the usual way", map[string]string{"Authorization": "Bearer " + alice}, 200},
		"lower":          {"schemes have no case", map[string]string{"Authorization": "bearer " + alice}, 200},
		"cookie":         {"a browser's way", map[string]string{"Cookie": "cs_jwt=" + alice}, 200},
		"basic":          {"passwords are not taken", map[string]string{"Authorization": "Basic YTpi"}, 401},
		"basic + cookie": {"the header decides where both are", map[string]string{"Authorization": "Basic YTpi", "Cookie": "cs_jwt=" + alice}, 401},
		"no scheme":      {"a token alone says nothing", map[string]string{"Authorization": alice}, 401},
		"empty":          {"nothing", map[string]string{"Authorization": "Bearer "}, 401},
		"damaged":        {"a changed token", map[string]string{"Authorization": "Bearer " + alice[:len(alice)-4] + "AAAA"}, 401},
		"huge":           {"a header of 100 kB", map[string]string{"Authorization": "Bearer " + strings.Repeat("A", 100_000)}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest("GET", dinosaurs, nil)
			for k, v := range tc.headers {
				req.Header.Set(k, v)
			}
			if w := r.send(t, req); w.Code != tc.status {
				t.Errorf("%s: got %d", tc.reason, w.Code)
			}
		})
	}
}

func TestCookieOfAnotherOrigin(t *testing.T) {
	r := newRig(t)
	req := httptest.NewRequest("POST", dinosaurs+"?async=true", strings.NewReader(`{"name":"rex"}`))
	req.Header.Set("Cookie", "cs_jwt="+r.user(t, "alice", "acme"))
	req.Header.Set("Origin", "https://evil.example")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	before := r.seq(t)
	r.send(t, req).refused("a foreign page must not order with a browser's cookie", 401, "15")
	if r.seq(t) != before {
		t.Error("it was ordered all the same")
	}
}

func TestAgentsAreNoUsers(t *testing.T) {
	r := newRig(t)
	agent := r.token(t, access.Claims{Cluster: "c1"})
	r.do(t, agent, "GET", dinosaurs, "").refused("an agent's token opens its cluster alone", 403, "11")
	r.do(t, agent, "POST", dinosaurs+"?async=true", `{"name":"rex"}`).refused("an agent orders nothing", 403, "11")
}

func TestRequestIDs(t *testing.T) {
	r := newRig(t)
	for name, tc := range map[string]struct {
		reason, sent string
		kept         bool
	}{
		"sane":    {"callers may name their requests", "req-1234.ABC_def", true},
		"none":    {"else we do", "", false},
		"short":   {"a short one tells nobody anything", "1", false},
		"long":    {"a long one would not fit the ledger", strings.Repeat("a", 65), false},
		"newline": {"one with a newline could forge log lines", "abcdefgh\nlevel=ERROR", false},
		"utf-8":   {"letters alone", "abcdefghä", false},
		"quotes":  {"no quotes", `abcdefgh"x`, false},
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest("GET", "/healthz", nil)
			if tc.sent != "" {
				req.Header["X-Request-Id"] = []string{tc.sent}
			}
			got := r.send(t, req).Header().Get("X-Request-ID")
			if (got == tc.sent) != tc.kept || len(got) < 8 {
				t.Errorf("%s: sent %q, got %q", tc.reason, tc.sent, got)
			}
		})
	}
}

func TestLog(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	r.do(t, alice, "GET", dinosaurs+"?search=name%3Dtopsecret&token=hunter2", "")
	r.do(t, alice, "POST", dinosaurs+"?async=true", `{"name":"hidden!","species":"hushhush"}`)
	r.do(t, alice+"x", "GET", dinosaurs, "")
	got := r.logs.String()
	for _, want := range []string{"method=GET", "method=POST", "path=" + dinosaurs, "status=200", "status=400", "status=401", "user=alice", "org=acme", "took=", "request="} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %s:\n%s", want, got)
		}
	}
	for _, secret := range []string{"topsecret", "hunter2", "hushhush", "hidden", alice[:30], alice[len(alice)-30:]} {
		if strings.Contains(got, secret) {
			t.Errorf("the log holds %q:\n%s", secret, got)
		}
	}
}

func TestPanic(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	r.ledger.set(func(context.Context) error { panic("the password is 1234") })
	e := r.do(t, alice, "GET", dinosaurs+"/rex", "").refused("a defect", 500, "9")
	if e.Reason != "internal error" {
		t.Errorf("a user reads %q", e.Reason)
	}
	if !strings.Contains(r.logs.String(), "panic in a handler") {
		t.Error("the log does not hold the panic")
	}
	r.ledger.set(nil)
	r.do(t, alice, "GET", dinosaurs, "").ok(200)
}

func TestStoreAway(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	id := r.create(t, alice, "rex")
	r.ledger.set(func(context.Context) error {
		return fault.New(fault.Unavailable, "dial tcp 10.0.0.7:5432: connection refused").Because("outcome-unknown")
	})
	for _, q := range [][3]string{
		{"GET", dinosaurs, ""}, {"GET", dinosaurs + "/" + id, ""}, {"POST", dinosaurs + "?async=true", `{"name":"b"}`},
		{"PATCH", dinosaurs + "/" + id, `{"owner":"bob"}`}, {"DELETE", dinosaurs + "/" + id + "?async=true", ""},
		{"GET", api + "/status", ""}, {"GET", "/readyz", ""},
	} {
		w := r.do(t, alice, q[0], q[1], q[2])
		e := w.refused(q[0]+" "+q[1], 503, "9")
		if w.Header().Get("Retry-After") == "" || strings.Contains(e.Reason, "10.0.0.7") {
			t.Errorf("%s %s: Retry-After %q, reason %q", q[0], q[1], w.Header().Get("Retry-After"), e.Reason)
		}
	}
	r.do(t, "", "GET", "/healthz", "").ok(200)
	r.ledger.set(nil)
	r.do(t, "", "GET", "/readyz", "").ok(200)
	r.do(t, alice, "GET", dinosaurs+"/"+id, "").ok(200)
}

func TestNotReadyWhileWritesFail(t *testing.T) {
	var full error = fault.New(fault.Unavailable, "the disk of 10.0.0.7 is full")
	r := newRig(t, func(c *httpapi.Config) { c.Writable = func() error { return full } })
	e := r.do(t, "", "GET", "/readyz", "").refused("GET /readyz", 503, "9")
	if !strings.Contains(e.Reason, "takes no writes") || strings.Contains(e.Reason, "10.0.0.7") {
		t.Errorf("reason %q", e.Reason)
	}
	full = nil
	r.do(t, "", "GET", "/readyz", "").ok(200)
}

func TestSlowRequestEnds(t *testing.T) {
	r := newRig(t, func(c *httpapi.Config) { c.Timeout = time.Millisecond })
	alice := r.user(t, "alice", "acme")
	r.ledger.set(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	r.do(t, alice, "GET", dinosaurs+"/rex", "").refused("a store that does not answer must not keep a client", 503, "9")
}

func TestRequestsInFlight(t *testing.T) {
	r := newRig(t, func(c *httpapi.Config) { c.InFlight = 1 })
	alice := r.user(t, "alice", "acme")
	r.do(t, alice, "GET", dinosaurs, "").ok(200)
	inside, leave := make(chan struct{}), make(chan struct{})
	r.ledger.set(func(context.Context) error {
		inside <- struct{}{}
		<-leave
		return nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { r.do(t, alice, "GET", dinosaurs+"/nope", "").refused("the first", 404, "7") })
	<-inside
	r.ledger.set(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/healthz", nil))
	if w.Code != 503 {
		t.Errorf("a client that left while it waited got %d", w.Code)
	}
	wg.Go(func() { r.do(t, "", "GET", "/healthz", "").ok(200) })
	close(leave)
	wg.Wait()
}

func TestRate(t *testing.T) {
	now := time.Now()
	r := newRig(t, func(c *httpapi.Config) {
		c.Rate, c.Burst = 0.5, 2
		c.Clock = func() time.Time { return now }
	})
	alice, bob := r.user(t, "alice", "acme"), r.user(t, "bob", "acme")
	for range 2 {
		r.do(t, alice, "GET", dinosaurs, "").ok(200)
	}
	w := r.do(t, alice, "GET", dinosaurs, "")
	w.refused("the third at once", 429, "429")
	if w.Header().Get("Retry-After") != "2" {
		t.Errorf("come again after %q seconds, want 2", w.Header().Get("Retry-After"))
	}
	r.do(t, bob, "GET", dinosaurs, "").ok(200)
	for range 5 {
		r.do(t, "", "GET", "/healthz", "").ok(200)
	}
	for range 2 {
		r.do(t, "forged", "GET", dinosaurs, "").refused("a bad token", 401, "15")
	}
	r.do(t, "forged", "GET", dinosaurs, "").refused("guessing tokens is limited by address", 429, "429")
	now = now.Add(2 * time.Second)
	r.do(t, alice, "GET", dinosaurs, "").ok(200)
	r.do(t, alice, "GET", dinosaurs, "").refused("refused requests use nothing up, granted ones do", 429, "429")
}

func TestCORS(t *testing.T) {
	r := newRig(t)
	req := httptest.NewRequest("OPTIONS", dinosaurs, nil)
	req.Header.Set("Origin", "https://console.example")
	req.Header.Set("Access-Control-Request-Method", "PATCH")
	h := r.send(t, req).ok(200).Header()
	got := map[string]string{}
	for k := range h {
		if strings.HasPrefix(k, "Access-Control-") {
			got[k] = h.Get(k)
		}
	}
	want := map[string]string{
		"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "DELETE, GET, PATCH, POST",
		"Access-Control-Allow-Headers": "Authorization, Content-Type", "Access-Control-Max-Age": "600",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	req = httptest.NewRequest("GET", dinosaurs, nil)
	req.Header.Set("Origin", "https://console.example")
	if w := r.send(t, req); w.Code != 401 || w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("a page must be able to read errors, too: %d %v", w.Code, w.Header())
	}
	r.do(t, r.user(t, "alice", "acme"), "OPTIONS", dinosaurs, "").refused("OPTIONS without an origin is just a method", 405, "10")
}

func TestGzip(t *testing.T) {
	r := newRig(t)
	get := func(path, accept string) (string, string) {
		req := httptest.NewRequest("GET", path, nil)
		req.Header.Set("Accept-Encoding", accept)
		w := r.send(t, req).ok(200)
		return w.Header().Get("Content-Encoding"), w.Body.String()
	}
	_, plain := get(api+"/errors", "")
	for name, tc := range map[string]struct{ reason, path, accept, want string }{
		"large":      {"worth it", api + "/errors", "br, gzip", "gzip"},
		"small":      {"not worth it", api + "/errors/7", "gzip", ""},
		"not wanted": {"the client cannot", api + "/errors", "br", ""},
		"not at all": {"the client will not", api + "/errors", "gzip;q=0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, body := get(tc.path, tc.accept)
			if got != tc.want {
				t.Fatalf("%s: encoded as %q", tc.reason, got)
			}
			if got == "" {
				return
			}
			z, err := gzip.NewReader(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if data, err := io.ReadAll(z); err != nil || string(data) != plain {
				t.Errorf("%s: unpacked it is another answer (%v)", tc.reason, err)
			}
		})
	}
}

func TestMetricsHaveTemplates(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	for i := range 50 {
		r.do(t, alice, "GET", fmt.Sprintf("%s/id-%d", dinosaurs, i), "")
		r.do(t, alice, "GET", fmt.Sprintf("/api/group-%d/v1/x", i), "")
		r.do(t, alice, "GET", fmt.Sprintf("/nowhere-%d", i), "")
		r.do(t, alice, fmt.Sprintf("METHOD%d", i), dinosaurs, "")
	}
	body := r.do(t, "", "GET", "/metrics", "").ok(200).Body.String()
	if n := strings.Count(body, "drover_http_requests_total{"); n > 8 {
		t.Errorf("what clients made up became %d series:\n%s", n, body)
	}
	if want := `drover_http_requests_total{method="GET",route="/api/dinosaurs_mgmt/v1/dinosaurs/{id}",status="404"} 50`; !strings.Contains(body, want) {
		t.Errorf("no %s in\n%s", want, body)
	}
}

func TestKeysArePublished(t *testing.T) {
	r := newRig(t)
	var set struct{ Keys []map[string]any }
	r.do(t, "", "GET", "/.well-known/jwks.json", "").ok(200).into(&set)
	if len(set.Keys) != 1 || set.Keys[0]["kty"] != "EC" || set.Keys[0]["d"] != nil {
		t.Errorf("published %v", set.Keys)
	}
}

func TestIncompleteConfig(t *testing.T) {
	if _, err := httpapi.New(httpapi.Config{}); err == nil {
		t.Error("an API without anything behind it was made")
	}
}

// TestManyClients: every one of 512 clients at once is answered, over real
// connections, also while the server works on few at a time.
func TestManyClients(t *testing.T) {
	for _, places := range []int{0, 16} {
		t.Run(fmt.Sprint(places), func(t *testing.T) { manyClients(t, places) })
	}
}

func manyClients(t *testing.T, places int) {
	const clients = 512
	r := newRig(t, func(c *httpapi.Config) { c.InFlight = places })
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: 2 * time.Minute}
	t.Cleanup(client.CloseIdleConnections)
	alice := r.user(t, "alice", "acme")
	ask := func(method, path, body string) (int, error) {
		req, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Authorization", "Bearer "+alice)
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, err
	}
	ready, together := sync.WaitGroup{}, make(chan struct{})
	var wg sync.WaitGroup
	for i := range clients {
		ready.Add(1)
		wg.Go(func() {
			ready.Done()
			<-together
			if got, err := ask("POST", dinosaurs+"?async=true", fmt.Sprintf(`{"name":"rex-%d"}`, i)); err != nil || got != 202 {
				t.Errorf("client %d: order answered %d, %v", i, got, err)
			}
			if got, err := ask("GET", dinosaurs+"?size=5", ""); err != nil || got != 200 {
				t.Errorf("client %d: list answered %d, %v", i, got, err)
			}
		})
	}
	ready.Wait()
	close(together)
	wg.Wait()
	if list := r.do(t, alice, "GET", dinosaurs+"?size=1", "").ok(200).object(); list["total"] != float64(clients) {
		t.Errorf("%d orders were acknowledged, %v are there", clients, list["total"])
	}
}
