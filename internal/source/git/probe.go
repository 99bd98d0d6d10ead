package git

import (
	"context"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
)

// Bounds of a list of references: it is one line each, and servers list all.
const (
	probeBytes   = 16 << 20
	probeTimeout = 20 * time.Second
)

// Probe resolves a revision to a commit ("" for the default branch) by the server's
// list of references, with nothing of the repository transferred. Whatever keeps
// Read from a location keeps Probe from it too. A full hash that is the tip of
// nothing is given back as it is: only fetching it would tell. Faults: NotFound
// (repository; reason "revision": branch, tag or short hash; reason "empty"),
// Denied, Invalid, Unavailable.
func (s Source) Probe(ctx context.Context, at source.Location, with source.Credential) (string, error) {
	tell, err := s.Refs(ctx, at, with)
	if err != nil {
		return "", err
	}
	return tell(at.Revision)
}

// Refs asks a repository once, and returns what tells the commit of any revision as
// Probe does.
func (s Source) Refs(ctx context.Context, at source.Location, with source.Credential) (func(revision string) (string, error), error) {
	at.Path = "" // no tree is looked at
	f, err := s.begin(at, with, source.Limits{Bytes: probeBytes, Timeout: probeTimeout})
	if err != nil {
		return nil, err
	}
	within, stop := context.WithTimeout(ctx, f.limits.Timeout)
	defer stop()
	to, refs, err := f.open(within)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, f.explain(within, err)
	}
	to.Close()
	return func(revision string) (string, error) {
		commit, err := commitOf(refs, revision)
		return commit, f.explain(context.Background(), err)
	}, nil
}

func commitOf(refs *packp.AdvRefs, revision string) (string, error) {
	t, err := choose(refs, revision)
	switch {
	case fault.Is(err, fault.NotFound) && revision != "": // below, in the words of who cannot look for a part of a hash
	case err != nil:
		return "", err
	case !t.commit.IsZero():
		return t.commit.String(), nil
	case len(revision) == 40:
		return plumbing.NewHash(revision).String(), nil
	}
	return "", fault.New(fault.NotFound, "no branch or tag is %.40q: name a branch, a tag, or a commit by its full hash", revision).Because("revision")
}
