package file

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/droverhq/drover/internal/executor"
)

// Bounds of a list: how many strays are told, and how many files are looked at.
const (
	told   = 1000
	walked = 100_000
)

// List implements executor.Lister: files in the folders of the resources that are
// nobody's. Those of other environments have entries too.
func (Executor) List(ctx context.Context, all []executor.Resource) (out []executor.Stray, err error) {
	rooted := map[string]map[string]string{} // directory → folder → address
	opened := map[string]*directory{}
	defer func() {
		for _, d := range opened {
			d.close()
		}
	}()
	for _, r := range all {
		p, err := place(r.Input("path").Text())
		if err != nil {
			continue // it is not known yet where it will be
		}
		name := r.Connection["directory"]
		if opened[name] == nil {
			d, err := open(ctx, r)
			if err != nil {
				return nil, err
			}
			opened[name], rooted[name] = d, map[string]string{}
		}
		rooted[name][filepath.ToSlash(filepath.Dir(p))] = r.Address
	}
	for name, d := range opened {
		strays, err := d.strays(ctx, rooted[name])
		if err != nil {
			return nil, err
		}
		out = append(out, strays...)
	}
	return out[:min(len(out), told)], nil
}

// strays are files without an entry in some folders.
func (d *directory) strays(ctx context.Context, folders map[string]string) (out []executor.Stray, err error) {
	looked := 0
	err = fs.WalkDir(d.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it went meanwhile
			}
			return explain(name, err)
		}
		if looked++; looked > walked || len(out) >= told {
			return fs.SkipAll
		}
		if e.IsDir() {
			if name == index {
				return fs.SkipDir
			}
			return ctx.Err()
		}
		address, ok := folders[path.Dir(name)]
		if !ok {
			return nil
		}
		if owner, err := d.entry(filepath.FromSlash(name)); err != nil || owner != nil {
			return err
		}
		out = append(out, executor.Stray{Name: name, Where: address})
		return nil
	})
	return out, err
}
