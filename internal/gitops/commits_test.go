package gitops_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/source"
)

// slowSource reads commits when it is let.
type slowSource struct {
	*hub
	begun chan source.Location
	let   chan struct{}
}

func (s *slowSource) Commit(ctx context.Context, at source.Location, with source.Credential, limits source.Limits) (source.Tree, error) {
	if limits.Bytes <= 0 || limits.Bytes > 8<<20 {
		return source.Tree{}, fmt.Errorf("it would take %d bytes", limits.Bytes)
	}
	s.begun <- at
	<-s.let
	return source.Tree{Commit: at.Revision, Author: "Ada", Message: "of " + at.Revision}, nil
}

// TestWorkspacesTakeTurnsWithCommits has one workspace ask for many commits, before
// another one asks for its first.
func TestWorkspacesTakeTurnsWithCommits(t *testing.T) {
	y := newYard(t)
	slow := &slowSource{hub: y.hub, begun: make(chan source.Location, 1000), let: make(chan struct{})}
	y.s = gitops.NewService(gitops.Config{Store: y.store, Keeper: y.store, Engines: y.engines, Mirror: y.mirror, Source: slow, Prober: y.hub, Now: y.now})
	y.all = y.s.Reconcilers()
	deploy := func(workspace string, n int) {
		uid := fmt.Sprint(workspace, n)
		in := y.intent(uid, 1)
		in.Name, in.Namespace.Name, in.Namespace.UID = uid, workspace, workspace
		in.Repository = "https://git.example.org/" + workspace
		y.apply(in)
		y.work(time.Second)
		commit := fmt.Sprintf("%040x", len(workspace)*1000+n)
		seen := fine(commit)
		seen.History = []runtime.DeployedRevision{{ID: 1, Revision: commit, Deployed: y.clock}}
		y.report("hub", uid, runtime.Ready, seen)
		y.work(time.Second)
	}
	for n := range 30 {
		deploy("many", n)
	}
	for range 8 {
		<-slow.begun
	}
	deploy("other", 0)
	select {
	case at := <-slow.begun:
		t.Fatalf("a ninth was begun: %v", at)
	default:
	}
	// One of the many had its turn already: the other's is the next or the one after.
	seen := ""
	for range 2 {
		slow.let <- struct{}{}
		seen += (<-slow.begun).Repository + " "
	}
	if !strings.Contains(seen, "/other") {
		t.Errorf("the other workspace waits behind those of one: %s", seen)
	}
	close(slow.let)
	for range 31 - 10 {
		<-slow.begun
	}
}
