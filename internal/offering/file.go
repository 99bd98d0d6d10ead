package offering

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

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

func isOffering(name string) bool {
	ext := path.Ext(name)
	return !strings.HasPrefix(name, ".") && (ext == ".yaml" || ext == ".yml" || ext == ".json")
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
		if !isOffering(e.Name()) {
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

const (
	settleTime = 100 * time.Millisecond // editors and volumes write a file in several steps
	retryTime  = 5 * time.Second        // after the store was away
)

// WatchDir applies the offerings of a directory, now and whenever one changes,
// until ctx ends. A file that goes away, or is broken, removes nothing: why it
// has no effect is logged. It is one goroutine, the caller's, besides the
// watcher's, which it stops.
func (s *Service) WatchDir(ctx context.Context, dir string) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("cannot watch files: %w", err)
	}
	defer watcher.Close()
	if err := watcher.Add(dir); err != nil {
		return fault.New(fault.Invalid, "cannot watch the directory of offerings %s: %w", dir, err)
	}
	d := directory{path: dir, known: map[string][sha256.Size]byte{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-watcher.Events:
			if !open {
				return fault.New(fault.Unavailable, "the watch of %s ended", dir)
			}
			timer.Reset(settleTime)
		case err := <-watcher.Errors:
			s.Log.WarnContext(ctx, "watch of offerings", "dir", dir, "error", err)
			timer.Reset(settleTime)
		case <-timer.C:
			_ = watcher.Add(dir) // again: it may have been replaced; scan tells if it is gone
			if !s.scan(ctx, &d) {
				timer.Reset(retryTime)
			}
		}
	}
}

// directory is what the last scan has seen.
type directory struct {
	path  string
	gone  bool
	known map[string][sha256.Size]byte
}

// scan applies what is new since the last scan and reports whether nothing is
// left to try again.
func (s *Service) scan(ctx context.Context, d *directory) bool {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		if !d.gone {
			s.Log.ErrorContext(ctx, "directory of offerings not read; those in force stay", "dir", d.path, "error", err)
		}
		d.gone = true
		return false
	}
	d.gone = false
	done := true
	present := map[string]bool{}
	for _, e := range entries {
		if !isOffering(e.Name()) {
			continue
		}
		present[e.Name()] = true
		full := filepath.Join(d.path, e.Name())
		data, err := readFile(full)
		if err != nil {
			s.Log.ErrorContext(ctx, "offering file not read; the last good version stays in force", "file", full, "error", err)
			continue
		}
		sum := sha256.Sum256(data)
		if d.known[e.Name()] == sum {
			continue
		}
		err = s.applyFile(ctx, onDisk+full, data, func(ledger.Object, Status) bool { return true })
		if fault.Is(err, fault.Unavailable) {
			done = false
		} else {
			d.known[e.Name()] = sum
		}
		if err != nil {
			s.Log.ErrorContext(ctx, "offering file not applied; the last good version stays in force", "file", full, "error", err)
		}
	}
	for name := range d.known {
		if !present[name] {
			delete(d.known, name)
			s.Log.WarnContext(ctx, "offering file is gone; the offering stays in force until it is deleted", "file", filepath.Join(d.path, name))
		}
	}
	return done
}

// readFile reads just more than an offering can have, and nothing that could
// block: a pipe may be called x.yaml too.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}
