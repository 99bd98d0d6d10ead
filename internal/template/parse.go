package template

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/schema"
	"github.com/droverhq/drover/internal/source"
)

// Bounds of a template.
const (
	maxFile     = 1 << 20   // bytes of one file
	maxMistakes = 200       // that are told of one file
	maxNodes    = 10_000    // of a layout
	maxEdges    = 200_000   // of a layout
	maxDepth    = 8         // of templates in templates
	maxText     = 256 << 10 // of a file that expressions read
	maxSchema   = 64 << 10  // of parameters
	maxSpoken   = 20_000    // expressions of one file
	maxExpand   = 20 * time.Second
)

// Surroundings are what a template is read against.
type Surroundings struct {
	Executors map[string]executor.Description
	// Template returns another template by its name and version ("web@1.2.0"),
	// and the id of that version. nil: there are none.
	Template func(ctx context.Context, ref string) (*Template, string, error)
}

// Template is a compiled file with all that it is composed of. It is immutable
// and safe for concurrent use.
type Template struct {
	File
	Source string // where the tree came from
	Commit string
	// Pins are the versions of other templates that it was read with: what its
	// file calls them, and their ids. Read again, it must be read with the same.
	Pins map[string]string

	where      string // the file, in mistakes
	files      map[string]string
	parameters *schema.Schema // nil: there are none
	env        *expr.Env
	resources  []*resource
	groups     []*group
	names      map[string]*entry // of the file's top level
	outputs    []*output
	checks     []*expr.Template
	links      *expr.Template
	actions    map[string]*action
	policies   []*expr.Template
	depth      int
	within     []string // names of the templates in it, and of those in them
}

// resource of a file, compiled.
type resource struct {
	*Resource
	key       string // "db", "front.api": its address without an index
	group     *group // nil: of none
	path      []any
	places    map[string]document.Place // of "", "with", "count", "when", "needs"
	described executor.Description
	inputs    *schema.Schema
	secret    map[string]bool // outputs
	object    *expr.Object

	count, when, with, links *expr.Template
	needs                    []*expr.Template
	checks                   []*expr.Template
}

type group struct {
	*Group
	path      []any
	place     document.Place
	resources map[string]*resource
	nested    *Template // nil: of resources of its own
	when      *expr.Template
	needs     []*expr.Template
	with      *expr.Template
}

// entry of the file's top level: one of both.
type entry struct {
	resource *resource
	group    *group
}

type output struct {
	*Output
	value  *expr.Template
	secret bool
}

type action struct {
	*Action
	parameters *schema.Schema
	command    []*expr.Template
	env        *expr.Template
}

// reader reads the files of one tree.
type reader struct {
	ctx      context.Context
	tree     source.Tree
	source   string
	around   Surroundings
	mistakes document.Mistakes
	inputs   map[string]*schema.Schema // of executors
	pins     map[string]string
	read     map[string]*Template // by directory
	open     []string             // directories on the way
}

// Parse reads the template of a tree and everything that it is composed of. The
// error is fault.Invalid (reason "template") and wraps document.Mistakes: all of
// them, each with its file and line.
func Parse(ctx context.Context, tree source.Tree, from string, around Surroundings) (*Template, error) {
	r := &reader{ctx: ctx, tree: tree, source: from, around: around,
		inputs: map[string]*schema.Schema{}, pins: map[string]string{}, read: map[string]*Template{}}
	if _, ok := tree.Files[FileName]; !ok {
		return nil, fault.New(fault.Invalid, "%s has no file %s: a template's directory holds one", cmp.Or(from, "the tree"), FileName).Because("template")
	}
	t, err := r.directory(".")
	if err != nil {
		return nil, err
	}
	if len(r.mistakes) > 0 {
		return nil, fault.New(fault.Invalid, "%w", r.mistakes).Because("template")
	}
	return t, nil
}

// label is what mistakes call a file of the tree.
func (r *reader) label(file string) string {
	if r.source == "" {
		return file
	}
	return strings.TrimSuffix(r.source, "/") + "/" + file
}

// directory reads the template of a directory of the tree. An error means that
// it could not be tried, not that it is wrong.
func (r *reader) directory(dir string) (*Template, error) {
	name := path.Join(dir, FileName)
	t := &Template{Source: r.source, Commit: r.tree.Commit, Pins: r.pins, where: r.label(name), files: r.texts(dir), names: map[string]*entry{}, actions: map[string]*action{}}
	r.open = append(r.open, dir)
	var failed error
	err := document.Read(t.where, r.tree.Files[name].Data, document.Form{Kind: "template", Bytes: maxFile, Mistakes: maxMistakes}, &t.File, func(read *document.File) {
		f := &file{File: read, t: t, r: r, dir: dir}
		if bytes.Count(r.tree.Files[name].Data, []byte("${")) > maxSpoken {
			f.At(nil, "a file has at most %d expressions", maxSpoken)
			return
		}
		failed = f.all()
	})
	r.open = r.open[:len(r.open)-1]
	var mistakes document.Mistakes
	if failed == nil && errors.As(err, &mistakes) {
		r.mistakes = append(r.mistakes, mistakes...)
		return nil, nil
	}
	if failed == nil {
		failed = err
	}
	r.read[dir] = t
	return t, failed
}

// texts are the files that expressions may read: those of the directory and below.
func (r *reader) texts(dir string) map[string]string {
	out := map[string]string{}
	for name, f := range r.tree.Files {
		if dir != "." {
			inner, below := strings.CutPrefix(name, dir+"/")
			if !below {
				continue
			}
			name = inner
		}
		if len(f.Data) <= maxText {
			out[name] = string(f.Data)
		}
	}
	return out
}

// Ref names the template and its version for people: "shop@1.2.0".
func (t *Template) Ref() string { return t.Metadata.Name + "@" + t.Spec.Version }

// nest reads the template that a group is, or reports why it cannot be. The
// error means that it could not be tried.
func (f *file) nest(g *group) error {
	ref, at := g.Template, under(g.path, "template")
	if dir, local := strings.CutPrefix(ref, "./"); local {
		dir = path.Join(f.dir, dir)
		if dir == ".." || strings.HasPrefix(dir, "../") || path.IsAbs(dir) {
			f.At(at, "leads out of the tree")
			return nil
		}
		if from := slices.Index(f.r.open, dir); from >= 0 {
			f.At(at, "these templates hold each other: %s", strings.Join(append(slices.Clone(f.r.open[from:]), dir), " → "))
			return nil
		}
		if len(f.r.open) >= maxDepth {
			f.At(at, "templates nest at most %d deep", maxDepth)
			return nil
		}
		if _, there := f.r.tree.Files[path.Join(dir, FileName)]; !there {
			f.At(at, "there is no file %s", path.Join(dir, FileName))
			return nil
		}
		nested, err := f.r.read[dir], error(nil)
		if nested == nil {
			nested, err = f.r.directory(dir)
		}
		if err != nil {
			return err
		}
		f.adopt(g, nested)
		return nil
	}
	name, version, pinned := strings.Cut(ref, "@")
	if !pinned || !nameForm.MatchString(name) || !releaseForm.MatchString(version) {
		f.At(at, "must be a template and its version such as web@1.2.0, or a directory of this tree such as ./web")
		return nil
	}
	if f.r.around.Template == nil {
		f.At(at, "there is no template %s", ref)
		return nil
	}
	nested, id, err := f.r.around.Template(f.r.ctx, ref)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		f.At(at, "%v", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read template %s: %w", ref, err)
	}
	f.r.pins[ref] = id
	f.adopt(g, nested)
	return nil
}

// adopt makes a template the group's, if it does not hold this one.
func (f *file) adopt(g *group, nested *Template) {
	if nested == nil {
		return // its own mistakes are told
	}
	at := under(g.path, "template")
	names := append([]string{nested.Metadata.Name}, nested.within...)
	if slices.Contains(names, f.t.Metadata.Name) {
		f.At(at, "these templates hold each other: %s", strings.Join([]string{f.t.Metadata.Name, nested.Metadata.Name, f.t.Metadata.Name}, " → "))
		return
	}
	if nested.depth+2 > maxDepth {
		f.At(at, "templates nest at most %d deep", maxDepth)
		return
	}
	g.nested = nested
	f.t.depth = max(f.t.depth, nested.depth+1)
	for _, n := range names {
		if !slices.Contains(f.t.within, n) {
			f.t.within = append(f.t.within, n)
		}
	}
}
