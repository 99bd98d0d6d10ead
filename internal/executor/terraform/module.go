package terraform

import (
	"context"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

const (
	// Put beside the module's own files: the place of the state, and what is
	// sensitive.
	overrideFile = "drover_override.tf.json"

	maxModule   = 32 << 20  // bytes of a module's files
	maxRemember = 256 << 10 // and of one that is remembered to be destroyed with
)

// module is what is carried out: files, where among them the module is, and values
// of its variables.
type module struct {
	files     map[string][]byte
	dir       string // slashes; "." is the root
	variables map[string]any
	secret    map[string]bool // variables that hold a secret
	known     bool            // nothing in it is unknown
}

// module reads the inputs. What was made is taken away and looked at with the files
// that it was made of, where those were remembered.
func (x *Executor) module(ctx context.Context, r executor.Resource, made bool) (module, error) {
	m := module{dir: ".", variables: map[string]any{}, secret: map[string]bool{}, known: true}
	if err := ctx.Err(); err != nil {
		return m, err
	}
	variables, _ := r.Inputs["variables"].(map[string]any)
	if v, given := r.Inputs["variables"]; given && variables == nil {
		all := r.Input("variables")
		if m.known = all.Known; m.known {
			revealed, ok := all.Value.(map[string]any)
			if !ok && v != nil {
				return m, fault.New(fault.Invalid, "variables is a map of names to values")
			}
			for name, v := range revealed {
				m.variables[name], m.secret[name] = v, all.Secret
			}
		}
	}
	for name, v := range variables {
		i := executor.NewInput(name, v, true)
		m.known = m.known && i.Known
		m.variables[name], m.secret[name] = i.Value, i.Secret
	}
	if note := noteOf(r); made && note.Files != nil {
		m.files, m.dir = note.Files, note.Dir
		return m, nil
	}
	return m, m.read(ctx, r)
}

// read finds the module's files.
func (m *module) read(ctx context.Context, r executor.Resource) error {
	at, files := r.Input("module"), r.Input("files")
	for _, i := range []executor.Input{at, files} {
		if err := i.Open(); err != nil {
			return err
		}
		m.known = m.known && i.Known
	}
	switch {
	case at.Given == files.Given:
		return fault.New(fault.Invalid, "give either module, a directory of the template's tree, or files")
	case !at.Known || !files.Known:
		return nil
	case files.Given:
		m.files = map[string][]byte{}
		given, _ := files.Value.(map[string]any)
		for name, v := range given {
			text, ok := v.(string)
			if !ok {
				return fault.New(fault.Invalid, "file %.80q of the module is no text", name)
			}
			m.files[name] = []byte(text)
		}
	default:
		if m.dir = path.Clean(at.Text()); !local(m.dir) {
			return fault.New(fault.Invalid, "module %.80q leads out of the template's tree", at.Text())
		}
		if r.Files == nil {
			return fault.New(fault.Invalid, "there are no files of the template: give files in place of module")
		}
		all, err := r.Files(ctx)
		if err != nil {
			return err
		}
		m.files = all
	}
	return m.check()
}

// local reports whether a path stays below where it begins.
func local(name string) bool {
	return name != "" && filepath.IsLocal(filepath.FromSlash(name)) && !strings.ContainsAny(name, "\\\x00") && path.Clean(name) == name
}

// check refuses files that would lie elsewhere, and a directory without any.
func (m *module) check() error {
	size, found := 0, false
	for name, data := range m.files {
		if !local(name) {
			return fault.New(fault.Invalid, "file %.80q of the module leads out of it", name)
		}
		size += len(data)
		dir, ext := path.Dir(name), path.Base(name)
		found = found || dir == m.dir && (strings.HasSuffix(ext, ".tf") || strings.HasSuffix(ext, ".tf.json") || strings.HasSuffix(ext, ".tofu"))
	}
	switch {
	case size > maxModule:
		return fault.New(fault.Invalid, "the module's files have more than %d MiB", maxModule>>20)
	case !found:
		return fault.New(fault.Invalid, "there is no module in %.80q: no file of it ends in .tf", m.dir)
	}
	return nil
}

// lay writes the module below a directory, and returns where it is. Neither states
// nor what somebody's own OpenTofu has left there come along.
func (m *module) lay(root string) (string, error) {
	for name, data := range m.files {
		base := path.Base(name)
		if strings.Contains("/"+name, "/.terraform/") || strings.Contains(base, ".tfstate") || base == overrideFile || strings.HasPrefix(name, ".git/") {
			continue
		}
		to := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(root, filepath.FromSlash(m.dir))
	declared := map[string]any{}
	for name := range m.variables { // those that the module does not have are complained about
		declared[name] = map[string]any{}
		if m.secret[name] {
			declared[name] = map[string]any{"sensitive": true}
		}
	}
	override := map[string]any{"terraform": map[string]any{"backend": map[string]any{"http": map[string]any{}}}}
	if len(declared) > 0 {
		override["variable"] = declared
	}
	return dir, write(filepath.Join(dir, overrideFile), override)
}

func write(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// note is what is remembered of a resource.
type note struct {
	// Mark of the plan that is being carried out: what has moved since, this run's
	// predecessor has.
	Mark  string            `json:"mark,omitempty"`
	Dir   string            `json:"dir,omitempty"`
	Files map[string][]byte `json:"files,omitempty"`
}

func noteOf(r executor.Resource) (n note) {
	_ = json.Unmarshal(r.Memory().Note, &n) // nothing was kept yet
	return n
}

// remember keeps the files, so that what is made of them can be taken away when
// the template has them no longer.
func (m *module) remember(ctx context.Context, r executor.Resource, mark string) error {
	n, size := note{Mark: mark, Dir: m.dir}, 0
	for _, data := range m.files {
		size += len(data)
	}
	if size <= maxRemember {
		n.Files = m.files
	}
	return r.Remember(ctx, nil, n)
}

// secrets are the texts that must be read by nobody.
func (m *module) secrets() (out []string) {
	var walk func(v any)
	walk = func(v any) {
		switch x := v.(type) {
		case string:
			if len(x) >= 4 {
				out = append(out, x, executor.Hidden)
			}
		case map[string]any:
			for _, v := range x {
				walk(v)
			}
		case []any:
			for _, v := range x {
				walk(v)
			}
		}
	}
	for name, v := range m.variables {
		if m.secret[name] {
			walk(v)
		}
	}
	return out
}
