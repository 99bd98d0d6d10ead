package git

import (
	"path"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
)

// tree reads the files of a commit below a path. What is beside the path is not
// looked at.
func (a objects) tree(at plumbing.Hash, under string, limits source.Limits) (source.Tree, error) {
	c, err := a.peel(at)
	if err != nil {
		return source.Tree{}, err
	}
	w := walk{objects: a, budget: source.Budget{Limits: limits}, out: source.Tree{
		Commit: c.Hash.String(), Author: author(c.Author), Time: c.Author.When.UTC(), Message: subject(c.Message),
		Files: map[string]source.File{},
	}}
	root := c.TreeHash
	for _, name := range strings.Split(under, "/") {
		if name == "" {
			continue
		}
		if root, err = w.step(root, name, under); err != nil {
			return source.Tree{}, err
		}
	}
	if err := w.directory(root, ""); err != nil {
		return source.Tree{}, err
	}
	return w.out, nil
}

// author is a name for people; a stranger wrote it.
func author(s object.Signature) string {
	text := s.Name
	if s.Email != "" {
		text += " <" + s.Email + ">"
	}
	return shown(text, 128)
}

// subject is the first line of a message; a stranger wrote it too.
func subject(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	return shown(line, 256)
}

// shown is what people are shown of a stranger's words: short, and nothing that
// their terminals would take for an order.
func shown(text string, most int) string {
	text = text[:min(len(text), 8*most)]
	text = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, text), "")
	if r := []rune(text); len(r) > most {
		text = string(r[:most])
	}
	return strings.TrimSpace(text)
}

type walk struct {
	objects
	budget source.Budget
	out    source.Tree
	seen   int // entries, directories too: a tree may hold itself many times over
}

// step goes down one directory of the path that was asked for.
func (w *walk) step(dir plumbing.Hash, name, under string) (plumbing.Hash, error) {
	entries, err := w.entries(dir)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	for _, e := range entries {
		if e.Name != name {
			continue
		}
		if e.Mode == filemode.Dir {
			return e.Hash, nil
		}
		return plumbing.ZeroHash, refuse(e.Mode, name)
	}
	return plumbing.ZeroHash, fault.New(fault.NotFound, "the repository has no directory %.128q at this revision", under).Because("path")
}

// refuse says why an entry cannot be read.
func refuse(mode filemode.FileMode, name string) error {
	switch mode {
	case filemode.Symlink:
		return fault.New(fault.Invalid, "%q is a symbolic link, which could lead anywhere: put the file itself there", name).Because("link")
	case filemode.Submodule:
		return fault.New(fault.Invalid, "%q is a submodule, which is not fetched: put its files there, or make it a template of its own", name).Because("submodule")
	case filemode.Regular, filemode.Deprecated, filemode.Executable:
		return fault.New(fault.Invalid, "%q is a file, and no directory", name).Because("path")
	}
	return fault.New(fault.Invalid, "%q is neither file nor directory", name).Because("path")
}

func (w *walk) entries(dir plumbing.Hash) ([]object.TreeEntry, error) {
	o, ok := w.memory(dir, plumbing.TreeObject)
	if !ok {
		return nil, malformed(nil)
	}
	t := &object.Tree{}
	if err := t.Decode(o); err != nil {
		return nil, malformed(err)
	}
	return t.Entries, nil
}

func (w *walk) directory(dir plumbing.Hash, at string) error {
	entries, err := w.entries(dir)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, e := range entries {
		if w.seen++; w.seen > 4*w.budget.Limits.Files {
			return tooLarge("it has more than %d files and directories", 4*w.budget.Limits.Files)
		}
		if err := source.CheckName(e.Name); err != nil {
			return err
		}
		name := path.Join(at, e.Name)
		if err := source.CheckPath(name); err != nil {
			return err
		}
		fold := source.Fold(e.Name)
		if other, twice := names[fold]; twice {
			return fault.New(fault.Invalid, "%q and %q in one directory are one file on some machines: rename one", other, e.Name).Because("path")
		}
		names[fold] = e.Name
		switch e.Mode {
		case filemode.Dir:
			if err := w.directory(e.Hash, name); err != nil {
				return err
			}
		case filemode.Regular, filemode.Deprecated, filemode.Executable:
			if err := w.file(name, e); err != nil {
				return err
			}
		default:
			return refuse(e.Mode, name)
		}
	}
	return nil
}

func (w *walk) file(name string, e object.TreeEntry) error {
	c, ok := w.objects[e.Hash]
	if !ok || c.kind != plumbing.BlobObject {
		return malformed(nil)
	}
	if err := w.budget.Take(name, int64(len(c.data))); err != nil {
		return err
	}
	w.out.Files[name] = source.File{Data: c.data, Exec: e.Mode == filemode.Executable}
	return nil
}
