package httpapi_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/droverhq/drover/internal/httpapi"
)

// The figures to keep: 0.15 ms of server CPU for one, 1.5 ms for a hundred,
// both with SQLite inside the process.
func BenchmarkGetOne(b *testing.B) {
	benchmark(b, func(id string) string { return dinosaurs + "/" + id })
}
func BenchmarkList100(b *testing.B) { benchmark(b, func(string) string { return dinosaurs }) }

func benchmark(b *testing.B, path func(id string) string) {
	r := newRig(b, func(c *httpapi.Config) { c.Log = slog.New(slog.DiscardHandler) })
	alice := r.user(b, "alice", "acme")
	var id string
	for i := range 100 {
		id = r.create(b, alice, fmt.Sprintf("rex-%d", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		req := httptest.NewRequest(http.MethodGet, path(id), nil)
		req.Header.Set("Authorization", "Bearer "+alice)
		if w := r.send(b, req); w.Code != 200 {
			b.Fatal(w.Code, w.Body)
		}
	}
}
