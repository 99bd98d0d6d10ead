package offering

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Sources of offerings that are files. What anybody else applies has a source
// without these prefixes.
const (
	embedded = "embedded:"
	onDisk   = "file:"
)

func isFile(source string) bool {
	return strings.HasPrefix(source, embedded) || strings.HasPrefix(source, onDisk)
}

// Seed applies the files that ship with the binary, where nobody has applied
// or deleted the offering since. It tries all of them and returns all errors,
// except that a file which clashes with what somebody has applied is only
// logged: it must not keep the server from starting.
func (s *Service) Seed(ctx context.Context, files fs.FS) error {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return fmt.Errorf("cannot read the embedded offerings: %w", err)
	}
	var failed []error
	for _, e := range entries {
		if !document.Named(e.Name()) {
			continue
		}
		data, err := fs.ReadFile(files, e.Name())
		if err != nil {
			failed = append(failed, fmt.Errorf("cannot read %s: %w", e.Name(), err))
			continue
		}
		err = s.applyFile(ctx, embedded+e.Name(), data, shipped)
		switch {
		case fault.Is(err, fault.Conflict):
			s.Log.WarnContext(ctx, "embedded offering not applied", "file", e.Name(), "error", err)
		case err != nil:
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// shipped lets a file of the binary replace only another one.
func shipped(before ledger.Object, status Status) bool {
	return before.Deleted.IsZero() && strings.HasPrefix(status.Source, embedded)
}

func (s *Service) applyFile(ctx context.Context, source string, data []byte, may func(ledger.Object, Status) bool) error {
	o, err := Parse(source, data)
	if err != nil {
		return err
	}
	ctx = ledger.WithCause(ctx, ledger.BySchedule("offering files"))
	_, _, err = s.apply(ctx, o, func(before ledger.Object, status Status) bool {
		return status.Said[source] != o.Digest && may(before, status)
	})
	return err
}

// WatchDir applies the offerings of a directory, now and whenever one changes,
// until ctx ends. A file that goes away, or is broken, removes nothing: why it
// has no effect is logged. It is one goroutine, the caller's, besides the
// watcher's, which it stops.
func (s *Service) WatchDir(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return fault.New(fault.Invalid, "cannot watch the directory of offerings %s: %w", dir, err)
	}
	always := func(ledger.Object, Status) bool { return true }
	return document.Watch{
		Paths: []string{dir}, Bytes: maxFile, Log: s.Log,
		All: "directory of offerings", One: "offering file", Stay: "the offering stays in force until it is deleted",
		Apply: func(ctx context.Context, file string, data []byte) error {
			return s.applyFile(ctx, onDisk+file, data, always)
		},
	}.Run(ctx)
}
