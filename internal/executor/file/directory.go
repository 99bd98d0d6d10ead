package file

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// index is the folder of entries, one per file that is ours.
const index = ".drover"

// directory is that of a connection.
type directory struct {
	name string
	root *os.Root
}

func open(ctx context.Context, r executor.Resource) (*directory, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.Connection.Check("directory"); err != nil {
		return nil, err
	}
	name := r.Connection["directory"]
	if !filepath.IsAbs(name) {
		return nil, fault.New(fault.Invalid, "the connection's directory is %q; write the whole path of a directory", name)
	}
	root, err := os.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) {
		// It may be on a disk that is not mounted: nothing is known about its files.
		return nil, fault.New(fault.Unavailable, "the connection's directory %s is not there; make it, or mount what it is on", name)
	}
	if err != nil {
		return nil, explain("the connection's directory "+name, err)
	}
	return &directory{name: name, root: root}, nil
}

func (d *directory) close() { _ = d.root.Close() }

// entry says whose a file is. Its digest, which is keyed so that it tells nothing
// of a secret, is that of what is about to be there, and was written before it.
type entry struct {
	ID     string   `json:"id"`
	Path   string   `json:"path"`
	Salt   string   `json:"salt"`
	Digest string   `json:"digest"`
	Secret bool     `json:"secret,omitempty"`
	Dirs   []string `json:"dirs,omitempty"` // that were made for it, the outermost first
}

func named(path string) string {
	return filepath.Join(index, digest(filepath.ToSlash(path))[:32]+".json")
}

// entry of a path, nil if it has none.
func (d *directory) entry(path string) (*entry, error) {
	data, err := d.root.ReadFile(named(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explain("the index of "+d.name, err)
	}
	var e entry
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fault.New(fault.Unavailable, "the entry of %s in the index is broken; mend or remove %s", path, named(path))
	}
	return &e, nil
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func keyed(salt, content string) string {
	m := hmac.New(sha256.New, []byte(salt))
	m.Write([]byte(content))
	return hex.EncodeToString(m.Sum(nil))
}

// state of a path.
type state struct {
	entry   *entry
	there   bool
	kind    string // "regular", or what else is there
	content string
	mode    string
}

// look reads what is at a path, and refuses what is not the resource's.
func (d *directory) look(r executor.Resource, path string) (s state, err error) {
	if s.entry, err = d.entry(path); err != nil {
		return s, err
	}
	info, err := d.root.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if s.entry != nil && s.entry.ID != r.ID {
			return s, executor.NotOurs("the file " + path)
		}
		return s, nil
	}
	if err != nil {
		return s, explain(path, err)
	}
	s.there, s.kind, s.mode = true, "regular", fmt.Sprintf("%04o", info.Mode().Perm())
	if !info.Mode().IsRegular() {
		s.kind = info.Mode().Type().String()
	} else if info.Size() > 8*largest {
		s.kind = fmt.Sprintf("%d bytes", info.Size())
	} else {
		f, err := d.root.Open(path)
		if err != nil {
			return s, explain(path, err)
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, 8*largest))
		if err != nil {
			return s, explain(path, err)
		}
		s.content = string(data)
	}
	// Before the first record only the digest tells that a file is ours: somebody
	// may have come between the entry and the file.
	if s.entry == nil || s.entry.ID != r.ID || r.Outputs == nil && s.entry.Digest != keyed(s.entry.Salt, s.content) {
		return s, executor.NotOurs("the file " + path)
	}
	return s, nil
}

// differs tells how a file is not as it is wanted: as a change to make, or as
// drift that has happened.
func (s state) differs(w wanted, drift bool) (fields []executor.Field) {
	secret := w.content.Secret || s.entry.Secret
	add := func(path string, is, want any) {
		f := executor.Field{Path: path, Before: is, After: want}
		if drift {
			f.Before, f.After = want, is
		}
		fields = append(fields, f)
	}
	if s.kind != "regular" {
		add("kind", s.kind, "regular")
	} else if !w.content.Known || w.content.Text() != s.content {
		is := preview(executor.Input{Value: s.content, Known: true, Secret: secret})
		want := w.content
		want.Secret = secret && want.Known
		add("content", is, preview(want))
	}
	if !w.mode.Known {
		add("mode", s.mode, executor.Unknown{})
	} else if w.modeOf() != s.mode {
		add("mode", s.mode, w.modeOf())
	}
	return fields
}

// preview of a content: short text as it is, else its digest.
func preview(i executor.Input) any {
	text, ok := i.Show().(string)
	if !ok || i.Secret || len(text) <= 200 && utf8.ValidString(text) {
		return i.Show()
	}
	return fmt.Sprintf("sha256:%s (%d bytes)", digest(text)[:16], len(text))
}

// survey is what was seen at all paths of a resource.
type survey struct {
	paths []string // sorted; that which is wanted is among them
	at    map[string]state
}

func (d *directory) survey(r executor.Resource, w wanted) (survey, error) {
	s := survey{paths: remembered(r), at: map[string]state{}}
	if w.path != "" && !slices.Contains(s.paths, w.path) {
		s.paths = append(s.paths, w.path)
	}
	slices.Sort(s.paths)
	for _, p := range s.paths {
		is, err := d.look(r, p)
		if fault.Reason(err) == "not-ours" && p != w.path {
			is, err = state{}, nil // it was ours once
		}
		if err != nil {
			return s, err
		}
		s.at[p] = is
	}
	return s, nil
}

// others are files of the resource that are not where it is wanted.
func (s survey) others(path string) (out []string) {
	for _, p := range s.paths {
		if p != path && s.at[p].there {
			out = append(out, p)
		}
	}
	return out
}

func (s survey) mark() string {
	seen := []any{"file"}
	for _, p := range s.paths {
		if is := s.at[p]; is.there {
			seen = append(seen, p, is.kind, is.mode, keyed(is.entry.Salt, is.content))
		}
	}
	return executor.Mark(seen...)
}

// memory is what is kept of a resource: where it may have files.
type memory struct {
	Paths []string `json:"paths"`
}

func remembered(r executor.Resource) []string {
	var m memory
	_ = json.Unmarshal(r.State, &m) // nothing was kept, or by somebody else
	return slices.Clone(m.Paths)
}

// remember keeps the paths before anything is done about them.
func remember(ctx context.Context, r executor.Resource, paths []string, path string) error {
	if !slices.Contains(paths, path) {
		paths = append(slices.Clone(paths), path)
	}
	slices.Sort(paths)
	if slices.Equal(paths, remembered(r)) || r.Save == nil {
		return ctx.Err()
	}
	data, err := json.Marshal(memory{paths})
	if err != nil {
		return err
	}
	if err := r.Save(ctx, data); err != nil {
		return fmt.Errorf("cannot remember where the file is: %w", err)
	}
	return ctx.Err()
}

// write puts the content in place: first the entry, then the file, each whole or
// not at all.
func (d *directory) write(ctx context.Context, r executor.Resource, w wanted, is state) error {
	if err := d.root.Mkdir(index, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return explain("the index of "+d.name, err)
	}
	e := entry{ID: r.ID, Path: filepath.ToSlash(w.path), Salt: rand.Text(), Secret: w.content.Secret}
	if is.entry != nil {
		e.Salt, e.Dirs = is.entry.Salt, is.entry.Dirs
	}
	e.Digest = keyed(e.Salt, w.content.Text())
	e.Dirs = append(e.Dirs, d.missing(filepath.Dir(w.path))...)
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := d.place(r.ID, named(w.path), data, 0o600, is.entry == nil); err != nil {
		return d.settle(w.path, err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	mode, err := strconv.ParseUint(w.modeOf(), 8, 32)
	if err != nil {
		return fault.New(fault.Invalid, "the mode of %s is no octal number", w.path)
	}
	// A folder that another resource has left may go before it is used.
	for range 3 {
		if err = d.root.MkdirAll(filepath.Dir(w.path), 0o755); err != nil {
			break
		}
		if err = d.place(r.ID, w.path, []byte(w.content.Text()), fs.FileMode(mode), !is.there); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if errors.Is(err, fs.ErrExist) && is.entry == nil {
		_ = d.root.Remove(named(w.path)) // somebody was faster
	}
	return d.settle(w.path, err)
}

func (d *directory) settle(path string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return executor.NotOurs("the file " + path)
	}
	return explain(path, err)
}

// missing lists the folders that are to be made for a path.
func (d *directory) missing(dir string) (out []string) {
	for ; dir != "."; dir = filepath.Dir(dir) {
		if _, err := d.root.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		out = append([]string{filepath.ToSlash(dir)}, out...)
	}
	return out
}

// place writes a file whole; a new one never over another.
func (d *directory) place(id, path string, data []byte, mode fs.FileMode, fresh bool) error {
	draft := filepath.Join(index, digest(id)[:32]+".tmp")
	f, err := d.root.OpenFile(draft, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = d.root.Remove(draft) }()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if fresh {
		return d.root.Link(draft, path)
	}
	return d.root.Rename(draft, path)
}

// remove takes a file of the resource away, with its entry and the folders that
// were made for it and are empty.
func (d *directory) remove(r executor.Resource, path string) error {
	e, err := d.entry(path)
	if err != nil || e == nil || e.ID != r.ID {
		return err
	}
	if is, err := d.look(r, path); err == nil && is.there {
		if err := d.root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return explain(path, err)
		}
	} else if err != nil && fault.Reason(err) != "not-ours" {
		return err
	}
	for i := len(e.Dirs) - 1; i >= 0; i-- {
		_ = d.root.Remove(filepath.FromSlash(e.Dirs[i])) // it is not empty: others use it
	}
	if err := d.root.Remove(named(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain("the index of "+d.name, err)
	}
	return nil
}
