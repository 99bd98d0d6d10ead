package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestDinosaur(t *testing.T) {
	env := map[string]string{"DINOSAUR_NAME": "rex<script>", "DINOSAUR_SPECIES": "Tyrannosaurus", "DINOSAUR_BORN": "2026-11-15T04:00:00Z", "DROVER_INSTANCE": "i-1"}
	for k, v := range env {
		t.Setenv(k, v)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveDinosaur(ctx, l) }()
	get := func(path string) (*http.Response, string) {
		t.Helper()
		res, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res, string(b)
	}
	if res, _ := get("/healthz"); res.StatusCode != 200 || res.Header.Get("Drover-Instance") != "i-1" {
		t.Errorf("health: %d, instance %q", res.StatusCode, res.Header.Get("Drover-Instance"))
	}
	_, page := get("/")
	for _, want := range []string{"rex&lt;script&gt;", "Tyrannosaurus", " old."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	if res, _ := get("/nothing"); res.StatusCode != 404 {
		t.Errorf("another path: %d", res.StatusCode)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("a stopped dinosaur: %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("it does not stop")
	}
}
