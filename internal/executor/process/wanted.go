package process

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

var (
	validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	validEnv  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// largest file that is written for a program.
const largest = 1 << 20

// piece is one thing that is wanted, in a form that can be compared and shown.
type piece struct {
	Digest string `json:"digest"`
	Shown  any    `json:"shown"`
	known  bool
}

// launch is how a program is started. It is kept in the record, which its owner
// alone can read, so that it can be started again without anybody else.
type launch struct {
	Program string            `json:"program"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	User    string            `json:"user,omitempty"`
	Ports   map[string]int    `json:"ports,omitempty"`
	Stop    string            `json:"stop,omitempty"`
	Grace   string            `json:"grace,omitempty"`
	Health  health            `json:"health,omitzero"`
}

// grace is how long it may take to end.
func (l launch) grace() time.Duration { return duration(l.Grace, 30*time.Second) }

// step is a command of the preparation.
type step struct {
	command []string
	stdin   string
}

// reload is what a program takes while it runs.
type reload struct {
	files  []string
	signal string // that tells it to; empty: it looks by itself
}

// wanted is what the inputs ask for.
type wanted struct {
	name    string // empty: not known
	unnamed executor.Input
	launch
	files   map[string]string
	prepare []step
	clear   []string
	reload  reload
	pieces  map[string]piece
}

func read(r executor.Resource) (w wanted, err error) {
	w = wanted{unnamed: r.Input("name"), pieces: map[string]piece{}, files: map[string]string{}}
	w.Env, w.Ports = map[string]string{}, map[string]int{}
	for _, name := range []string{"name", "program", "args", "user", "ports", "clear", "health", "stop", "grace", "reload"} {
		in := r.Input(name)
		if err := in.Open(); err != nil { // others on the machine can read them
			return w, err
		}
		if in.Given && name != "name" {
			w.add(name, in)
		}
	}
	w.name, w.Program, w.User, w.Stop = w.unnamed.Text(), r.Input("program").Text(), r.Input("user").Text(), r.Input("stop").Text()
	if w.unnamed.Known && !validName.MatchString(w.name) {
		return w, fault.New(fault.Invalid, "%.80q is no name of a directory: want small letters, digits, dots and dashes", w.name)
	}
	w.Args = words(r.Input("args").Value)
	w.clear = words(r.Input("clear").Value)
	ports, _ := r.Input("ports").Value.(map[string]any)
	for name, v := range ports {
		n, _ := v.(int64)
		w.Ports[name] = int(n)
	}
	again, _ := r.Input("reload").Value.(map[string]any)
	w.reload.files = words(again["files"])
	w.reload.signal, _ = again["signal"].(string)
	w.Grace = r.Input("grace").Text()
	w.Health = readHealth(r.Input("health").Value)
	if in := r.Input("prepare"); in.Given {
		if err := commandsOpen(r.Inputs["prepare"]); err != nil {
			return w, err
		}
		w.add("prepare", in)
		list, _ := in.Value.([]any)
		for _, v := range list {
			m, _ := v.(map[string]any)
			stdin, _ := m["stdin"].(string)
			w.prepare = append(w.prepare, step{words(m["command"]), stdin})
		}
	}
	for name, into := range map[string]map[string]string{"env": w.Env, "files": w.files} {
		if err := w.texts(r, name, into); err != nil {
			return w, err
		}
	}
	return w, w.check()
}

// commandsOpen refuses secrets in commands, which others on the machine can read. What
// a command reads may be one.
func commandsOpen(prepare any) error {
	list, ok := prepare.([]any)
	if !ok {
		return executor.NewInput("prepare", prepare, true).Open()
	}
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			v = m["command"]
		}
		if err := executor.NewInput("prepare[].command", v, true).Open(); err != nil {
			return err
		}
	}
	return nil
}

// texts reads a map of texts, of which each is a piece.
func (w *wanted) texts(r executor.Resource, name string, into map[string]string) error {
	in := r.Input(name)
	given, _ := r.Inputs[name].(map[string]any)
	if in.Given && given == nil { // a whole map that is secret, or not known
		w.add(name, in)
		given, _ = in.Value.(map[string]any)
	}
	for key, v := range given {
		one := executor.NewInput(name+"."+key, v, true)
		w.add(name+"."+key, one)
		if one.Known {
			into[key] = one.Text()
		}
	}
	return nil
}

func (w *wanted) check() error {
	for name, value := range w.Env {
		if !validEnv.MatchString(name) || strings.ContainsRune(value, 0) {
			return fault.New(fault.Invalid, "%.64q is no variable of a program", name)
		}
	}
	for name, content := range w.files {
		if err := inside(name); err != nil {
			return err
		}
		if len(content) > largest {
			return fault.New(fault.Invalid, "the file %.128q has more than %d bytes", name, largest)
		}
	}
	for _, name := range w.clear {
		if err := inside(name); err != nil {
			return err
		}
	}
	for _, s := range w.prepare {
		if len(s.command) == 0 {
			return fault.New(fault.Invalid, "a command of prepare is empty: name a program and its arguments, one by one")
		}
	}
	return nil
}

// inside refuses a path that leads out of the program's directory, or to what is
// ours in there.
func inside(name string) error {
	p := filepath.Clean(filepath.FromSlash(name))
	first, _, _ := strings.Cut(filepath.ToSlash(p), "/")
	if !filepath.IsLocal(p) || p == "." || strings.ContainsRune(name, 0) || strings.EqualFold(first, own) {
		return fault.New(fault.Invalid, "%.128q is no path inside the program's directory", name)
	}
	return nil
}

func (w *wanted) add(path string, in executor.Input) {
	w.pieces[path] = piece{Digest: in.Digest(), Shown: in.Show(), known: in.Known}
}

func (w wanted) shownName() any {
	if w.name == "" {
		return executor.Unknown{}
	}
	return w.name
}

// fields are all pieces as something new.
func (w wanted) fields() (out []executor.Field) {
	for _, path := range slices.Sorted(maps.Keys(w.pieces)) {
		out = append(out, executor.Field{Path: path, After: w.pieces[path].after()})
	}
	return out
}

func (p piece) after() any {
	if !p.known && p.Shown != executor.Hidden {
		return executor.Unknown{}
	}
	return p.Shown
}

// takes tells whether a program takes a change while it runs, and whether that is one
// of its files.
func (w wanted) takes(path string) (takes, file bool) {
	if name, ok := strings.CutPrefix(path, "files."); ok && slices.Contains(w.reload.files, name) {
		return true, true
	}
	return slices.Contains(quiet, path), false
}

// quiet are pieces that can change without a new start.
var quiet = []string{"health", "stop", "grace", "prepare", "clear", "reload"}

func words(v any) []string {
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, e := range list {
		if s, ok := e.(string); ok { // the schema has seen to it
			out = append(out, s)
		}
	}
	return out
}

func duration(text string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	return otherwise
}
