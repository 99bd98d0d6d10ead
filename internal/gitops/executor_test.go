package gitops_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/sqlledger"
)

// plant is a control plane with an agent that works by themselves, at the pace of
// the clock on the wall.
type plant struct {
	*yard
	feed *ledger.Feed
	x    *gitops.Executor
}

var ann = access.With(context.Background(), access.Principal{User: "ann", Org: "acme"})

func newPlant(t *testing.T) *plant {
	t.Helper()
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: filepath.Join(t.TempDir(), "drover.db"), Key: bytes.Repeat([]byte{7}, 32), Kinds: append(gitops.Kinds(), operation.Kind, ledger.Kind{Name: "cluster", Searched: true}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &plant{
		yard: &yard{t: t, store: &frail{Ledger: l}, engines: &engines{by: map[string]gitops.Engine{"hub": {ID: "hub", Runtime: "argocd"}}}},
		feed: ledger.NewFeed(l),
	}
	p.s = gitops.NewService(gitops.Config{Store: l, Keeper: l, Engines: p.engines})
	p.x = gitops.NewExecutor(gitops.ExecutorConfig{Service: p.s, Feed: p.feed, Log: l})
	p.workspace("acme", "hub", "shop", "team-*")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{}, 3)
	go func() { defer func() { ended <- struct{}{} }(); p.feed.Run(ctx) }()
	loop := reconcile.New(reconcile.Config{Ledger: l, Reconcilers: p.s.Reconcilers(), Workers: 8})
	go func() { defer func() { ended <- struct{}{} }(); loop.Run(ctx) }()
	go func() { defer func() { ended <- struct{}{} }(); p.agent(ctx) }()
	t.Cleanup(func() {
		stop()
		for range 3 {
			<-ended
		}
	})
	return p
}

// agent does at once what it is told.
func (p *plant) agent(ctx context.Context) {
	for after := int64(0); ctx.Err() == nil; {
		changes, err := p.store.Ledger.Changes(ctx, ledger.ChangeQuery{After: after, Kind: "deployment", Limit: 1000})
		if err != nil {
			continue
		}
		for _, c := range changes {
			after = c.Seq
			for _, it := range gitops.DesiredItems(c.Object) {
				o := gitops.Observation{ID: it.ID, Generation: it.Generation, State: string(runtime.Ready), Leaf: uint64(it.Generation), Detail: []byte(`{"sync":{"status":"Synced","revision":"c1"},"health":{"status":"Healthy"}}`)}
				if it.Delete {
					o.State, o.Detail = string(runtime.Deleted), nil
				}
				_, _ = p.s.Observe(ctx, it.Cluster, []gitops.Observation{o})
			}
		}
		if len(changes) == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Millisecond):
			}
		}
	}
}

func (p *plant) look(t testing.TB) map[string]string {
	out := map[string]string{}
	for after := ""; ; {
		found, err := p.store.Ledger.List(context.Background(), ledger.Query{Kind: "deployment", AfterID: after, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range found {
			d, err := gitops.Decode(o)
			if err != nil {
				t.Fatal(err)
			}
			after = o.ID
			out[d.Name] = fmt.Sprint(d.Phase, " ", d.Spec.Path, " ", d.Owner)
		}
		if len(found) < 1000 {
			return out
		}
	}
}

func (p *plant) await(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(end) {
			t.Fatalf("%s: it does not come to be", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestExecutorContract(t *testing.T) {
	p := newPlant(t)
	name := func(n int) string { return fmt.Sprint("web-", n) }
	edits := 0
	executortest.Run(t, executortest.Config{
		Executor: p.x, Crowd: 25, Lives: 10, Patience: time.Minute,
		Inputs: func(n int, s executortest.Shape) map[string]any {
			in := map[string]any{"repository": "https://h/acme/shop", "path": "k8s", "namespace": "shop", "name": name(n)}
			switch s {
			case executortest.Changed:
				in["path"] = "other"
			case executortest.Moved:
				in["name"] = name(n) + "-moved"
			case executortest.Later:
				in["path"] = executor.Unknown{}
			case executortest.Veiled:
				return nil // everybody who sees a deployment sees what it is of
			}
			return in
		},
		Look: p.look,
		Take: func(t testing.TB, n int) {
			_, _, err := p.s.Create(ann, gitops.Order{Name: name(n), Repository: "https://h/acme/shop", Path: "theirs", To: gitops.To{Namespace: "team-a"}})
			if err != nil {
				t.Fatal(err)
			}
			p.await(t, "theirs", func() bool { return strings.HasPrefix(p.look(t)[name(n)], gitops.Deployed) })
		},
		Edit: func(t testing.TB, n int) {
			edits++
			path := fmt.Sprint("edit-", edits)
			if _, _, err := p.s.Update(chief, name(n), gitops.Change{Path: &path}); err != nil {
				t.Fatal(err)
			}
			p.await(t, "the edit", func() bool { return strings.HasPrefix(p.look(t)[name(n)], gitops.Deployed) })
		},
		Delete: func(t testing.TB, n int) {
			if _, _, err := p.s.Delete(chief, name(n)); err != nil {
				t.Fatal(err)
			}
			p.await(t, "the end", func() bool { return p.look(t)[name(n)] == "" })
		},
	})
}
