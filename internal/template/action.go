package template

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/schema"
)

// Command is an action that can be run: no shell looks at it.
type Command struct {
	App     App
	Argv    []string // the program and its arguments
	Env     map[string]string
	Timeout time.Duration
	// Secrets are texts that must be struck out of the output.
	Secrets []string
}

// shells read an argument as a program.
var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "cmd", "cmd.exe", "powershell", "pwsh", "eval", "env", "xargs", "ssh", "python", "python3", "perl", "ruby", "node"}

var variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,126}$`)

func (f *file) compileActions(path []any) {
	for i := range f.t.Spec.Actions {
		a, at := &f.t.Spec.Actions[i], under(path, i)
		made := &action{Action: a}
		if f.form(under(at, "name"), a.Name, nameForm, "lower-case letters, digits and dashes, such as reindex") && f.t.actions[a.Name] != nil {
			f.At(under(at, "name"), "the name %.64q is there twice", a.Name)
		}
		f.words(at, a.Description, nil)
		f.checkApp(a.App, under(at, "app"))
		var shape schema.Shape
		made.parameters, shape = f.schema(a.Parameters, under(at, "parameters"))
		args := shape.Members
		if args == nil {
			args = map[string]schema.Shape{}
		}
		if len(a.Command) == 0 {
			f.Missing(under(at, "command"), "is required: the program and its arguments")
		}
		for j, word := range a.Command {
			where := under(at, "command", j)
			t := f.template(word, where, place{what: "a command", resources: true, args: args, plain: "arguments of a process are seen by all others: hand it over in env"})
			if t == nil {
				continue
			}
			if len(t.Uses()) > 0 && j == 0 {
				f.At(where, "the program is written out: it cannot be chosen by an expression")
			} else if len(t.Uses()) > 0 && slices.Contains(shells, program(a.Command[0])) {
				f.At(where, "%s would run what is put in here: hand it over in env and read it from there", program(a.Command[0]))
			}
			made.command = append(made.command, t)
		}
		doc := map[string]any{}
		for name, value := range a.Env {
			if !variableForm.MatchString(name) {
				f.At(under(at, "env", name), "must be a name such as DB_HOST")
			}
			doc[name] = value
		}
		made.env = f.template(doc, under(at, "env"), place{what: "env", resources: true, args: args})
		f.t.actions[a.Name] = made
	}
	for _, name := range slices.Sorted(maps.Keys(f.t.Spec.Permissions.Actions)) {
		if name != "*" && f.t.actions[name] == nil {
			f.At([]any{"spec", "permissions", "actions", name}, "there is no action %.64q; %s", name, near(name, f.t.actions, "name one of this file, or *"))
		}
	}
}

func program(word string) string { return path.Base(strings.ReplaceAll(word, `\`, "/")) }

func (f *file) checkApp(app App, at []any) {
	f.form(under(at, "name"), app.Name, releaseForm, "a word such as psql")
	if strings.Contains(app.URL, "${") {
		f.At(under(at, "url"), "is written out: it cannot hold ${...}")
		return
	}
	if file, local := strings.CutPrefix(app.URL, "file:"); local {
		name := path.Join(f.dir, file)
		if _, there := f.r.tree.Files[name]; !there || path.IsAbs(file) {
			f.At(under(at, "url"), "there is no file %.128q in the tree", file)
		}
		return
	}
	if app.URL == "" {
		return
	}
	u, err := url.Parse(app.URL)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil:
		f.At(under(at, "url"), "must be https://..., without a password, or file:./x of this tree")
	case !sumForm.MatchString(app.SHA256):
		f.Missing(under(at, "sha256"), "must be the SHA-256 of the file, 64 lower-case hexadecimal digits: what is downloaded must not change")
	}
}

// Action makes an action's command of its arguments. Faults: NotFound, Invalid
// (arguments), Unavailable (something is not known yet).
func (l *Layout) Action(ctx context.Context, name string, args map[string]any, known Lookup) (Command, error) {
	t := l.root.t
	a := t.actions[name]
	if a == nil {
		return Command{}, fault.New(fault.NotFound, "template %s has no action %.64q", t.Ref(), name)
	}
	if a.parameters == nil && len(args) > 0 {
		return Command{}, fault.New(fault.Invalid, "action %s has no parameters", name).Because("parameters")
	}
	if a.parameters != nil {
		filled, err := a.parameters.Validate(args)
		if err != nil {
			return Command{}, fault.New(fault.Invalid, "%w", err).Because("parameters")
		}
		args = filled
	}
	if args == nil {
		args = map[string]any{}
	}
	out := Command{App: a.App, Timeout: time.Duration(a.Timeout), Env: map[string]string{}}
	plain := false // after "--" nothing is an option
	for i, word := range a.command {
		v, err := l.root.evaluate(ctx, word, -1, known, args)
		if err == nil {
			err = open(v)
		}
		if err != nil {
			return Command{}, fmt.Errorf("action %s: argument %d: %w", name, i, err)
		}
		arg, ok := scalar(v)
		if !ok || strings.ContainsRune(arg, 0) {
			return Command{}, fault.New(fault.Invalid, "action %s: argument %d must be one text or number", name, i)
		}
		if strings.HasPrefix(a.Command[i], "${") && strings.HasPrefix(arg, "-") && !plain {
			if _, isText := v.(string); isText {
				return Command{}, fault.New(fault.Invalid, "action %s: argument %d must not begin with -, or it would be taken for an option", name, i)
			}
		}
		plain = plain || a.Command[i] == "--"
		out.Argv = append(out.Argv, arg)
	}
	v, err := l.root.evaluate(ctx, a.env, -1, known, args)
	if err != nil {
		return Command{}, fmt.Errorf("action %s: env: %w", name, err)
	}
	doc, _ := v.(map[string]any)
	for k, v := range doc {
		if !executor.Whole(v) {
			return Command{}, fault.New(fault.Unavailable, "action %s: env %s depends on what is not known yet", name, k)
		}
		value, ok := scalar(executor.Reveal(v))
		if !ok || strings.ContainsRune(value, 0) {
			return Command{}, fault.New(fault.Invalid, "action %s: env %s must be one text or number", name, k)
		}
		if !plainTree(v) && value != "" {
			out.Secrets = append(out.Secrets, value)
		}
		out.Env[k] = value
	}
	slices.Sort(out.Secrets)
	return out, nil
}

func scalar(v any) (string, bool) {
	switch v.(type) {
	case string, int64, bool, float64:
		return fmt.Sprint(v), true
	}
	return "", false
}
