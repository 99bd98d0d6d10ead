// Package directory reads templates from a directory of this machine.
//
// It follows no link and leaves the directory by no other way; what Git keeps
// beside the files is not read. It must not know what the files mean.
package directory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
)

// Source reads directories.
type Source struct{}

var _ source.Source = Source{}

// Read implements source.Source. A credential is not needed, and ignored.
func (Source) Read(ctx context.Context, at source.Location, _ source.Credential, limits source.Limits) (source.Tree, error) {
	if !at.Directory() {
		return source.Tree{}, fault.New(fault.Invalid, "%.128q is no directory", at.Repository).Because("source")
	}
	if err := at.Check(); err != nil {
		return source.Tree{}, err
	}
	if at.Revision != "" {
		return source.Tree{}, fault.New(fault.Invalid, "a directory has no revisions: leave %.64q out", at.Revision).Because("revision")
	}
	limits = limits.Filled()
	ctx, stop := context.WithTimeout(ctx, limits.Timeout)
	defer stop()
	root, err := os.OpenRoot(at.Repository)
	if err != nil {
		return source.Tree{}, explain(at.Repository, err)
	}
	defer root.Close()
	under := path.Clean(at.Path) // "." for all of it
	if err := plain(root, under); err != nil {
		return source.Tree{}, err
	}
	r := reading{root: root, under: under, budget: source.Budget{Limits: limits}, tree: source.Tree{Files: map[string]source.File{}}}
	err = fs.WalkDir(root.FS(), under, func(name string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return explain(name, err)
		}
		return r.entry(name, d)
	})
	if err != nil {
		return source.Tree{}, err
	}
	r.tree.Commit = digest(r.tree.Files)
	return r.tree, nil
}

// plain refuses a subdirectory that is none, or is reached through a link.
func plain(root *os.Root, under string) error {
	if under == "." {
		return nil
	}
	parts := strings.Split(under, "/")
	for i := range parts {
		name := strings.Join(parts[:i+1], "/")
		info, err := root.Lstat(name)
		if err != nil {
			return explain(name, err)
		}
		if !info.IsDir() {
			return fault.New(fault.Invalid, "%q is no directory", name).Because("path")
		}
	}
	return nil
}

type reading struct {
	root   *os.Root
	under  string
	budget source.Budget
	tree   source.Tree
	seen   int
}

func (r *reading) entry(name string, d fs.DirEntry) error {
	if name == r.under {
		return nil
	}
	if d.Name() == ".git" { // a directory, or the file of a work tree
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	inside := strings.TrimPrefix(name, r.under+"/")
	if err := source.CheckPath(inside); err != nil {
		return err
	}
	if r.seen++; r.seen > 4*r.budget.Limits.Files {
		return fault.New(fault.Invalid, "there are more than %d files and directories: name the directory that is meant", 4*r.budget.Limits.Files).Because("too-large")
	}
	switch {
	case d.IsDir():
		return nil
	case d.Type()&fs.ModeSymlink != 0:
		return fault.New(fault.Invalid, "%q is a symbolic link, which could lead anywhere: put the file itself there", inside).Because("link")
	case !d.Type().IsRegular():
		return fault.New(fault.Invalid, "%q is no regular file: remove it", inside).Because("path")
	}
	f, err := r.root.Open(name)
	if err != nil {
		return explain(inside, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return explain(inside, err)
	}
	if !info.Mode().IsRegular() {
		return fault.New(fault.Invalid, "%q is no regular file: remove it", inside).Because("path")
	}
	if err := r.budget.Take(inside, info.Size()); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(f, info.Size()+1))
	if err != nil {
		return explain(inside, err)
	}
	if int64(len(data)) != info.Size() {
		return fault.New(fault.Unavailable, "%q changed while it was read: try again", inside)
	}
	r.tree.Files[inside] = source.File{Data: data, Exec: info.Mode()&0o111 != 0}
	return nil
}

// digest stands for a commit: the same files have the same.
func digest(files map[string]source.File) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		fmt.Fprintf(h, "%d %s %t %d\n", len(name), name, f.Exec, len(f.Data))
		h.Write(f.Data)
	}
	return "dir-" + hex.EncodeToString(h.Sum(nil)[:20])
}

func explain(name string, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Unavailable, "the directory was not read in time")
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "there is no directory %.128q here; a Git repository is written https://host/org/repo or git@host:org/repo", name)
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Denied, "%.128q may not be read by the server's user", name)
	}
	return fault.New(fault.Invalid, "%.128q cannot be read: %w", name, err).Because("source")
}
