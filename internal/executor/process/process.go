// Package process makes resources that are programs running on the server's own
// machine: a database, a broker, Drover itself. They outlive who has started them.
//
// It owns a directory per program (its files and its data), what it prints and the
// record of whose it is and how it was started, and the process. It must not know what
// the programs are. It runs whatever it is told to: there is no connection of it
// unless an operator has made one, and that is for operators alone unless it says
// otherwise.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/program"
)

// Executor keeps programs running.
type Executor struct{}

// New makes the executor.
func New() Executor { return Executor{} }

// Describe implements executor.Executor.
func (Executor) Describe() executor.Description {
	text := func(about string, more ...any) map[string]any {
		out := map[string]any{"type": "string", "maxLength": 4096, "description": about}
		for i := 0; i+1 < len(more); i += 2 {
			out[more[i].(string)] = more[i+1]
		}
		return out
	}
	list := func(about string) map[string]any {
		return map[string]any{"type": "array", "maxItems": 200, "items": map[string]any{"type": "string", "maxLength": 4096}, "description": about}
	}
	texts := func(about string) map[string]any {
		return map[string]any{"type": "object", "maxProperties": 200, "additionalProperties": map[string]any{"type": "string"}, "description": about}
	}
	return executor.Description{
		Summary: "a program that runs on the server's machine, and goes on without the server",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false, "required": []any{"name", "program"},
			"properties": map[string]any{
				"name":    text("of its directory, inside the connection's; it is where the program works", "pattern", `^[a-z0-9][a-z0-9._-]{0,62}$`, "examples", []any{"postgres"}),
				"program": text("its name, looked for in the connection's path and then in the server's; or a whole path", "minLength", 1, "examples", []any{"consul"}),
				"args":    list("arguments, one by one; everybody on the machine can read them"),
				"env":     texts("variables, all that it has besides PATH and HOME; the place for secrets"),
				"files":   texts("files in its directory, by path; readable by their owner alone"),
				"user":    text("as whom it runs where the server is root; elsewhere it runs as the server does", "pattern", `^[a-z_][a-z0-9_-]{0,31}$`),
				"ports": map[string]any{"type": "object", "maxProperties": 20, "additionalProperties": map[string]any{"type": "integer", "minimum": 1, "maximum": 65535},
					"description": "that it listens on, by name: taken by somebody else, it is not started"},
				"prepare": map[string]any{"type": "array", "maxItems": 20, "description": "commands that are run once, before the first start", "items": map[string]any{
					"type": "object", "additionalProperties": false, "required": []any{"command"}, "properties": map[string]any{
						"command": list("program and arguments; everybody on the machine can read them"),
						"stdin":   text("what it reads"),
					}}},
				"reload": map[string]any{"type": "object", "additionalProperties": false, "required": []any{"files"}, "description": "what it takes while it runs: a change of these files is no new start",
					"properties": map[string]any{
						"files":  list("of files, by path"),
						"signal": text("that it is told by; without one it looks by itself", "enum", []any{"HUP"}),
					}},
				"clear":  list("paths in its directory that are removed before the commands of prepare: one that was cut short begins anew"),
				"health": healthSchema(),
				"stop":   text("signal that it is asked to end with", "enum", []any{"TERM", "INT", "QUIT", "HUP"}, "default", "TERM"),
				"grace":  text("how long it may take to end before it is killed", "default", "30s"),
			},
		},
		Outputs: map[string]executor.Output{
			"directory": {Type: expr.String, Summary: "where it works"},
			"name":      {Type: expr.String, Summary: "of its directory"},
		},
		Connects: true, Every: 30 * time.Second, Timeout: 5 * time.Minute,
	}
}

// Plan implements executor.Executor.
func (Executor) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	w, p, err := open(ctx, r)
	if err != nil {
		return executor.Change{}, err
	}
	seen, err := p.survey(r, w)
	if err != nil {
		return executor.Change{}, err
	}
	c := executor.Change{Action: executor.None, Mark: seen.mark(), Outputs: p.outputs(w)}
	if w.name != "" {
		c.Takes = []string{"the directory " + w.name}
	}
	switch {
	case len(seen.old) > 0:
		where := executor.Field{Path: "name", Before: seen.old[0].Name, After: w.shownName(), Forces: true}
		c.Action, c.Fields = executor.Replace, append([]executor.Field{where}, w.fields()...)
		c.Why = fmt.Sprintf("it is in %s, wanted in %v: everything in there goes", seen.old[0].Name, executor.Show(where.After))
	case seen.here == nil:
		c.Action, c.Why, c.Fields = executor.Create, "there is no such program", append([]executor.Field{{Path: "name", After: w.shownName()}}, w.fields()...)
	default:
		if c.Fields = seen.differs(w, false); len(c.Fields) > 0 {
			c.Action, c.Why = executor.Update, "another "+c.Fields[0].Path+" is wanted"
			if c.Fields[0].Path == "process" {
				c.Why = "it does not run"
			}
		}
	}
	if c.Action != executor.None && r.Input("program").Known {
		for _, name := range append([]string{w.Program}, programs(w)...) {
			if _, err := p.find(name); err != nil {
				return executor.Change{}, err
			}
		}
	}
	return c, nil
}

// Apply implements executor.Executor.
func (Executor) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if err := r.Settled(); err != nil {
		return executor.Result{}, err
	}
	w, p, err := open(ctx, r)
	if err != nil {
		return executor.Result{}, err
	}
	if err := p.settleAll(ctx, r, w); err != nil {
		return executor.Result{}, err
	}
	if wait, err := p.await(ctx, r, w); err != nil || !wait.Done {
		return wait, err
	}
	return executor.Result{Done: true, Outputs: p.outputs(w), Made: []string{"program " + w.name}}, nil
}

// settleAll has the program as it is wanted, and nothing of it elsewhere, while nobody
// else acts on it.
func (p directory) settleAll(ctx context.Context, r executor.Resource, w wanted) error {
	unlock, err := p.lock(ctx, append([]string{w.name}, r.Memory().Names...)...)
	if err != nil {
		return err
	}
	defer unlock()
	seen, err := p.survey(r, w)
	if err != nil {
		return err
	}
	if seen.here == nil || len(seen.differs(w, false)) > 0 {
		// What is right already may have been made right by a call that was killed;
		// what it has begun moves too.
		if r.Mark != "" && r.Mark != seen.mark() && (seen.here == nil || !seen.here.Beginning) {
			return executor.Moved("the program in " + w.name)
		}
		names := []string{w.name}
		for _, old := range seen.old {
			names = append(names, old.Name)
		}
		if err := r.Remember(ctx, names, nil); err != nil {
			return err
		}
		if err := p.make(ctx, r, w, seen); err != nil {
			return err
		}
	}
	for _, old := range seen.old {
		if err := p.remove(ctx, old, w.launch.grace()); err != nil {
			return err
		}
		fmt.Fprintf(r.Log, "removed %s\n", old.Name)
	}
	if len(seen.old) > 0 {
		if err := r.Remember(ctx, []string{w.name}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Observe implements executor.Executor.
func (Executor) Observe(ctx context.Context, r executor.Resource) (executor.Observation, error) {
	w, p, err := open(ctx, r)
	if err != nil {
		return executor.Observation{}, err
	}
	seen, err := p.survey(r, w)
	if fault.Reason(err) == "not-ours" {
		// Something is there, and what the resource has made is not.
		return executor.Observation{Mark: executor.Mark("not ours")}, nil
	}
	if err != nil {
		return executor.Observation{}, err
	}
	o := executor.Observation{Mark: seen.mark(), Exists: seen.here != nil}
	if seen.here == nil {
		return o, nil
	}
	if o.Drift = seen.differs(w, true); seen.alive {
		o.Unready = w.Health.ask(ctx, p, seen.here)
	}
	if seen.alive && seen.here.PID == self() {
		o.Drift, o.Unready = w.taken(o.Drift, o.Unready)
	}
	return o, nil
}

// Destroy implements executor.Executor. Everything in the program's directory goes.
func (Executor) Destroy(ctx context.Context, r executor.Resource) (executor.Result, error) {
	p, err := place(ctx, r.Connection)
	if err != nil {
		return executor.Result{}, err
	}
	names := r.Memory().Names
	if n := r.Input("name").Text(); validName.MatchString(n) && !slices.Contains(names, n) {
		names = append(names, n)
	}
	grace := duration(r.Input("grace").Text(), 30*time.Second)
	for _, name := range names {
		gone, err := p.end(ctx, name, r.ID, grace)
		if err != nil {
			return executor.Result{}, err
		}
		if gone {
			fmt.Fprintf(r.Log, "ended and removed %s\n", name)
		}
	}
	return executor.Result{Done: true}, nil
}

// maxOutput is how much of what a program prints is kept, and as much of before.
const maxOutput = 16 << 20

// Watch implements executor.Watcher: it looks once a second whether the process is
// there and its files are as they were, and keeps its output small.
func (Executor) Watch(ctx context.Context, r executor.Resource, changed func()) error {
	last := ""
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		w, p, err := open(ctx, r)
		if err != nil {
			return err
		}
		seen, err := p.survey(r, w)
		now := fmt.Sprint(err)
		if err == nil {
			now = seen.mark()
			_ = program.Bound(p.logPath(w.name), maxOutput)
		}
		if now != last {
			last = now
			changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func open(ctx context.Context, r executor.Resource) (wanted, directory, error) {
	w, err := read(r)
	if err != nil {
		return w, directory{}, err
	}
	p, err := place(ctx, r.Connection)
	return w, p, err
}

// place opens the connection.
func place(ctx context.Context, c executor.Connection) (directory, error) {
	if err := ctx.Err(); err != nil {
		return directory{}, err
	}
	if err := c.Check("directory", "path"); err != nil {
		return directory{}, err
	}
	p := directory{at: c["directory"], path: filepath.SplitList(c["path"])}
	if !filepath.IsAbs(p.at) {
		return p, fault.New(fault.Invalid, "the connection names no directory with its whole path; an operator mends that")
	}
	info, err := os.Stat(p.at)
	switch {
	case errors.Is(err, os.ErrPermission):
		return p, fault.New(fault.Denied, "the server may not use the directory of programs: let it, then retry")
	case err != nil || !info.IsDir():
		return p, fault.New(fault.Unavailable, "the directory of programs cannot be used")
	}
	return p, nil
}

func (p directory) outputs(w wanted) map[string]any {
	if w.name == "" {
		return map[string]any{"directory": executor.Unknown{}, "name": executor.Unknown{}}
	}
	return map[string]any{"directory": p.home(w.name), "name": w.name}
}
