package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/ledger"
)

// TestAttacks: whatever is thrown at the API, the answer is a 4xx and nothing
// is written.
func TestAttacks(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	r.create(t, alice, "rex")
	post := dinosaurs + "?async=true"
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	for name, tc := range map[string]struct {
		reason             string
		method, path, body string
		code               string
	}{
		"10 MB":          {"a body has a bound", "POST", post, `{"name":"` + strings.Repeat("a", 10<<20) + `"}`, "17"},
		"1 MB name":      {"a megabyte of name is more than a body", "POST", post, `{"name":"` + strings.Repeat("a", 1<<20) + `"}`, "17"},
		"900 kB name":    {"less is still too long", "POST", post, `{"name":"` + strings.Repeat("a", 900<<10) + `"}`, "34"},
		"deep":           {"depth has a bound", "POST", post, `{"name":"a","species":` + deep + `}`, "17"},
		"wide":           {"ten thousand fields are not known", "POST", post, wide(10_000), "37"},
		"proto":          {"no field is special", "POST", post, `{"name":"a","__proto__":{"admin":true}}`, "37"},
		"inner fields":   {"what the server sets cannot be ordered", "POST", post, `{"name":"a","owner":"root","status":"ready","id":"1"}`, "37"},
		"huge number":    {"a number beyond all bounds is no text", "POST", post, `{"name":1e999999}`, "17"},
		"dropped table":  {"SQL is no name", "POST", post, `{"name":"a'; DROP TABLE object; --"}`, "32"},
		"host header":    {"nor is a host", "POST", post, `{"name":"a.evil.example"}`, "32"},
		"template":       {"nor is an expression", "POST", post, `{"name":"${instance.id}"}`, "32"},
		"1 MB search":    {"a search has a bound", "GET", dinosaurs + "?search=" + strings.Repeat("a", 1<<20), "", "23"},
		"10000 parens":   {"so have its parentheses", "GET", dinosaurs + "?search=" + strings.Repeat("(", 8000), "", "23"},
		"sleep":          {"no function is called", "GET", dinosaurs + "?search=" + url.QueryEscape("name = 'a' OR pg_sleep(10) = 1"), "", "23"},
		"stacked":        {"one statement, and not theirs", "GET", dinosaurs + "?search=" + url.QueryEscape("name = a'; DELETE FROM object WHERE 'a'='a"), "", "23"},
		"order function": {"nor here", "GET", dinosaurs + "?orderBy=" + url.QueryEscape("(SELECT 1)"), "", "17"},
		"many orders":    {"ten thousand columns", "GET", dinosaurs + "?orderBy=" + strings.Repeat("name,", 10_000), "", "17"},
		"overflow":       {"page times size must not wrap around", "GET", dinosaurs + "?page=9223372036854775807&size=65500", "", "17"},
	} {
		t.Run(name, func(t *testing.T) {
			before := r.seq(t)
			w := r.do(t, alice, tc.method, tc.path, tc.body)
			w.refused(tc.reason, 400, tc.code)
			if w.Body.Len() > 4096 {
				t.Errorf("%s: the answer echoes %d bytes", tc.reason, w.Body.Len())
			}
			if after := r.seq(t); after != before {
				t.Errorf("%s: %d changes were written", tc.reason, after-before)
			}
		})
	}
}

func wide(n int) string {
	var b strings.Builder
	b.WriteString(`{"name":"a"`)
	for i := range n {
		fmt.Fprintf(&b, `,"f%d":%d`, i, i)
	}
	return b.String() + "}"
}

// TestHostileSearches: values full of SQL find what they say and nothing else.
func TestHostileSearches(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	r.create(t, alice, "rex")
	for _, value := range []string{`' OR '1'='1`, `%'; DROP TABLE object; --`, `\`, `\\' OR 1=1 --`, `"`, "`", `$1`, `?`, `:a`, `/* */`, "a\nb"} {
		search := "name = '" + strings.ReplaceAll(value, "'", `\'`) + "'"
		w := r.do(t, alice, "GET", dinosaurs+"?search="+url.QueryEscape(search), "")
		if w.Code != 200 && w.Code != 400 {
			t.Errorf("%q: %d %s", search, w.Code, w.Body)
		}
		if w.Code == 200 && w.object()["total"] != 0.0 {
			t.Errorf("%q found something", search)
		}
	}
	if list := r.do(t, alice, "GET", dinosaurs, "").ok(200).object(); list["total"] != 1.0 {
		t.Errorf("after all that there are %v", list["total"])
	}
}

func TestHeaders(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	for name, edit := range map[string]func(http.Header){
		"two tokens":       func(h http.Header) { h["Authorization"] = []string{"Basic eDp5", "Bearer " + alice} },
		"null byte":        func(h http.Header) { h.Set("Authorization", "Bearer \x00"+alice) },
		"many cookies":     func(h http.Header) { h.Del("Authorization"); h.Set("Cookie", strings.Repeat("cs_jwt=x; ", 5000)) },
		"odd range":        func(h http.Header) { h.Set("Range", "bytes=0-"+strings.Repeat("9", 1000)) },
		"odd encoding":     func(h http.Header) { h.Set("Accept-Encoding", strings.Repeat("gzip;q=", 5000)) },
		"odd content type": func(h http.Header) { h.Set("Content-Type", strings.Repeat("\xff", 1000)) },
		"odd origin":       func(h http.Header) { h.Set("Origin", "null\r\nX-Evil: 1") },
		"forwarded":        func(h http.Header) { h.Set("X-Forwarded-User", "root"); h.Set("X-Forwarded-For", "127.0.0.1") },
		"override":         func(h http.Header) { h.Set("X-HTTP-Method-Override", "DELETE") },
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest("GET", dinosaurs, nil)
			req.Header.Set("Authorization", "Bearer "+alice)
			edit(req.Header)
			w := r.send(t, req)
			if w.Code != 200 && w.Code != 401 {
				t.Errorf("got %d: %s", w.Code, w.Body)
			}
			for k, vs := range w.Header() {
				if strings.ContainsAny(strings.Join(vs, ""), "\r\n") {
					t.Errorf("header %s holds a line break", k)
				}
			}
		})
	}
}

// TestRawConnections: what no client library would send.
func TestRawConnections(t *testing.T) {
	r := newRig(t)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	alice := r.user(t, "alice", "acme")
	for name, request := range map[string]string{
		"body shorter than said": "POST " + dinosaurs + "?async=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + alice + "\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{\"name\":\"a\"",
		"two lengths":            "POST " + dinosaurs + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
		"length and chunks":      "POST " + dinosaurs + " HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
		"no host":                "GET / HTTP/1.1\r\n\r\n",
		"bad path":               "GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"absolute":               "GET http://evil.example/api/v1/instances HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"star":                   "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"connect":                "CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"dots":                   "GET /api/dinosaurs_mgmt/v1/errors/../dinosaurs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"encoded dots":           "GET /api/dinosaurs_mgmt/v1/errors/%2e%2e/dinosaurs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"encoded slash":          "GET /api/dinosaurs_mgmt/v1/errors%2f..%2fdinosaurs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			before := r.seq(t)
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			_ = conn.(*net.TCPConn).CloseWrite()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return // the server hung up: that is an answer, too
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode/100 == 5 || bytes.Contains(body, []byte(`"items"`)) {
				t.Errorf("got %d: %s", resp.StatusCode, body)
			}
			if r.written(t, before) != 0 {
				t.Error("something was written")
			}
		})
	}
}

// TestSlowBody: a client that never finishes its body is answered all the same.
// The clock is virtual, so that a slow machine is not taken for a slow client.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, wires := newRig(t, func(c *httpapi.Config) { c.Timeout = 20 * time.Second }), newNetwork()
		web := &http.Server{Handler: r}
		go func() { _ = web.Serve(&ear{network: wires, done: make(chan struct{})}) }()
		defer web.Close()
		conn, err := wires.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		begun := time.Now()
		_, err = io.WriteString(conn, "POST "+dinosaurs+"?async=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+
			r.user(t, "alice", "acme")+"\r\nContent-Length: 100\r\n\r\n{\"name\":")
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if took := time.Since(begun); resp.StatusCode != 400 || took != 20*time.Second {
			t.Errorf("got %d after %s", resp.StatusCode, took)
		}
	})
}

func TestNamesAreClaimedOnce(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	codes := make(chan int, 16)
	for range cap(codes) {
		go func() {
			w := httptest.NewRecorder()
			req := httptest.NewRequest("POST", dinosaurs+"?async=true", strings.NewReader(`{"name":"rex"}`))
			req.Header.Set("Authorization", "Bearer "+alice)
			r.ServeHTTP(w, req)
			codes <- w.Code
		}()
	}
	count := map[int]int{}
	for range cap(codes) {
		count[<-codes]++
	}
	if count[202] != 1 || count[409] != cap(codes)-1 {
		t.Errorf("of %d orders of one name: %v", cap(codes), count)
	}
	n, err := r.ledger.Total(context.Background(), ledger.Query{Kind: "instance"})
	if err != nil || n != 1 {
		t.Errorf("%d instances are there, %v", n, err)
	}
}
