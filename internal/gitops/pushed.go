package gitops

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Push is what a webhook told.
type Push struct {
	Repositories []string // URLs by which it may be known
	Ref          string   // refs/heads/main; empty: not told
	Default      bool     // it is the default branch, or may be
	Before       string
	After        string
}

const pushWriters = 32 // deployments of one push that are refreshed at a time

// Pushed refreshes what a push to a repository is about: deployments of an
// organisation (empty: of all) that follow the reference, and returns how many.
func (s *Service) Pushed(ctx context.Context, org string, push Push) (int, error) {
	var urls []any
	for _, u := range push.Repositories {
		if n := NormaliseRepository(cut(u, maxURL)); n != "" && !slices.Contains(urls, any(n)) {
			urls = append(urls, n)
		}
	}
	if len(urls) == 0 {
		return 0, fault.New(fault.Invalid, "the push names no repository").Because("repository")
	}
	var group errgroup.Group
	group.SetLimit(pushWriters)
	found := 0
	for after := ""; ; {
		q := ledger.Query{
			Kind: KindDeployment.Name, AfterID: after, Limit: wakesPage,
			Where: ledger.Compare{Column: "repository", Op: ledger.In, Values: urls},
		}
		if org != "" {
			q.Scope = map[string]any{"org": org}
		}
		page, err := s.Store.List(ctx, q)
		if err != nil {
			return found, err
		}
		for _, o := range page {
			after = o.ID
			d, err := Decode(o)
			if err != nil || !d.follows(push) {
				continue
			}
			found++
			group.Go(func() error { return s.refresh(ctx, d.Ref) })
		}
		if len(page) < wakesPage {
			return found, group.Wait()
		}
	}
}

var fullHash = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// follows reports whether a push may change what the deployment is of.
func (d *Deployment) follows(p Push) bool {
	rev := d.Spec.Revision
	switch {
	case d.Spec.Deleted || d.Spec.Invalid != "" || d.child() || fullHash.MatchString(rev):
		return false
	case p.Ref == "":
		return true
	case rev == "" || rev == "HEAD":
		return p.Default || !strings.HasPrefix(p.Ref, "refs/")
	case strings.ContainsAny(rev, "*<>=~^ ") && strings.HasPrefix(p.Ref, "refs/tags/"):
		return true // a range of versions
	}
	return p.Ref == rev || p.Ref == "refs/heads/"+rev || p.Ref == "refs/tags/"+rev
}
