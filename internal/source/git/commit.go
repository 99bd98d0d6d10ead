package git

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
)

// Commit reads who made a commit and why, by its full hash, without its files. A
// server that can leave them out sends a few hundred bytes; of another no more is
// taken than the limits say. Faults as of Read.
func (s Source) Commit(ctx context.Context, at source.Location, with source.Credential, limits source.Limits) (source.Tree, error) {
	at.Path = ""
	f, err := s.begin(at, with, limits)
	if err != nil {
		return source.Tree{}, err
	}
	within, stop := context.WithTimeout(ctx, f.limits.Timeout)
	defer stop()
	defer f.share.release()
	tree, err := f.commit(within)
	if err != nil && ctx.Err() != nil {
		return source.Tree{}, ctx.Err()
	}
	return tree, f.explain(within, err)
}

func (f fetch) commit(ctx context.Context) (source.Tree, error) {
	to, refs, err := f.open(ctx)
	if err != nil {
		return source.Tree{}, err
	}
	defer to.Close()
	t, err := choose(refs, f.at.Revision)
	if err != nil {
		return source.Tree{}, err
	}
	if t.commit.IsZero() {
		return source.Tree{}, fault.New(fault.NotFound, "the repository %s has no commit %.40s", f.at.Repository, f.at.Revision).Because("revision")
	}
	var without packp.Filter
	if refs.Capabilities.Supports(capability.Filter) {
		without = packp.FilterTreeDepth(0)
	}
	all, err := f.get(ctx, to, refs, without, 1, t.commit)
	if err != nil {
		return source.Tree{}, err
	}
	c, err := all.peel(t.commit)
	if err != nil {
		return source.Tree{}, err
	}
	return source.Tree{Commit: c.Hash.String(), Author: author(c.Author), Time: c.Author.When.UTC(), Message: subject(c.Message)}, nil
}
