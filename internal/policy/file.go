package policy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// onDisk is how the source of a watched file begins.
const onDisk = "file:"

const (
	settleTime = 100 * time.Millisecond // editors and volumes write a file in several steps
	retryTime  = 5 * time.Second        // after the store was away, or a directory
)

// WatchFiles applies the policies of files, and of all files in directories, now
// and whenever one changes, until ctx ends. What goes away, or is broken,
// removes nothing: why it has no effect is logged. It is one goroutine, the
// caller's, besides the watcher's, which it stops.
func (s *Service) WatchFiles(ctx context.Context, paths []string) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("cannot watch files: %w", err)
	}
	defer watcher.Close()
	w := &watched{paths: paths, known: map[string][sha256.Size]byte{}, lost: map[string]bool{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-watcher.Events:
			if !open {
				return fault.New(fault.Unavailable, "the watch of policy files ended")
			}
			timer.Reset(settleTime)
		case err := <-watcher.Errors:
			s.Log.WarnContext(ctx, "watch of policy files", "error", err)
			timer.Reset(settleTime)
		case <-timer.C:
			for _, dir := range w.directories() {
				_ = watcher.Add(dir) // again: it may have been replaced; scan tells if it is gone
			}
			if !s.scan(ctx, w) {
				timer.Reset(retryTime)
			}
		}
	}
}

// watched is what the last scan has seen.
type watched struct {
	paths []string
	known map[string][sha256.Size]byte
	lost  map[string]bool // of which was told already
}

// directories to watch: a file is watched by its directory, because editors
// replace files.
func (w *watched) directories() []string {
	var out []string
	for _, p := range w.paths {
		dir := p
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			dir = filepath.Dir(p)
		}
		if !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// files lists what there is now, and what is not.
func (w *watched) files() (found []string, missing map[string]error) {
	missing = map[string]error{}
	for _, p := range w.paths {
		info, err := os.Stat(p)
		switch {
		case err != nil:
			missing[p] = err
		case !info.IsDir():
			found = append(found, p)
		default:
			entries, err := os.ReadDir(p)
			if err != nil {
				missing[p] = err
				continue
			}
			for _, e := range entries {
				if named(e.Name()) {
					found = append(found, filepath.Join(p, e.Name()))
				}
			}
		}
	}
	return found, missing
}

func named(name string) bool {
	ext := filepath.Ext(name)
	return !strings.HasPrefix(name, ".") && (ext == ".yaml" || ext == ".yml" || ext == ".json")
}

// scan applies what is new since the last scan and reports whether nothing is
// left to try again.
func (s *Service) scan(ctx context.Context, w *watched) bool {
	found, missing := w.files()
	for path, err := range missing {
		if !w.lost[path] {
			s.Log.ErrorContext(ctx, "policies not read; those in force stay", "path", path, "error", err)
		}
		w.lost[path] = true
	}
	done := len(missing) == 0
	for _, file := range found {
		delete(w.lost, file)
		data, err := readFile(file)
		if err != nil {
			s.Log.ErrorContext(ctx, "policy file not read; the last good version stays in force", "file", file, "error", err)
			continue
		}
		sum := sha256.Sum256(data)
		if w.known[file] == sum {
			continue
		}
		changed, err := s.applyFile(ctx, onDisk+file, data)
		if fault.Is(err, fault.Unavailable) {
			done = false
		} else {
			w.known[file] = sum
		}
		if err != nil {
			s.Log.ErrorContext(ctx, "policy file not applied; the last good version stays in force", "file", file, "error", err)
			continue
		}
		s.Log.InfoContext(ctx, "policy file read", "file", file, "changed", changed)
	}
	for file := range w.known {
		if !slices.Contains(found, file) {
			delete(w.known, file)
			s.Log.WarnContext(ctx, "policy file is gone; its policies stay in force until they are deleted", "file", file)
		}
	}
	return done
}

// applyFile tells how many policies it has changed.
func (s *Service) applyFile(ctx context.Context, source string, data []byte) (changed int, err error) {
	documents, err := Parse(source, data)
	if err != nil {
		return 0, err
	}
	ctx = ledger.WithCause(ctx, ledger.BySchedule("policy files"))
	applied, err := s.apply(ctx, source, documents, func(before Status, digest string) bool { return before.Said[source] != digest })
	for _, a := range applied {
		if a.Changed {
			changed++
		}
	}
	return changed, err
}

// readFile reads just more than policies can have, and nothing that could
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
