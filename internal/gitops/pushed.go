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
	From         string // what sent it: github, gitlab, gitea, forgejo, bitbucket; empty: not known
	Pusher       string // who pushed, as that says; empty: it does not
}

// maxPushes is how many pushes a deployment remembers that nothing has come of yet.
const maxPushes = 5

// Told is a push that a deployment was told of, until its commit is deployed.
type Told struct {
	Cause  ledger.Cause `json:"cause"`
	Commit string       `json:"commit"`
}

// cause is the push as the log and the history name it.
func (p Push) cause() ledger.Cause { return ledger.ByPush(p.From, p.Ref, p.After, p.Pusher) }

// hear remembers a push, unless it has: its commit may be deployed soon.
func (s *Status) hear(p Push) bool {
	if p.After == "" || slices.ContainsFunc(s.Pushes, func(t Told) bool { return t.Commit == p.After }) {
		return false
	}
	s.Pushes = append(slices.Clone(s.Pushes), Told{p.cause(), p.After})
	s.Pushes = s.Pushes[max(0, len(s.Pushes)-maxPushes):]
	return true
}

// reads reports whether the deployment has read its repository: only then it may know
// who pushes there what. Everybody can name a repository, and what was read before may
// be another one.
func (d *Deployment) reads() bool {
	return d.Status.Read != "" && d.Status.Read == NormaliseRepository(d.Spec.Repository)
}

// vouch takes an engine's word that the repository was read. What the agent of a tenant's
// own cluster says proves nothing to others.
func (d *Deployment) vouch(e *Engine) {
	of, seen := NormaliseRepository(d.Spec.Repository), d.Status.deployed()
	if e == nil || e.ID != d.Status.Engine || e.Org != "" || seen.Compared == nil || seen.Sync.Revision == "" || seen.Sync.Status == unknown {
		return
	}
	if NormaliseRepository(seen.Compared.Repository) == of {
		d.Status.Read = of
	}
}

// ascribe says of what was deployed since by itself which push has led to it. A push
// explains one deployment: going back to its commit later is another matter.
func (s *Status) ascribe(before []Revision) {
	for i := range s.History {
		r := &s.History[i]
		at := slices.IndexFunc(s.Pushes, func(t Told) bool { return t.Commit == r.Revision })
		if at < 0 || r.By != automatically || slices.ContainsFunc(before, r.is) {
			continue
		}
		r.Cause = string(s.Pushes[at].Cause)
		s.Pushes = slices.Clone(s.Pushes[at+1:])
	}
}

const pushWriters = 32 // deployments of one push that are refreshed at a time

// Pushed refreshes what a push to a repository is about: deployments of an
// organisation (empty: of all) that follow the reference, and returns how many. The
// repository may be another organisation's: of a push that all are refreshed for,
// only those hear that have read it.
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
			d, err := sound(ctx, s, o, Decode)
			if err != nil || !d.follows(push) {
				continue
			}
			found++
			group.Go(func() error {
				heard := &push
				if org == "" {
					reads, err := s.readsOf(ctx, d)
					if err != nil {
						return err
					}
					if !reads {
						heard = nil
					}
				}
				return s.refresh(ctx, d.Ref, heard)
			})
		}
		if len(page) < wakesPage {
			return found, group.Wait()
		}
	}
}

// readsOf reports whether a deployment, or one of those that it has made, has read its
// repository.
func (s *Service) readsOf(ctx context.Context, d Deployment) (bool, error) {
	if len(d.Spec.To.Selector) == 0 {
		return d.reads(), nil
	}
	for after := ""; ; {
		page, err := s.Store.List(ctx, ledger.Query{Kind: KindDeployment.Name, AfterID: after, Limit: wakesPage, Scope: map[string]any{"parent": d.ID}})
		if err != nil {
			return false, err
		}
		for _, o := range page {
			after = o.ID
			c, err := sound(ctx, s, o, Decode)
			if err == nil && c.reads() && c.Status.Read == NormaliseRepository(d.Spec.Repository) {
				return true, nil
			}
		}
		if len(page) < wakesPage {
			return false, nil
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
