package git

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
)

// content is an object of a repository, unpacked.
type content struct {
	kind plumbing.ObjectType
	data []byte
}

// objects of a repository by their hashes, which were made here of what was sent.
type objects map[plumbing.Hash]content

// Besides the files that are wanted there may be others, directories and commits.
const (
	objectsPerFile = 25
	unpackedFactor = 4
)

func tooLarge(format string, args ...any) error {
	return fault.New(fault.Invalid, "the repository is too large: "+format+
		". Keep templates in a repository of their own, and name a branch, a tag or a full commit", args...).Because("too-large")
}

// patch is an object that is told as a difference to another.
type patch struct {
	offset int64
	data   []byte
}

// unpack reads a pack. Every object says how large it is before it is inflated,
// and every difference says what it comes to: nothing is unpacked that would not
// fit, and everything is unpacked once.
func unpack(ctx context.Context, from io.Reader, limits source.Limits, of *share) (objects, error) {
	scan := packfile.NewScanner(from)
	_, count, err := scan.Header()
	if err != nil {
		return nil, malformed(err)
	}
	if most := objectsPerFile * limits.Files; int64(count) > int64(most) {
		return nil, tooLarge("it has %d objects, and %d are read", count, most)
	}
	left := unpackedFactor * limits.Bytes
	all := objects{}
	byOffset, byHash := map[int64][]patch{}, map[plumbing.Hash][]patch{}
	type made struct {
		offset int64
		hash   plumbing.Hash
		content
	}
	var ready []made
	patches := 0
	for range count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, err := scan.NextObjectHeader()
		if err != nil {
			return nil, malformed(err)
		}
		if h.Length < 0 || h.Length > left {
			return nil, tooLarge("unpacked, it has more than %d MiB", unpackedFactor*limits.Bytes>>20)
		}
		left -= h.Length
		if err := of.take(h.Length); err != nil {
			return nil, err
		}
		var buf bytes.Buffer
		buf.Grow(int(min(h.Length, 1<<16)))
		if n, _, err := scan.NextObject(&buf); err != nil || n != h.Length {
			return nil, malformed(err)
		}
		p := patch{offset: h.Offset, data: buf.Bytes()}
		switch h.Type {
		case plumbing.OFSDeltaObject:
			byOffset[h.OffsetReference] = append(byOffset[h.OffsetReference], p)
		case plumbing.REFDeltaObject:
			byHash[h.Reference] = append(byHash[h.Reference], p)
		case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
			c := content{h.Type, p.data}
			ready = append(ready, made{h.Offset, plumbing.ComputeHash(c.kind, c.data), c})
			continue
		default:
			return nil, malformed(nil)
		}
		size, err := result(p.data)
		if err != nil {
			return nil, err
		}
		if size > left {
			return nil, tooLarge("unpacked, it has more than %d MiB", unpackedFactor*limits.Bytes>>20)
		}
		left -= size
		if err := of.take(size); err != nil {
			return nil, err
		}
		patches++
	}
	for len(ready) > 0 {
		m := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		all[m.hash] = m.content
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		waiting := append(byOffset[m.offset], byHash[m.hash]...)
		delete(byOffset, m.offset)
		delete(byHash, m.hash)
		for _, p := range waiting {
			data, err := packfile.PatchDelta(m.data, p.data)
			if err != nil {
				return nil, malformed(err)
			}
			patches--
			ready = append(ready, made{p.offset, plumbing.ComputeHash(m.kind, data), content{m.kind, data}})
		}
	}
	if patches > 0 { // to objects that were not sent
		return nil, malformed(nil)
	}
	return all, nil
}

// result is the size of what a difference comes to: the second of the two numbers
// that it begins with.
func result(delta []byte) (int64, error) {
	var n uint64
	for range 2 {
		n = 0
		for shift := 0; ; shift += 7 {
			if len(delta) == 0 || shift > 56 {
				return 0, malformed(nil)
			}
			b := delta[0]
			delta = delta[1:]
			n |= uint64(b&0x7f) << shift
			if b&0x80 == 0 {
				break
			}
		}
	}
	return int64(n), nil // below 2^63
}

// malformedError is a pack that is none. Its cause may be the transport's.
type malformedError struct{ cause error }

func (e *malformedError) Error() string { return fmt.Sprintf("not a pack: %v", e.cause) }
func (e *malformedError) Unwrap() error { return e.cause }

func malformed(cause error) error { return &malformedError{cause} }

// memory is an object as go-git reads it.
func (a objects) memory(h plumbing.Hash, kind plumbing.ObjectType) (*plumbing.MemoryObject, bool) {
	c, ok := a[h]
	if !ok || c.kind != kind {
		return nil, false
	}
	o := &plumbing.MemoryObject{}
	o.SetType(kind)
	o.SetSize(int64(len(c.data)))
	if _, err := o.Write(c.data); err != nil {
		return nil, false
	}
	return o, true
}

// commit finds the only commit whose hash begins so.
func (a objects) commit(prefix string) (plumbing.Hash, error) {
	prefix = strings.ToLower(prefix)
	var found []plumbing.Hash
	for h, c := range a {
		if c.kind == plumbing.CommitObject && strings.HasPrefix(h.String(), prefix) {
			found = append(found, h)
		}
	}
	switch len(found) {
	case 0:
		return plumbing.ZeroHash, fault.New(fault.NotFound, "no branch or tag of the repository has a commit %.40s", prefix).Because("revision")
	case 1:
		return found[0], nil
	}
	return plumbing.ZeroHash, fault.New(fault.Invalid, "%d commits begin with %.40s: write more of the hash", len(found), prefix).Because("revision")
}

// peel follows tags to their commit.
func (a objects) peel(h plumbing.Hash) (*object.Commit, error) {
	for range 5 {
		if o, ok := a.memory(h, plumbing.TagObject); ok {
			tag := &object.Tag{}
			if err := tag.Decode(o); err != nil {
				return nil, malformed(err)
			}
			h = tag.Target
			continue
		}
		o, ok := a.memory(h, plumbing.CommitObject)
		if !ok {
			break
		}
		c := &object.Commit{}
		if err := c.Decode(o); err != nil {
			return nil, malformed(err)
		}
		return c, nil
	}
	return nil, fault.New(fault.NotFound, "the revision is no commit, or the server did not send it: name a branch, a tag or a commit").Because("revision")
}
