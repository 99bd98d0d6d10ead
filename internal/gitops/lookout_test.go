package gitops_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
)

// TestOneLookForAll has many deployments of one repository, which is asked as often as
// if there were one.
func TestOneLookForAll(t *testing.T) {
	y := newYard(t)
	y.engines.by["plain"] = gitops.Engine{ID: "plain", Runtime: "kubernetes", Ready: true}
	y.hub.heads["main"] = "c1"
	y.hub.files["c1"] = map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}
	y.workspace("acme", "plain", "team-*")
	var ids []string
	for i := range 30 {
		o := shopOrder()
		o.Name, o.To = fmt.Sprint("web", i), gitops.To{Cluster: "plain", Namespace: fmt.Sprint("team-", i)}
		d, _, err := y.s.Create(anna, o)
		y.must(err)
		ids = append(ids, d.ID)
	}
	y.work(10 * time.Minute)
	// Once a minute, and once for each that came before the first answer was known.
	if n := y.hub.probes; n < 10 || n > 45 {
		t.Errorf("30 deployments asked %d times in 10 minutes", n)
	}
	before := y.hub.probes
	y.hub.heads["main"] = "c2"
	y.hub.files["c2"] = y.hub.files["c1"]
	y.must(y.s.Refresh(anna, ids[7]))
	y.work(time.Second)
	if n := y.hub.probes - before; n != 1 {
		t.Errorf("who was told to look has asked %d times", n)
	}
	if got := y.get(ids[7]).Status.Made; got[:2] != "c2" {
		t.Errorf("and has %s", got)
	}
}

// TestWhoComesLaterSharesTheNextLook holds the first question open while others come.
func TestWhoComesLaterSharesTheNextLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l gitops.Lookout
		var mu sync.Mutex
		asked := 0
		ask := func(context.Context) (func(string) (string, error), error) {
			mu.Lock()
			asked++
			n := asked
			mu.Unlock()
			time.Sleep(time.Minute) // of the bubble
			return func(revision string) (string, error) {
				if revision == "gone" {
					return "", fault.New(fault.NotFound, "no %s", revision)
				}
				return fmt.Sprintf("%s-%d", revision, n), nil
			}, nil
		}
		head := func(revision string) (string, error) {
			return l.Head(t.Context(), "repo", revision, time.Now(), ask)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := head("main"); err != nil || got != "main-1" {
				t.Errorf("the first gets %q, %v", got, err)
			}
		})
		time.Sleep(time.Second)
		for i := range 100 {
			wg.Go(func() {
				want := fmt.Sprintf("r%d-2", i%7)
				if got, err := head(fmt.Sprint("r", i%7)); err != nil || got != want {
					t.Errorf("one who came while it was asked gets %q, %v; want %q", got, err, want)
				}
			})
		}
		wg.Go(func() {
			if _, err := head("gone"); !fault.Is(err, fault.NotFound) {
				t.Errorf("what is not there: %v", err)
			}
		})
		wg.Wait()
		if asked != 2 {
			t.Errorf("it was asked %d times", asked)
		}
		if got, err := l.Head(t.Context(), "repo", "main", time.Now().Add(-2*time.Minute), ask); err != nil || got != "main-2" || asked != 2 {
			t.Errorf("what is known is not asked again: %q, %v, %d", got, err, asked)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Head(ctx, "repo", "main", time.Now().Add(time.Second), ask); err != context.DeadlineExceeded {
			t.Errorf("nobody waits longer than they may: %v", err)
		}
		time.Sleep(time.Hour)
	})
}
