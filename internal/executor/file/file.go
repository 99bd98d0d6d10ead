// Package file makes resources that are files in one directory of the server.
//
// It owns the index beside them, which says whose each file is: a file without an
// entry is somebody else's, and is never touched. It must not leave the
// directory: paths go through os.Root, which follows no link out of it. Nothing
// is called over a network here, so that no policy of resilience stands between.
package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// Executor keeps files.
type Executor struct{}

// New makes the executor.
func New() Executor { return Executor{} }

// largest content. More belongs into storage that is made for it.
const largest = 1 << 20

// Describe implements executor.Executor.
func (Executor) Describe() executor.Description {
	return executor.Description{
		Summary: "a file in a directory of the server",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false, "required": []any{"path", "content"},
			"properties": map[string]any{
				"path":    map[string]any{"type": "string", "minLength": 1, "maxLength": 512, "pattern": `^([^/.]|\.[^/.]|\.\.[^/])(.*[^/])?$`, "description": "where it is, inside the connection's directory", "examples": []any{"shop/settings.ini"}},
				"content": map[string]any{"type": "string", "maxLength": largest, "description": "what is in it"},
				"mode":    map[string]any{"type": "string", "pattern": "^0?[0-7]{3}$", "default": "0644", "description": "who may read and write it"},
			},
		},
		Outputs: map[string]executor.Output{
			"path":   {Type: expr.String, Summary: "whole path on the server"},
			"sha256": {Type: expr.String, Summary: "digest of the content; of a secret content it is a secret too"},
		},
		Connects: true,
	}
}

// wanted is what the inputs ask for.
type wanted struct {
	path          string // clean; empty: not known
	content, mode executor.Input
}

// modeOf is the mode in the form that is compared and shown.
func (w wanted) modeOf() string {
	if m := strings.TrimPrefix(w.mode.Text(), "0"); m != "" {
		return "0" + m
	}
	return "0644"
}

func read(r executor.Resource) (w wanted, err error) {
	p := r.Input("path")
	w.content, w.mode = r.Input("content"), r.Input("mode")
	if err := errors.Join(p.Open(), w.mode.Open()); err != nil {
		return w, err
	}
	if p.Known {
		if w.path, err = place(p.Text()); err != nil {
			return w, err
		}
	}
	if len(w.content.Text()) > largest {
		return w, fault.New(fault.Invalid, "the content of %s has more than %d bytes", p.Text(), largest)
	}
	return w, nil
}

// place cleans a path, and refuses one that leads out or into the index.
func place(given string) (string, error) {
	p := filepath.Clean(filepath.FromSlash(given))
	odd := !utf8.ValidString(given) || strings.ContainsFunc(given, unicode.IsControl) // what the index could not name
	if given == "" || odd || !filepath.IsLocal(p) || p == "." || strings.HasSuffix(given, "/") {
		return "", fault.New(fault.Invalid, "%q is not a path of a file inside the directory; write it without a leading / and without ..", given)
	}
	if first, _, _ := strings.Cut(filepath.ToSlash(p), "/"); strings.EqualFold(first, index) {
		return "", fault.New(fault.Invalid, "%q is where Drover keeps whose the files are; use another path", given)
	}
	return p, nil
}

// Plan implements executor.Executor.
func (Executor) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	w, err := read(r)
	if err != nil {
		return executor.Change{}, err
	}
	d, err := open(ctx, r)
	if err != nil {
		return executor.Change{}, err
	}
	defer d.close()
	seen, err := d.survey(r, w)
	if err != nil {
		return executor.Change{}, err
	}
	return decide(r, w, seen, d.name), nil
}

// decide is what Apply would do about what was seen.
func decide(r executor.Resource, w wanted, seen survey, directory string) executor.Change {
	c := executor.Change{Action: executor.None, Mark: seen.mark(), Outputs: outputs(directory, w)}
	is := seen.at[w.path]
	old := seen.others(w.path)
	content := executor.Field{Path: "content", After: preview(w.content)}
	mode := executor.Field{Path: "mode", After: w.mode.Show()}
	if w.mode.Known {
		mode.After = w.modeOf()
	}
	where := executor.Field{Path: "path", After: executor.Unknown{}}
	if w.path != "" {
		where.After, c.Takes = filepath.ToSlash(w.path), []string{"the file " + w.path}
	}
	switch {
	case len(old) > 0:
		where.Before, where.Forces = filepath.ToSlash(old[0]), true
		c.Action, c.Fields = executor.Replace, []executor.Field{where, content, mode}
		c.Why = fmt.Sprintf("the file is at %s, wanted at %v", where.Before, executor.Show(where.After))
	case !is.there:
		c.Action, c.Why = executor.Create, "there is no such file"
		c.Fields = []executor.Field{where, content, mode}
	default:
		c.Fields = is.differs(w, false)
		if len(c.Fields) > 0 {
			c.Action, c.Why = executor.Update, why(c.Fields)
		}
	}
	return c
}

func why(fields []executor.Field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Path)
	}
	return "another " + strings.Join(names, " and ") + " is wanted"
}

func outputs(directory string, w wanted) map[string]any {
	out := map[string]any{"path": executor.Unknown{}, "sha256": executor.Unknown{}}
	if w.path != "" {
		out["path"] = filepath.Join(directory, w.path)
	}
	if w.content.Known {
		out["sha256"] = digest(w.content.Text())
		if w.content.Secret {
			out["sha256"] = executor.NewSecret(out["sha256"])
		}
	}
	return out
}

// Apply implements executor.Executor.
func (Executor) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if err := r.Settled(); err != nil {
		return executor.Result{}, err
	}
	w, err := read(r)
	if err != nil {
		return executor.Result{}, err
	}
	d, err := open(ctx, r)
	if err != nil {
		return executor.Result{}, err
	}
	defer d.close()
	seen, err := d.survey(r, w)
	if err != nil {
		return executor.Result{}, err
	}
	is := seen.at[w.path]
	right := is.there && len(is.differs(w, false)) == 0
	if !right {
		// What is right already may have been made right by a call that was killed.
		if r.Mark != "" && r.Mark != seen.mark() {
			return executor.Result{}, executor.Moved(w.path)
		}
		if err := remember(ctx, r, seen.paths, w.path); err != nil {
			return executor.Result{}, err
		}
		if err := d.write(ctx, r, w, is); err != nil {
			return executor.Result{}, err
		}
		fmt.Fprintf(r.Log, "wrote %s\n", filepath.ToSlash(w.path))
	}
	if old := seen.others(w.path); len(old) > 0 {
		for _, p := range old {
			if err := d.remove(r, p); err != nil {
				return executor.Result{}, err
			}
			fmt.Fprintf(r.Log, "removed %s\n", filepath.ToSlash(p))
		}
		if err := remember(ctx, r, nil, w.path); err != nil {
			return executor.Result{}, err
		}
	}
	return executor.Result{Done: true, Outputs: outputs(d.name, w), Made: []string{"file " + filepath.ToSlash(w.path)}}, nil
}

// Observe implements executor.Executor.
func (Executor) Observe(ctx context.Context, r executor.Resource) (executor.Observation, error) {
	w, err := read(r)
	if err != nil {
		return executor.Observation{}, err
	}
	d, err := open(ctx, r)
	if err != nil {
		return executor.Observation{}, err
	}
	defer d.close()
	seen, err := d.survey(r, w)
	if fault.Reason(err) == "not-ours" {
		// Something is there, and what the resource has made is not.
		return executor.Observation{Mark: executor.Mark("not ours")}, nil
	}
	if err != nil {
		return executor.Observation{}, err
	}
	o := executor.Observation{Mark: seen.mark()}
	if is := seen.at[w.path]; is.there {
		o.Exists, o.Drift = true, is.differs(w, true)
	}
	return o, nil
}

// Destroy implements executor.Executor.
func (Executor) Destroy(ctx context.Context, r executor.Resource) (executor.Result, error) {
	d, err := open(ctx, r)
	if err != nil {
		return executor.Result{}, err
	}
	defer d.close()
	paths := remembered(r)
	if p, err := place(r.Input("path").Text()); err == nil && !slices.Contains(paths, p) {
		paths = append(paths, p)
	}
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return executor.Result{}, err
		}
		if err := d.remove(r, p); err != nil {
			return executor.Result{}, err
		}
	}
	return executor.Result{Done: true}, nil
}

// explain turns an error of the file system into what a user can do about it.
func explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return fault.New(fault.Denied, "the server may not use %s: let it, then retry", what)
	case strings.Contains(err.Error(), "escapes"):
		return fault.New(fault.Invalid, "%s leads out of the directory", what)
	}
	return fault.New(fault.Unavailable, "%s cannot be used: %w", what, err)
}
