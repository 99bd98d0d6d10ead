package document

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/droverhq/drover/internal/fault"
)

const (
	settleTime = 100 * time.Millisecond // editors and volumes write a file in several steps
	retryTime  = 5 * time.Second        // after the store was away, or a path
)

// Watch applies files, and all files of directories, now and whenever one
// changes. What goes away, or is broken, removes nothing: why it has no effect
// is logged.
type Watch struct {
	Paths []string
	Bytes int // the most that a file may have; default as that of Form
	Log   *slog.Logger
	// Apply brings a file into force. What fails is tried again when the file
	// changes, and if it is Unavailable also before.
	Apply func(ctx context.Context, file string, data []byte) error

	// What the log calls them.
	All  string // behind the paths: "policies"
	One  string // "policy file"
	Stay string // when a file is gone: "its policies stay in force until they are deleted"
}

// Run watches until ctx ends. It is one goroutine, the caller's, besides the
// watcher's, which it stops.
func (w Watch) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("cannot watch files: %w", err)
	}
	defer watcher.Close()
	s := &scan{Watch: w, known: map[string]version{}, lost: map[string]bool{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-watcher.Events:
			if !open {
				return fault.New(fault.Unavailable, "the watch of %ss ended", w.One)
			}
			timer.Reset(settleTime)
		case err := <-watcher.Errors:
			w.Log.WarnContext(ctx, "watch of "+w.One+"s", "error", err)
			timer.Reset(settleTime)
		case <-timer.C:
			for _, dir := range w.directories() {
				_ = watcher.Add(dir) // again: it may have been replaced; the scan tells if it is gone
			}
			if !s.run(ctx) {
				timer.Reset(retryTime)
			}
		}
	}
}

// directories to watch: a file is watched by its directory, because editors
// replace files.
func (w Watch) directories() []string {
	var out []string
	for _, p := range w.Paths {
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

// scan is what the last scan has seen.
type scan struct {
	Watch
	known map[string]version // by file
	lost  map[string]bool    // paths of which was told already
}

// version of a file, and the path that it was found by.
type version struct {
	sum [sha256.Size]byte
	of  string
}

// run applies what is new since the last scan and reports whether nothing is
// left to try again.
func (s *scan) run(ctx context.Context) bool {
	done := true
	var found []string
	of := map[string]string{}
	for _, path := range s.Paths {
		files, err := list(path)
		if err != nil {
			if !s.lost[path] {
				s.Log.ErrorContext(ctx, s.All+" not read; those in force stay", "path", path, "error", err)
			}
			s.lost[path], done = true, false
			continue
		}
		delete(s.lost, path)
		found = append(found, files...)
		for _, file := range files {
			of[file] = path
		}
	}
	for _, file := range found {
		done = s.file(ctx, file, of[file]) && done
	}
	for file, v := range s.known {
		if of[file] == "" && (!s.lost[v.of] || v.of == file) { // of a lost directory nothing is known
			delete(s.known, file)
			s.Log.WarnContext(ctx, s.One+" is gone; "+s.Stay, "file", file)
		}
	}
	return done
}

// file applies a file that is new and reports whether that need not be tried again.
func (s *scan) file(ctx context.Context, file, of string) bool {
	data, err := s.read(file)
	if err != nil {
		s.Log.ErrorContext(ctx, s.One+" not read; the last good version stays in force", "file", file, "error", err)
		return true
	}
	v := version{sha256.Sum256(data), of}
	if s.known[file].sum == v.sum {
		return true
	}
	err = s.Apply(ctx, file, data)
	again := fault.Is(err, fault.Unavailable)
	if !again {
		s.known[file] = v
	}
	if err != nil {
		s.Log.ErrorContext(ctx, s.One+" not applied; the last good version stays in force", "file", file, "error", err)
	}
	return !again
}

// list names the file at a path, or those of the directory that is there.
func list(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if Named(e.Name()) {
			out = append(out, filepath.Join(path, e.Name()))
		}
	}
	return out, nil
}

// Named reports whether a file of a directory has the name of a document.
func Named(name string) bool {
	ext := filepath.Ext(name)
	return !strings.HasPrefix(name, ".") && (ext == ".yaml" || ext == ".yml" || ext == ".json")
}

// read reads just more than a file can have, and nothing that could block: a
// pipe may be called x.yaml too.
func (w Watch) read(path string) ([]byte, error) {
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
	return io.ReadAll(io.LimitReader(f, int64(Form{Bytes: w.Bytes}.bytes())+1))
}
