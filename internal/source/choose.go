package source

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Choose reads a location with the source that can.
type Choose struct {
	Directory Source // nil: directories of the server are nobody's business
	Git       Source
}

// Read implements Source.
func (c Choose) Read(ctx context.Context, at Location, with Credential, limits Limits) (Tree, error) {
	if err := at.Check(); err != nil {
		return Tree{}, err
	}
	from := c.Git
	if at.Directory() {
		from = c.Directory
	}
	if from == nil {
		return Tree{}, fault.New(fault.Denied, "%.128q cannot be read by this server: name a Git repository (https://host/org/repo@revision)", at.Repository).Because("source")
	}
	return from.Read(ctx, at, with, limits)
}

// Filled returns the limits with defaults in place of what is zero.
func (l Limits) Filled() Limits {
	if l.Files <= 0 {
		l.Files = 2000
	}
	if l.Bytes <= 0 {
		l.Bytes = 32 << 20
	}
	if l.File <= 0 {
		l.File = 4 << 20
	}
	if l.Timeout <= 0 {
		l.Timeout = time.Minute
	}
	return l
}

// Budget counts what is taken out of a tree against the limits.
type Budget struct {
	Limits Limits
	files  int
	bytes  int64
}

// Take counts one file before it is read.
func (b *Budget) Take(name string, size int64) error {
	b.files++
	b.bytes += size
	switch {
	case b.files > b.Limits.Files:
		return fault.New(fault.Invalid, "there are more than %d files: keep templates in a directory of their own, and name it behind \"//\"", b.Limits.Files).Because("too-large")
	case size > b.Limits.File:
		return fault.New(fault.Invalid, "%.128q is larger than %d bytes (it has %d)", name, b.Limits.File, size).Because("too-large")
	case b.bytes > b.Limits.Bytes:
		return fault.New(fault.Invalid, "the files are larger than %d bytes together: keep templates in a directory of their own, and name it behind \"//\"", b.Limits.Bytes).Because("too-large")
	}
	return nil
}
