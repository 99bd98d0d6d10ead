//go:build e2e

package site

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
)

// load orders until each of its callers was refused, and tells what was acknowledged.
type load struct {
	mu           sync.Mutex
	acknowledged []string
	unanswered   []string
	wg           sync.WaitGroup
}

func (l *load) start(ctx context.Context, c *client.Client, callers int, prefix string) {
	for i := range callers {
		l.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("%s%d-%d", prefix, i, n)
				err := order(ctx, c, name)
				l.mu.Lock()
				if err != nil {
					l.unanswered = append(l.unanswered, name)
				} else {
					l.acknowledged = append(l.acknowledged, name)
				}
				l.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged)
}

// The site of the primary is gone at once, server and database, under load. With
// synchronous replication nothing that was acknowledged is lost; the agent follows by
// itself, runs everything once, and the old primary cannot act when it comes back.
func TestSiteIsGone(t *testing.T) {
	w := pair(t, given{synchronous: true})
	agent := drover.Join(t, w.a.URL(), "edge", w.a.Cluster(t, "edge"), "--heartbeat", "1s", "--capacity", "100000")
	a := call(t, w.a)
	if err := order(t.Context(), a, "rex"); err != nil {
		t.Fatal(err)
	}
	awaitPhase(t, a, "rex", "ready")
	rex := drover.Instances(agent.DataDir)

	var l load
	l.start(t.Context(), a, 8, "d")
	drover.Until(t, "orders under way", func() bool { return l.count() >= 20 })
	w.a.Kill()
	w.first.Kill()
	gone := time.Now()
	l.wg.Wait()
	t.Logf("%d acknowledged, %d without an answer", len(l.acknowledged), len(l.unanswered))

	stdout, stderr, code := w.b.Run("dr", "promote", "--primary-is-gone")
	if code != 0 {
		t.Fatalf("drover dr promote: %d %s%s", code, stdout, stderr)
	}
	b := call(t, w.b)
	if err := order(t.Context(), b, "after"); err != nil {
		t.Fatalf("the promoted site takes no writes: %v", err)
	}
	t.Logf("writes again after %s: %s", time.Since(gone).Round(time.Millisecond), stdout)
	at, err := b.Site(t.Context())
	if err != nil || at.State != "leading" || at.Epoch != 2 {
		t.Errorf("the promoted site is %+v: %v", at, err)
	}
	for _, name := range l.acknowledged {
		if got := phase(b, name); strings.Contains(got, "no dinosaur") {
			t.Errorf("%s was acknowledged, and is lost: %s", name, got)
		}
	}
	awaitPhase(t, b, "after", "ready") // the agent has followed
	want := 1 + 1 + len(l.acknowledged)
	for _, name := range l.unanswered {
		if got := phase(b, name); !strings.Contains(got, "no dinosaur") {
			want++ // it was written, and nobody was told
		}
	}
	for _, name := range l.acknowledged {
		awaitPhase(t, b, name, "ready")
	}
	drover.Until(t, "each to run once", func() bool { return len(drover.Instances(agent.DataDir)) >= want })
	now := drover.Instances(agent.DataDir)
	if len(now) != want {
		t.Errorf("%d processes run, not %d: something was applied twice, or not at all", len(now), want)
	}
	for _, pid := range rex {
		if !strings.Contains(fmt.Sprint(now), fmt.Sprint(pid)) {
			t.Errorf("what ran was started anew")
		}
	}
	if stdout, stderr, code := w.b.Run("audit", "--verb", "call", "--outcome", "done", "-o", "jsonl"); code != 0 || !strings.Contains(stdout, "/api/v1/site/promote") {
		t.Errorf("who had it promoted is not on record: %d %s%s", code, stdout, stderr)
	}

	// A replica of the promoted site that is started anew leads, too: it was promoted here.
	w.b.Kill()
	w.b.Start(t)
	awaitState(t, w.b, "leading")

	// The old primary comes back as it was.
	w.first.Start(t)
	w.first.Synchronous(t, "") // nobody follows it any more
	_ = w.a.Launch()
	var old string
	drover.Until(t, "the old primary to be fenced", func() bool {
		at, err := call(t, w.a).Site(t.Context())
		old = fmt.Sprintf("%+v %v", at, err)
		return err == nil && at.State == "fenced"
	})
	if err := order(t.Context(), call(t, w.a), "split"); client.Status(err) != 421 || !strings.Contains(err.Error(), w.b.URL()) {
		t.Errorf("the old primary answers a write with %v (%s)", err, old)
	}
}
