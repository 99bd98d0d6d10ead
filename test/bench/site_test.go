//go:build bench

package bench

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

// TestSites measures how far the secondary's reads are behind at some 500 changes a
// second, and how long it takes from the end of the primary's site until the other one
// takes writes.
func TestSites(t *testing.T) {
	first := postgres.Start(t)
	dsn := postgres.Fresh(t, first.URL("postgres"))
	name := dsn[strings.LastIndex(dsn, "/")+1 : strings.LastIndex(dsn, "?")]
	second := first.Standby(t, "second")
	key := filepath.Join(t.TempDir(), "master.key")
	a := drover.Serve(t, "--database", first.URL(name), "--master-key-file", key, "--primary")
	b := drover.Serve(t, "--database", second.URL(name), "--master-key-file", key, "--primary-url", a.URL())
	drover.Until(t, "the secondary's token", func() bool { _, err := b.AdminToken(); return err == nil })
	from, to := a.Client(t), b.Client(t)
	before, err := from.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	// An order without a cluster is three changes or so.
	const seconds, orders = 20, 170
	var mu sync.Mutex
	written := map[string]time.Time{} // when it was acknowledged
	var lags []time.Duration
	seen := make(chan struct{})
	go func() { // ends when all were seen
		defer close(seen)
		n := 0
		for c, err := range to.Watch(t.Context(), client.WatchOptions{After: before.Seq}) {
			now := time.Now()
			if err != nil {
				return
			}
			if c.Object.Kind != "instance" || c.Object.Version != 1 {
				continue
			}
			mu.Lock()
			if at, ok := written[c.Object.Name]; ok {
				lags = append(lags, now.Sub(at))
			} else {
				lags = append(lags, 0) // it was seen there before its own caller had the answer
			}
			mu.Unlock()
			if n++; n == seconds*orders {
				return
			}
		}
	}()
	began := time.Now()
	var wg sync.WaitGroup
	tick := time.NewTicker(time.Second / orders)
	defer tick.Stop()
	for i := range seconds * orders {
		<-tick.C
		wg.Go(func() {
			name := fmt.Sprintf("d%d", i)
			if _, err := from.Create(t.Context(), "dinosaurs", v1.CreateInstance{Name: name}); err != nil {
				t.Error(err)
			}
			mu.Lock()
			written[name] = time.Now()
			mu.Unlock()
		})
	}
	wg.Wait()
	took := time.Since(began)
	<-seen
	after, err := from.Ledger(t.Context())
	if err != nil || len(lags) == 0 {
		t.Fatalf("nothing was seen: %v", err)
	}
	slices.Sort(lags)
	t.Logf("| read lag of the secondary, %.0f changes/s | p50 %s, p99 %s |", float64(after.Seq-before.Seq)/took.Seconds(),
		lags[len(lags)/2].Round(time.Millisecond), lags[len(lags)*99/100].Round(time.Millisecond))

	gone := time.Now()
	a.Kill()
	first.Kill()
	if stdout, stderr, code := b.Run("dr", "promote", "--primary-is-gone"); code != 0 {
		t.Fatalf("drover dr promote: %d %s%s", code, stdout, stderr)
	}
	if _, err := to.Create(t.Context(), "dinosaurs", v1.CreateInstance{Name: "after"}); err != nil {
		t.Fatal(err)
	}
	t.Logf("| promotion: from the end of the primary's site to a write at the other | %s |", time.Since(gone).Round(time.Millisecond))
}
