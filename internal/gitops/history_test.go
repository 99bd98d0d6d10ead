package gitops_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// What Git says of a commit is asked for beside the run, and comes when it is known.
func TestHistoryTellsWhoAndWhy(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	commit := strings.Repeat("a1", 20)
	seen := fine(commit)
	seen.History = []runtime.DeployedRevision{{ID: 1, Revision: commit, Deployed: y.clock}}
	y.report("hub", "uid-1", runtime.Ready, seen)
	y.work(time.Second)
	h := y.told("uid-1").History
	if len(h) != 1 || h[0].Revision != commit {
		t.Fatalf("told %+v", h)
	}
	hints := y.store.Hints(t.Context())
	for end := time.Now().Add(time.Minute); y.told("uid-1").History[0].Author == ""; y.work(time.Second) {
		select {
		case <-hints:
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatal("nobody tells who made the commit")
		}
	}
	if h := y.told("uid-1").History; h[0].Author != "Ada" || h[0].Message != "of "+commit {
		t.Errorf("told %+v", h)
	}
	seen.History = nil // Argo CD may forget, and the deployment does not
	seen.Sync.Revision = "c2"
	y.report("hub", "uid-1", runtime.Ready, seen)
	y.work(time.Second)
	if h := y.told("uid-1").History; len(h) != 1 || h[0].Author != "Ada" {
		t.Errorf("told %+v", h)
	}
}

func TestHistoryWithoutArgoCD(t *testing.T) {
	y := plain(t)
	y.apply(y.intent("uid-1", 1))
	commits := []string{strings.Repeat("1", 40), strings.Repeat("2", 40)}
	for _, c := range commits {
		y.hub.heads["main"] = c
		y.hub.files[c] = map[string]string{"one.yaml": strings.ReplaceAll(configMap, "\"1\"", c)}
		y.work(2 * time.Minute)
		y.report("hub", "uid-1", runtime.Ready, nil)
		y.work(time.Second)
	}
	h := y.told("uid-1").History
	if len(h) != 2 || h[0].Revision != commits[0] || h[1].Revision != commits[1] || h[1].ID != 2 || h[1].Author != "Ada" || h[1].By != "automated" {
		t.Errorf("told %+v", h)
	}
}

// One commit from two directories is two things that were deployed.
func TestHistoryKeepsWhereItWasRead(t *testing.T) {
	y := plain(t)
	commit := strings.Repeat("1", 40)
	y.hub.heads["main"] = commit
	y.hub.files[commit] = map[string]string{"one.yaml": configMap}
	for generation, path := range []string{"k8s", "other", "other"} {
		in := y.intent("uid-1", int64(generation+1))
		in.Path = path
		y.apply(in)
		y.work(2 * time.Minute)
		seen := fine(commit)
		seen.Compared = &runtime.Compared{Repository: in.Repository, Path: path, Revision: in.Revision}
		y.report("hub", "uid-1", runtime.Ready, seen)
		y.work(time.Second)
	}
	h := y.told("uid-1").History
	if len(h) != 2 || h[0].Path != "k8s" || h[1].Path != "other" || h[1].ID != 2 || h[1].Repository == "" || h[1].Asked != "main" {
		t.Errorf("told %+v", h)
	}
}

// A cluster that comes is deployed to at once, by a word of the log.
func TestClustersAreFollowed(t *testing.T) {
	p := newPlant(t)
	l := p.store.Ledger
	done := make(chan error, 1)
	go func() { done <- p.s.Follow(t.Context(), p.feed, l) }()
	d, _, err := p.s.Create(chief, gitops.Order{Name: "web", Workspace: "acme", Repository: "https://h/r", Path: "k8s", To: gitops.To{Namespace: "shop", Selector: map[string]string{"tier": "prod"}}})
	p.must(err)
	p.engines.mu.Lock()
	p.engines.by["new"] = gitops.Engine{ID: "new", Runtime: "argocd", Labels: map[string]string{"tier": "prod"}}
	p.engines.mu.Unlock()
	began := time.Now()
	for i := 0; len(p.children(d.ID)) == 0; i++ {
		o := ledger.Object{Ref: ledger.Ref{Kind: "cluster", ID: "new"}}
		if now, err := l.Get(t.Context(), o.Ref); err == nil {
			o = now
		}
		o.Words = strings.Repeat("x", i)
		_, err := l.Commit(t.Context(), ledger.Set{Actor: "system", Cause: "schedule:test", Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "report"}}})
		p.must(err)
		time.Sleep(10 * time.Millisecond)
		if time.Since(began) > 20*time.Second {
			t.Fatal("nobody has heard of the cluster")
		}
	}
}
