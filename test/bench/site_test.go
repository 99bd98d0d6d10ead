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
	"github.com/droverhq/drover/test/consul"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

// sites is a primary with its secondary.
type sites struct {
	first, second *postgres.Server
	a, b          *drover.Server
}

func newSites(t *testing.T, args ...string) sites {
	t.Helper()
	var s sites
	s.first = postgres.Start(t)
	dsn := postgres.Fresh(t, s.first.URL("postgres"))
	name := dsn[strings.LastIndex(dsn, "/")+1 : strings.LastIndex(dsn, "?")]
	s.second = s.first.Standby(t, "second")
	key := filepath.Join(t.TempDir(), "master.key")
	s.a = drover.Serve(t, append([]string{"--database", s.first.URL(name), "--master-key-file", key, "--site", "east", "--primary"}, args...)...)
	s.b = drover.Serve(t, append([]string{"--database", s.second.URL(name), "--master-key-file", key, "--site", "west", "--primary-url", s.a.URL()}, args...)...)
	drover.Until(t, "the secondary's token", func() bool { _, err := s.b.AdminToken(); return err == nil })
	return s
}

// promoted ends the primary's site, and tells how long it took until the other one took a
// write.
func (s sites) promoted(t *testing.T, args ...string) time.Duration {
	t.Helper()
	to := s.b.Client(t)
	gone := time.Now()
	s.a.Kill()
	s.first.Kill()
	if stdout, stderr, code := s.b.Run(append([]string{"dr", "promote"}, args...)...); code != 0 {
		t.Fatalf("drover dr promote: %d %s%s", code, stdout, stderr)
	}
	if _, err := to.Create(t.Context(), "dinosaurs", v1.CreateInstance{Name: "after"}); err != nil {
		t.Fatal(err)
	}
	return time.Since(gone)
}

// TestSites measures how far the secondary's reads are behind at 500 changes a second or
// more, and how long it takes from the end of the primary's site until the other one takes
// writes.
func TestSites(t *testing.T) {
	s := newSites(t)
	from, to := s.a.Client(t), s.b.Client(t)
	before, err := from.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	// An order without a cluster is three changes or so.
	const seconds, orders, least = 20, 200, 500
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
	after, err := from.Ledger(t.Context()) // when the last was written, and not when it was seen
	took := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	<-seen
	if len(lags) == 0 {
		t.Fatal("nothing was seen")
	}
	slices.Sort(lags)
	rate := float64(after.Seq-before.Seq) / took.Seconds()
	if rate < least {
		t.Errorf("there were %.0f changes a second, and the figure is for %d: nothing is said by it", rate, least)
	}
	report(fmt.Sprintf("read lag of the secondary, %.0f changes/s", rate), "PostgreSQL",
		fmt.Sprintf("p50 %s, p99 %s", lags[len(lags)/2].Round(time.Millisecond), lags[len(lags)*99/100].Round(time.Millisecond)), "p99 < 500 ms at 500 changes/s")
	report("the secondary takes writes after the primary's site is gone, by an operator's word", "PostgreSQL",
		s.promoted(t, "--primary-is-gone").Round(time.Millisecond).String(), "< 10 s")
}

// TestSitesWithAWitness measures the same where nobody gives a word: the lease of the site
// that is gone has to end.
func TestSitesWithAWitness(t *testing.T) {
	s := newSites(t, "--witness", "consul:"+consul.Start(t).URL+"/drover/leader")
	report("the secondary takes writes after the primary's site is gone, by the witness's lease", "PostgreSQL",
		s.promoted(t).Round(time.Millisecond).String(), "< 10 s")
}
