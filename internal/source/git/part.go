package git

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
)

// large reports whether there was more than is read.
func large(err error) bool {
	var wrapped *plumbing.UnexpectedError
	if errors.As(err, &wrapped) { // which keeps its cause to itself
		err = errors.Join(err, wrapped.Err)
	}
	return errors.Is(err, errTooMuch) || fault.Reason(err) == "too-large"
}

// part reads of a commit that is too large its directories, and the files of the one
// that is asked for. A server that does not leave files out, or gives none by
// itself, is the end of it: whole is what was wrong with all of it.
func (f fetch) part(ctx context.Context, commit plumbing.Hash, whole error) (objects, error) {
	f.share.release()
	to, refs, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { to.Close() }()
	if !refs.Capabilities.Supports(capability.Filter) || !refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) {
		return nil, whole
	}
	all, err := f.get(ctx, to, refs, packp.FilterBlobNone(), 1, commit)
	if err != nil {
		return nil, err
	}
	wants, err := all.blobs(commit, f.at.Path, f.limits)
	if err != nil || len(wants) == 0 {
		return all, err
	}
	to.Close()
	if to, refs, err = f.open(ctx); err != nil {
		return nil, err
	}
	files, err := f.get(ctx, to, refs, "", 0, wants...)
	if err != nil {
		if ctx.Err() == nil && !large(err) && fault.Reason(err) != "busy" {
			err = whole
		}
		return nil, err
	}
	maps.Copy(all, files)
	return all, nil
}

// blobs are the files of a commit below a path, each once.
func (a objects) blobs(at plumbing.Hash, under string, limits source.Limits) ([]plumbing.Hash, error) {
	c, err := a.peel(at)
	if err != nil {
		return nil, err
	}
	w := walk{objects: a, budget: source.Budget{Limits: limits}}
	root := c.TreeHash
	for name := range strings.SplitSeq(under, "/") {
		if name == "" {
			continue
		}
		if root, err = w.step(root, name, under); err != nil {
			return nil, err
		}
	}
	found := map[plumbing.Hash]bool{}
	for dirs := []plumbing.Hash{root}; len(dirs) > 0; {
		entries, err := w.entries(dirs[len(dirs)-1])
		if err != nil {
			return nil, err
		}
		dirs = dirs[:len(dirs)-1]
		for _, e := range entries {
			if w.seen++; w.seen > 4*limits.Files {
				return nil, tooLarge("the directory has more than %d files and directories", 4*limits.Files)
			}
			switch e.Mode {
			case filemode.Dir:
				dirs = append(dirs, e.Hash)
			case filemode.Regular, filemode.Deprecated, filemode.Executable:
				found[e.Hash] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(x, y plumbing.Hash) int { return strings.Compare(x.String(), y.String()) }), nil
}
