package httpapi_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/ledger"
)

// Outside agents number nothing, so nothing of theirs is late: neither after
// the server's clock was set back, nor beside another report.
func TestOutsideReportsAreNeverLate(t *testing.T) {
	var back atomic.Int64
	start := time.Now()
	r := newRig(t, func(c *httpapi.Config) {
		c.Clock = func() time.Time { return start.Add(-time.Duration(back.Add(1)) * time.Second) }
	})
	ctx := ledger.WithCause(access.With(t.Context(), access.Principal{User: "root", Admin: true}), ledger.ByRequest("test"))
	if _, err := r.clusters.Register(ctx, "c1", cluster.Spec{Provider: "local", Region: "local"}); err != nil {
		t.Fatal(err)
	}
	token := r.token(t, access.Claims{Cluster: "c1"})
	put := func() int {
		return r.do(t, token, "PUT", api+"/agent-clusters/c1/status", `{"conditions": [{"type": "Ready", "status": "True"}]}`).Code
	}
	for i := range 3 {
		if got := put(); got != 200 {
			t.Fatalf("report %d with the clock set back answers %d", i, got)
		}
	}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if got := put(); got != 200 {
				t.Errorf("one of several reports at once answers %d", got)
			}
		})
	}
	wg.Wait()
}
