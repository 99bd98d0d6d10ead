// Package git reads templates from Git repositories: one commit, without its
// history, into memory.
//
// Whoever keeps the repository, and the server that it is on, are strangers: what
// they send is bounded before it is unpacked, in bytes, objects, files and depth,
// and nothing that is read leads out of the tree. It must not know what the files
// mean.
package git

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
)

// Source reads Git repositories. The zero value is ready.
type Source struct {
	// Transport of https; default: one of its own that heeds the proxy settings of
	// the environment.
	Transport http.RoundTripper
	// Local lets file:// be read, with this machine's git: for operators on their
	// own machine alone.
	Local bool
}

var _ source.Source = Source{}

// line is a conversation with a server. It is good for one fetch.
type line interface {
	Refs(ctx context.Context) (*packp.AdvRefs, error)
	Pack(ctx context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error)
	Close() error
}

// Read implements source.Source.
func (s Source) Read(ctx context.Context, at source.Location, with source.Credential, limits source.Limits) (source.Tree, error) {
	f, err := s.begin(at, with, limits)
	if err != nil {
		return source.Tree{}, err
	}
	within, stop := context.WithTimeout(ctx, f.limits.Timeout)
	defer stop()
	defer f.share.release()
	tree, err := f.run(within)
	if err != nil && ctx.Err() != nil {
		return source.Tree{}, ctx.Err()
	}
	return tree, f.explain(within, err)
}

// begin refuses a location that is no repository's.
func (s Source) begin(at source.Location, with source.Credential, limits source.Limits) (fetch, error) {
	if err := at.Check(); err != nil {
		return fetch{}, err
	}
	if at.Directory() {
		return fetch{}, fault.New(fault.Invalid, "%.128q is no Git repository: write https://host/org/repo or git@host:org/repo", at.Repository).Because("source")
	}
	address, err := at.Address()
	return fetch{Source: s, at: at, address: address, with: with, limits: limits.Filled(), share: &share{of: &held}}, err
}

// fetch is one reading of one location.
type fetch struct {
	Source
	at      source.Location
	address source.Address
	with    source.Credential
	limits  source.Limits
	share   *share // of the memory for large ones
}

func (f fetch) run(ctx context.Context) (source.Tree, error) {
	to, refs, err := f.open(ctx)
	if err != nil {
		return source.Tree{}, err
	}
	defer func() { to.Close() }()
	t, err := choose(refs, f.at.Revision)
	if err != nil {
		return source.Tree{}, err
	}
	if t.commit.IsZero() && refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) && refs.Capabilities.Supports(capability.Filter) {
		// Its name is short, and the server would give it by its full one: the
		// commits alone tell which is meant.
		all, err := f.get(ctx, to, refs, packp.FilterTreeDepth(0), 0, t.tips...)
		if err != nil {
			return source.Tree{}, err
		}
		if t.commit, err = all.commit(f.at.Revision); err != nil {
			return source.Tree{}, err
		}
		to.Close()
		if to, refs, err = f.open(ctx); err != nil {
			return source.Tree{}, err
		}
	}
	if t.commit.IsZero() {
		all, err := f.get(ctx, to, refs, "", 0, t.tips...)
		if err != nil {
			return source.Tree{}, err
		}
		if t.commit, err = all.commit(f.at.Revision); err != nil {
			return source.Tree{}, err
		}
		return all.tree(t.commit, f.at.Path, f.limits)
	}
	all, err := f.get(ctx, to, refs, "", 1, t.commit)
	if large(err) && f.at.Path != "" {
		to.Close()
		all, err = f.part(ctx, t.commit, err)
	}
	if err != nil {
		return source.Tree{}, err
	}
	return all.tree(t.commit, f.at.Path, f.limits)
}

// open begins a conversation.
func (f fetch) open(ctx context.Context) (line, *packp.AdvRefs, error) {
	var to line
	var err error
	switch f.address.Scheme {
	case "https", "http":
		to, err = f.web(ctx)
	case "ssh":
		to, err = f.ssh(ctx)
	default:
		to, err = f.local(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	refs, err := to.Refs(ctx)
	if err != nil {
		to.Close()
		return nil, nil, err
	}
	return to, refs, nil
}

// get fetches objects; depth 0 is all the history.
func (f fetch) get(ctx context.Context, to line, refs *packp.AdvRefs, filter packp.Filter, depth int, wants ...plumbing.Hash) (objects, error) {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	req.Wants = wants
	if depth > 0 && refs.Capabilities.Supports(capability.Shallow) {
		req.Depth = packp.DepthCommits(depth)
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return nil, err
		}
	}
	if filter != "" {
		req.Filter = filter
		if err := req.Capabilities.Set(capability.Filter); err != nil {
			return nil, err
		}
	}
	if refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, err
		}
	}
	pack, err := to.Pack(ctx, req)
	if err != nil {
		return nil, err
	}
	defer pack.Close()
	var from io.Reader = pack
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		from = sideband.NewDemuxer(sideband.Sideband64k, pack)
	case req.Capabilities.Supports(capability.Sideband):
		from = sideband.NewDemuxer(sideband.Sideband, pack)
	}
	return unpack(ctx, from, f.limits, f.share)
}

// errTooMuch is returned by readers that have given as much as they may.
var errTooMuch = errors.New("more was sent than is read")

// bounded reads no more than n bytes, and says so rather than ending.
type bounded struct {
	io.Reader
	n *int64 // left
}

func (b bounded) Read(p []byte) (int, error) {
	if *b.n <= 0 {
		return 0, errTooMuch
	}
	if int64(len(p)) > *b.n {
		p = p[:*b.n]
	}
	n, err := b.Reader.Read(p)
	*b.n -= int64(n)
	return n, err
}

// target is what a revision means.
type target struct {
	commit plumbing.Hash   // zero: to be found in the history of tips
	tips   []plumbing.Hash // of branches and tags
}

const maxTips = 1000

// choose finds a revision among what the server has. A full hash is a commit
// whatever branches are called; a name that is a branch and a tag is neither.
func choose(refs *packp.AdvRefs, rev string) (target, error) {
	if rev == "" {
		if refs.Head == nil || refs.Head.IsZero() {
			return target{}, fault.New(fault.NotFound, "the repository has no default branch: name a branch or a tag behind \"@\"").Because("revision")
		}
		return target{commit: *refs.Head}, nil
	}
	full := plumbing.IsHash(rev) && len(rev) == 40
	if !full {
		var found []plumbing.Hash
		for _, name := range []string{rev, "refs/heads/" + rev, "refs/tags/" + rev} {
			if !strings.HasPrefix(name, "refs/") {
				continue
			}
			if h, ok := refs.References[name]; ok {
				if peeled, ok := refs.Peeled[name]; ok {
					h = peeled
				}
				found = append(found, h)
			}
		}
		if len(found) > 1 && found[0] != found[1] {
			return target{}, fault.New(fault.Invalid, "%.64q is a branch and a tag: write refs/heads/%.64s or refs/tags/%.64s", rev, rev, rev).Because("revision")
		}
		if len(found) > 0 {
			return target{commit: found[0]}, nil
		}
	}
	rev = strings.ToLower(rev)
	if !hexText(rev) {
		return target{}, fault.New(fault.NotFound, "the repository has no branch or tag %.64q; a commit is named by at least 7 digits of its hash", rev).Because("revision")
	}
	return byHash(refs, rev, full)
}

func byHash(refs *packp.AdvRefs, rev string, full bool) (target, error) {
	var t target
	known := map[plumbing.Hash]bool{}
	match := map[plumbing.Hash]bool{}
	for name, h := range refs.References {
		if peeled, ok := refs.Peeled[name]; ok {
			h = peeled
		}
		if !strings.HasPrefix(name, "refs/heads/") && !strings.HasPrefix(name, "refs/tags/") || known[h] {
			continue
		}
		known[h] = true
		t.tips = append(t.tips, h)
		if strings.HasPrefix(h.String(), rev) {
			match[h] = true
		}
	}
	switch {
	case full && match[plumbing.NewHash(rev)], full && refs.Capabilities.Supports(capability.AllowReachableSHA1InWant):
		return target{commit: plumbing.NewHash(rev)}, nil
	case len(t.tips) == 0:
		return target{}, fault.New(fault.NotFound, "the repository has no branches").Because("revision")
	case len(t.tips) > maxTips:
		return target{}, fault.New(fault.Invalid, "the repository has too many branches to look for a commit in: name a branch or a tag").Because("revision")
	}
	// A short name that fits one tip may fit a commit below another as well, so
	// the history decides.
	return t, nil
}

func hexText(s string) bool {
	return len(s) >= 7 && len(s) <= 40 && strings.Trim(s, "0123456789abcdef") == ""
}
