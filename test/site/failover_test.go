//go:build e2e

package site

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

// PostgreSQL fails over to its replica under load, as its own tools have it. The server
// goes on with the replica: what was acknowledged is there, and nothing runs twice.
func TestDatabaseFailsOverUnderLoad(t *testing.T) {
	first := postgres.Start(t)
	dsn, err := url.Parse(postgres.Fresh(t, first.URL("postgres")))
	if err != nil {
		t.Fatal(err)
	}
	second := first.Standby(t, "second")
	first.Synchronous(t, "second")
	dsn.Host = fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", first.Port(), second.Port())
	dsn.RawQuery += "&target_session_attrs=primary"
	s := drover.Serve(t, "--database", dsn.String(), "--master-key-file", filepath.Join(t.TempDir(), "master.key"))
	agent := drover.Join(t, s.URL(), "edge", s.Cluster(t, "edge"), "--heartbeat", "1s", "--capacity", "100000")
	c := call(t, s)

	ctx, end := context.WithCancel(t.Context())
	defer end()
	var wg sync.WaitGroup
	var h history
	h.write(ctx, &wg, c, "d", 4)
	drover.Until(t, "orders under way", func() bool { return h.count() >= 20 })
	first.Kill()
	before := h.count()
	second.Promote(t)
	drover.Until(t, "orders after the failover", func() bool { return h.count() >= before+20 })
	end()
	wg.Wait()
	t.Logf("%d were acknowledged, %d before", len(h.acts), before)
	for _, a := range h.acts {
		if got := phase(c, a.name); strings.Contains(got, "no dinosaur") {
			t.Errorf("%s was acknowledged, and is lost", a.name)
			continue
		}
		awaitPhase(t, c, a.name, "ready")
	}
	page, err := c.List(context.Background(), "dinosaurs", client.ListOptions{Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	drover.Until(t, "each to run once", func() bool { return len(drover.Instances(agent.DataDir)) >= int(page.Total) })
	if n := len(drover.Instances(agent.DataDir)); n != int(page.Total) {
		t.Errorf("%d processes run for %d instances: something was applied twice", n, page.Total)
	}
}
