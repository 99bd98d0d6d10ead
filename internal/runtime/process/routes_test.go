package process_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/droverhq/drover/internal/runtime"
)

func TestRoutes(t *testing.T) {
	dir := t.TempDir()
	rt, stop := open(t, dir)
	defer stop()
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: doc("Rex.dinosaurs.localhost", "1", nil)})
	defer remove(t, rt, "a")
	apply(t, rt, runtime.Item{ID: "b", Generation: 1, Token: 1, Body: doc("sick.localhost", "1", map[string]string{"ROLE": "linger"})})
	defer remove(t, rt, "b")
	await(t, rt, "a", is(runtime.Ready))
	server := httptest.NewServer(rt.Routes())
	defer server.Close()
	ask := func(host, path string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("X-Forwarded-For", "6.6.6.6")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}

	t.Run("headers", func(t *testing.T) {
		for _, host := range []string{"rex.dinosaurs.localhost", "REX.dinosaurs.localhost:8080", "rex.dinosaurs.localhost."} {
			res := ask(host, "/headers")
			var h http.Header
			err := json.NewDecoder(res.Body).Decode(&h)
			res.Body.Close()
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("%s: %d, %v", host, res.StatusCode, err)
			}
			if h.Get("Host") != host || h.Get("X-Forwarded-Host") != host || h.Get("X-Forwarded-Proto") != "http" || h.Get("X-Forwarded-For") != "127.0.0.1" {
				t.Errorf("%s: headers %v", host, h)
			}
		}
	})
	t.Run("unknown", func(t *testing.T) {
		for _, host := range []string{"nobody.localhost", "", "a", server.Listener.Addr().String()} {
			res := ask(host, "/")
			b, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != 404 || string(b) != "no such route\n" {
				t.Errorf("%q: %d %q", host, res.StatusCode, b)
			}
		}
	})
	t.Run("not ready", func(t *testing.T) {
		res := ask("sick.localhost", "/")
		res.Body.Close()
		if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
			t.Errorf("%d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
		}
	})
	t.Run("stream", func(t *testing.T) {
		res := ask("rex.dinosaurs.localhost", "/stream")
		defer res.Body.Close()
		if line, err := bufio.NewReader(res.Body).ReadString('\n'); line != "first\n" {
			t.Errorf("got %q, %v before the answer's end", line, err)
		}
	})
	t.Run("upgrade", func(t *testing.T) {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /upgrade HTTP/1.1\r\nHost: rex.dinosaurs.localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		r := bufio.NewReader(c)
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %v, %v", res, err)
		}
		fmt.Fprintln(c, "roar")
		if line, err := r.ReadString('\n'); line != "ROAR\n" {
			t.Errorf("got %q, %v", line, err)
		}
	})
	t.Run("no longer healthy", func(t *testing.T) {
		sick := filepath.Join(dir, "a", "data", "sick")
		if err := os.WriteFile(sick, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		await(t, rt, "a", is(runtime.Error))
		res := ask("rex.dinosaurs.localhost", "/")
		res.Body.Close()
		if res.StatusCode != 503 {
			t.Errorf("an unhealthy instance answers %d", res.StatusCode)
		}
	})
}

// TestRouteOfTwo is about an instance that was deleted and ordered anew under the
// same name: for a while both have the host.
func TestRouteOfTwo(t *testing.T) {
	rt, stop := open(t, t.TempDir())
	defer stop()
	server := httptest.NewServer(rt.Routes())
	defer server.Close()
	pid := func() string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/pid", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "rex.localhost"
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return fmt.Sprint(res.StatusCode, " ", string(b))
	}
	apply(t, rt, runtime.Item{ID: "old", Generation: 1, Token: 1, Body: doc("rex.localhost", "1", nil)})
	await(t, rt, "old", is(runtime.Ready))
	first := pid()
	apply(t, rt, runtime.Item{ID: "new", Generation: 1, Token: 1, Body: doc("rex.localhost", "1", map[string]string{"ROLE": "linger"})})
	if got := pid(); got != first {
		t.Errorf("while the newer one is not ready the older one answers, got %q, want %q", got, first)
	}
	remove(t, rt, "new")
	apply(t, rt, runtime.Item{ID: "newer", Generation: 1, Token: 1, Body: doc("rex.localhost", "1", nil)})
	await(t, rt, "newer", is(runtime.Ready))
	second := pid()
	if second == first {
		t.Error("the older one still answers")
	}
	remove(t, rt, "old")
	if got := pid(); got != second {
		t.Errorf("after the older one has gone: %q, want %q", got, second)
	}
	remove(t, rt, "newer")
	if got := pid(); got != "404 no such route\n" {
		t.Errorf("after both have gone: %q", got)
	}
}
