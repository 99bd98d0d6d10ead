package process

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/program"
)

// The directory of a program, its home, is the program's: its files and data are
// there, and it may do with them what it likes. What we know of it, and what it prints,
// is beside all homes, where programs of other users cannot write: we act on it.
const (
	records = ".programs" // no name of a program begins with a dot
	about   = "record.json"
	output  = "output.log"
	unused  = "home"    // of a record: the home, until it is where it belongs
	own     = ".drover" // of a home: we have made it
)

// directory is the connection's.
type directory struct {
	at   string
	path []string // where programs are looked for, patterns
}

func (p directory) home(name string) string    { return filepath.Join(p.at, name) }
func (p directory) known(name string) string   { return filepath.Join(p.at, records, name) }
func (p directory) logPath(name string) string { return filepath.Join(p.known(name), output) }

// homes are what there may be where the home of a record belongs.
type homes int

const (
	nothing homes = iota
	ours
	theirs
)

// look tells what is there. The record and an unused home come into being at once, and
// that one goes where it belongs at once: who was killed in between has left no doubt.
func (p directory) look(name string) (is homes, begun bool) {
	_, err := os.Lstat(filepath.Join(p.known(name), unused))
	begun = err == nil
	if _, err := os.Lstat(p.home(name)); err != nil {
		return nothing, begun
	}
	if _, err := os.Lstat(filepath.Join(p.home(name), own)); err != nil || begun {
		return theirs, begun
	}
	return ours, false
}

// record is whose a directory is, and what was done in it.
type record struct {
	Name     string           `json:"name"`
	ID       string           `json:"id"`     // of the resource
	Number   int64            `json:"number"` // in which order they were made
	Pieces   map[string]piece `json:"pieces"`
	Files    map[string]stamp `json:"files,omitempty"` // as they were written
	Launch   launch           `json:"launch"`
	Prepared bool             `json:"prepared,omitempty"`
	// Beginning: something was begun that is not done yet.
	Beginning bool      `json:"beginning,omitempty"`
	Run       int64     `json:"run"`
	PID       int       `json:"pid,omitempty"`
	Birth     string    `json:"birth,omitempty"`
	Started   time.Time `json:"started,omitzero"`
	Ready     bool      `json:"ready,omitempty"` // it has worked since
	// Directory of the connection when it was started; empty: by a version that did not say.
	Directory string `json:"directory,omitempty"`
}

// stamp tells a file from one that somebody else has written, without its content.
type stamp struct {
	Size int64     `json:"size"`
	Time time.Time `json:"time"`
	Mode string    `json:"mode"`
}

func stampOf(i fs.FileInfo) stamp {
	return stamp{i.Size(), i.ModTime().UTC(), i.Mode().String()}
}

// nonce is carried by all processes of a program. Two servers may have the same
// resources, one of them out of a backup: they have them in other directories.
func (rec *record) nonce() string {
	whose := ""
	if rec.Directory != "" {
		sum := sha256.Sum256([]byte(rec.Directory))
		whose = "-" + hex.EncodeToString(sum[:8])
	}
	return "res-" + strings.NewReplacer(".", "-").Replace(rec.ID+"-"+rec.Name) + whose
}

// copied tells whether a record is one of two: what runs is the other's, for a directory
// that has only moved, or has two names, is not there twice.
func (p directory) copied(rec *record) bool {
	if rec.Directory == "" || rec.Directory == p.at {
		return false
	}
	there := directory{at: rec.Directory}
	if _, err := os.Stat(filepath.Join(there.known(rec.Name), about)); err != nil {
		return false
	}
	theirs, err := os.Stat(filepath.Join(there.at, records))
	mine, wrong := os.Stat(filepath.Join(p.at, records))
	return err == nil && wrong == nil && !os.SameFile(theirs, mine)
}

// record reads the record of a directory; nil: it is nobody's, or not there.
func (p directory) record(name string) (*record, error) {
	data, err := os.ReadFile(filepath.Join(p.known(name), about))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(p.at); err != nil {
			return nil, fault.New(fault.Unavailable, "the directory of programs cannot be used")
		}
		return nil, nil
	case err != nil:
		return nil, fault.New(fault.Unavailable, "what is known of program %s cannot be read", name)
	}
	rec := &record{}
	if err := json.Unmarshal(data, rec); err != nil {
		return nil, fault.New(fault.Internal, "what is known of program %s cannot be read", name)
	}
	rec.Name = name
	if p.copied(rec) {
		rec.PID, rec.Birth, rec.Ready, rec.Directory = 0, "", false, p.at
	}
	return rec, nil
}

func (p directory) keep(rec *record) error {
	data, err := json.Marshal(rec)
	if err == nil {
		err = replace(filepath.Join(p.known(rec.Name), about), data)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "the directory of program %s cannot be written", rec.Name)
	}
	return nil
}

// replace writes a file at once, readable by its owner alone.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already where all went well
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return program.SyncDir(filepath.Dir(path))
}

// survey is what was seen.
type survey struct {
	here  *record   // where it is wanted; nil: nothing is
	lost  *record   // of what was there: somebody has removed its directory
	old   []*record // where it was
	alive bool
	files map[string]*stamp // those that were written, as they are; nil: gone
}

// survey looks at everything that the resource has or may have.
func (p directory) survey(r executor.Resource, w wanted) (s survey, err error) {
	if w.name != "" {
		if s.here, err = p.record(w.name); err != nil {
			return s, err
		}
		if s.here == nil {
			if _, err := os.Lstat(p.home(w.name)); err == nil {
				return s, executor.NotOurs("the directory " + w.name)
			}
		} else if is, begun := p.look(w.name); s.here.ID != r.ID || is == theirs {
			return s, executor.NotOurs("the directory " + w.name)
		} else if is == nothing && !begun {
			s.here, s.lost = nil, s.here
		}
	}
	for _, name := range r.Memory().Names {
		if name == w.name {
			continue
		}
		rec, err := p.record(name)
		if err != nil {
			return s, err
		}
		if rec != nil && rec.ID == r.ID {
			s.old = append(s.old, rec)
		}
	}
	if s.here == nil {
		return s, nil
	}
	if s.alive, err = p.alive(s.here); err != nil {
		return s, err
	}
	s.files = map[string]*stamp{}
	for name := range s.here.Files {
		s.files[name] = nil
		if info, err := os.Lstat(filepath.Join(p.home(w.name), filepath.FromSlash(name))); err == nil {
			is := stampOf(info)
			s.files[name] = &is
		}
	}
	return s, nil
}

// mark says nothing of what files hold.
func (s survey) mark() string {
	var seen []any
	for _, rec := range s.old {
		seen = append(seen, "old", rec.Name, rec.Run)
	}
	if s.here != nil {
		seen = append(seen, s.here.Name, s.here.Run, s.alive, s.here.Beginning)
		for _, name := range slices.Sorted(maps.Keys(s.files)) {
			seen = append(seen, name, s.files[name])
		}
	}
	return executor.Mark(seen...)
}

// differs lists how what is there differs from what is wanted; reversed, as drift is
// told.
func (s survey) differs(w wanted, reversed bool) (out []executor.Field) {
	add := func(path string, is, want any) {
		if is == nil && want == nil {
			is = "something else"
		}
		if reversed {
			is, want = want, is
		}
		out = append(out, executor.Field{Path: path, Before: is, After: want})
	}
	before := s.here.Pieces
	paths := slices.Collect(maps.Keys(w.pieces))
	for path := range before {
		if _, ok := w.pieces[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		was, had := before[path]
		now, has := w.pieces[path]
		var is, want any
		if had {
			is = was.Shown
		}
		if has {
			want = now.after()
		}
		if was.Shown == executor.Hidden || want == executor.Hidden {
			is, want = hide(is), hide(want)
		}
		if !had || !has || !now.known || was.Digest != now.Digest {
			add(path, is, want)
			continue
		}
		name, file := strings.CutPrefix(path, "files.")
		if file && (s.files[name] == nil || *s.files[name] != s.here.Files[name]) {
			add(path, "somebody else's", want)
		}
	}
	switch {
	case s.here.Beginning:
		add("process", "begun", "running")
	case !s.alive:
		add("process", "not running", "running")
	}
	return out
}

func hide(v any) any {
	if v == nil || !executor.Whole(v) {
		return v
	}
	return executor.Hidden
}

// lay writes the files of a program that are not as they are wanted, and removes
// those that are not any more.
func (p directory) lay(rec *record, w wanted, uid, gid int) error {
	root, err := os.OpenRoot(p.home(rec.Name))
	if err != nil {
		return fault.New(fault.Unavailable, "the directory of program %s cannot be used", rec.Name)
	}
	defer root.Close()
	fail := func(name string, err error) error {
		return fault.New(fault.Unavailable, "the file %s of program %s cannot be written: %w", name, rec.Name, bare(err))
	}
	for name := range rec.Files {
		if _, wanted := w.files[name]; !wanted {
			if err := root.Remove(filepath.FromSlash(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fail(name, err)
			}
		}
	}
	rec.Files = map[string]stamp{}
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		at := filepath.FromSlash(name)
		if err := root.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return fail(name, err)
		}
		next := at + ".new"
		_ = root.Remove(next)
		err := root.WriteFile(next, []byte(w.files[name]), 0o600)
		if err == nil && uid >= 0 {
			for d := filepath.Dir(at); d != "." && err == nil; d = filepath.Dir(d) {
				err = root.Lchown(d, uid, gid)
			}
			err = errors.Join(err, root.Lchown(next, uid, gid))
		}
		if err == nil {
			err = root.Rename(next, at)
		}
		if err != nil {
			return fail(name, err)
		}
		info, err := root.Lstat(at)
		if err != nil {
			return fail(name, err)
		}
		rec.Files[name] = stampOf(info)
	}
	return nil
}

// bare is an error without paths of this machine.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return fmt.Errorf("%w", err)
}
