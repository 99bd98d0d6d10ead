package action

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// Executor runs a command as a resource.
type Executor struct{ runner *Runner }

// New makes the executor.
func New(r *Runner) Executor { return Executor{r} }

// Describe implements executor.Executor.
func (Executor) Describe() executor.Description {
	argv := func(what string, example ...any) map[string]any {
		return map[string]any{"type": "array", "minItems": 1, "maxItems": 256, "items": map[string]any{"type": "string", "maxLength": 64 << 10}, "description": what, "examples": []any{example}}
	}
	named := func(what string) map[string]any {
		return map[string]any{"type": "object", "maxProperties": 256, "additionalProperties": map[string]any{"type": "string"}, "description": what}
	}
	return executor.Description{
		Summary: "a command that is run once, and again when what it is given changes",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false, "required": []any{"command"},
			"properties": map[string]any{
				"app": map[string]any{
					"type": "object", "additionalProperties": false, "required": []any{"name"},
					"description": "the program: from a URL with its sha256, from files (file:./run.sh), or one that the server allows by name",
					"properties": map[string]any{
						"name":   map[string]any{"type": "string", "pattern": programName.String(), "examples": []any{"migrate"}},
						"url":    map[string]any{"type": "string", "examples": []any{"https://example.org/migrate-1.2-linux-amd64"}, "description": "the program itself, no archive"},
						"sha256": map[string]any{"type": "string", "pattern": "^[0-9a-fA-F]{64}$", "description": "needed with an https URL"},
					},
				},
				"command":  argv("program and arguments, one by one; there is no shell. It must bear being run twice", "migrate", "up"),
				"destroy":  argv("takes away what command has made; default: nothing is run", "migrate", "drop"),
				"check":    argv("ends with code 0 if what command makes is there, with another if not; it must change nothing. Default: it is there once command has ended with 0", "migrate", "version"),
				"env":      named("environment variables, the place for secrets: arguments can be read by others on the machine"),
				"files":    named("files in the directory that the command runs in, by path"),
				"triggers": map[string]any{"description": "anything; command is run again when it changes"},
			},
		},
		Outputs: map[string]executor.Output{
			"stdout": {Type: expr.String, Summary: "the first 64 KiB that command printed; a secret if a secret is in it"},
			"result": {Type: expr.Dyn, Summary: "what command printed, where that is one JSON document; null otherwise"},
			"exit":   {Type: expr.Int, Summary: "code that command ended with: 0"},
		},
		Timeout: 10 * time.Minute,
		AtOnce:  4,
		Every:   10 * time.Minute,
	}
}

// Plan implements executor.Executor. It runs check, and nothing else.
func (e Executor) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	w, err := read(r)
	if err != nil {
		return executor.Change{}, err
	}
	if err := e.sane(ctx, r, w); err != nil {
		return executor.Change{}, err
	}
	s, err := load(r)
	if err != nil {
		return executor.Change{}, err
	}
	there, err := e.there(ctx, r, s, w)
	if err != nil {
		return executor.Change{}, err
	}
	fields, again := w.differ(s)
	c := executor.Change{Action: executor.None, Mark: mark(s, there), Outputs: outputs(s, w)}
	switch {
	case s == nil && there:
		return executor.Change{}, executor.NotOurs("what the command makes")
	case s == nil:
		c.Action, c.Why, c.Fields = executor.Create, "the command was never run", fields
	case !there:
		c.Action, c.Why, c.Fields = executor.Create, "what the command makes is not there", fields
	case !s.Done:
		c.Action, c.Why, c.Fields = executor.Update, "the command was begun, and has not ended with 0", fields
	case len(fields) > 0:
		c.Action, c.Why, c.Fields = executor.Update, why(fields), fields
	}
	if c.Action == executor.Create || again {
		c.Outputs = map[string]any{"stdout": executor.Unknown{}, "result": executor.Unknown{}, "exit": int64(0)}
	}
	return c, nil
}

// sane refuses a command that could never be run.
func (e Executor) sane(ctx context.Context, r executor.Resource, w wanted) error {
	for _, c := range []stored{w.run, w.check, w.remove} {
		if len(c.Argv) == 0 || !w.runKnown || !w.checksKnown {
			continue
		}
		cmd, err := e.command(ctx, r, c, w.secrets)
		if err == nil {
			err = e.runner.Check(cmd)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// there reports whether what the command makes is there. Where nothing can tell,
// it is once the command has ended well.
func (e Executor) there(ctx context.Context, r executor.Resource, s *state, w wanted) (bool, error) {
	check := w.check
	if !w.checksKnown && s != nil {
		check = s.Check
	}
	if len(check.Argv) == 0 {
		return s != nil && s.Done, nil
	}
	if !w.checksKnown && s == nil {
		return false, nil // what it depends on is not there yet
	}
	out, err := e.start(ctx, r, check, w.secrets)
	if err != nil {
		return false, err
	}
	if out.Exit < 0 || out.Exit > 125 {
		// It was ended by a signal, or could not be run: that says nothing.
		return false, out.Failed("check")
	}
	return out.Exit == 0, nil
}

func (e Executor) start(ctx context.Context, r executor.Resource, c stored, secrets []string) (Output, error) {
	cmd, err := e.command(ctx, r, c, secrets)
	if err != nil {
		return Output{}, err
	}
	return e.runner.Run(ctx, cmd)
}

// command is what is run of a resource. A program of the template's own files
// comes along.
func (e Executor) command(ctx context.Context, r executor.Resource, c stored, secrets []string) (Command, error) {
	cmd := Command{App: c.App, Argv: c.Argv, Env: map[string]string{}, Files: map[string]File{}, Secrets: secrets, Log: r.Log}
	for name, value := range c.Env {
		cmd.Env[name] = value
	}
	cmd.Env["DROVER_RESOURCE"], cmd.Env["DROVER_ADDRESS"], cmd.Env["DROVER_ENVIRONMENT"] = r.ID, r.Address, r.Environment
	for name, text := range c.Files {
		cmd.Files[name] = File{Data: []byte(text)}
	}
	file, own := strings.CutPrefix(c.App.URL, "file:")
	file = strings.TrimPrefix(file, "./")
	if _, given := cmd.Files[file]; !own || given || r.Files == nil {
		return cmd, nil
	}
	all, err := r.Files(ctx)
	if err != nil {
		return cmd, err
	}
	if data, ok := all[file]; ok {
		cmd.Files[file] = File{Data: data}
	}
	return cmd, nil
}

// mark of what was seen: nothing of what was printed or given.
func mark(s *state, there bool) string {
	if s == nil {
		return executor.Mark(0, there)
	}
	return executor.Mark(s.Serial, s.Done, there)
}

func outputs(s *state, w wanted) map[string]any {
	if s == nil || !s.Done {
		return nil
	}
	var result any
	if len(s.Result) > 0 {
		result = parse(s.Result)
	}
	out := map[string]any{"stdout": s.Stdout, "result": result, "exit": int64(0)}
	strike := newStrike(w.secrets)
	if strike.holds(s.Stdout) {
		out["stdout"], out["result"] = executor.NewSecret(s.Stdout), executor.NewSecret(result)
	}
	return out
}

// Apply implements executor.Executor.
func (e Executor) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if err := r.Settled(); err != nil {
		return executor.Result{}, err
	}
	w, err := read(r)
	if err != nil {
		return executor.Result{}, err
	}
	if err := e.sane(ctx, r, w); err != nil {
		return executor.Result{}, err
	}
	s, err := load(r)
	if err != nil {
		return executor.Result{}, err
	}
	there, err := e.there(ctx, r, s, w)
	if err != nil {
		return executor.Result{}, err
	}
	fields, again := w.differ(s)
	mine := s != nil && len(fields) == 0 // begun or done by an earlier call of this one
	if r.Mark != "" && !mine && r.Mark != mark(s, there) {
		return executor.Result{}, executor.Moved("what the command makes")
	}
	if s == nil && there {
		return executor.Result{}, executor.NotOurs("what the command makes")
	}
	if mine && r.Mark != "" && s.Done && !there {
		return executor.Result{}, executor.Moved("what the command makes")
	}
	next := state{Pieces: w.pieces, Check: w.check, Remove: w.remove, Serial: 1}
	if s != nil {
		next.Serial, next.Done, next.Stdout, next.Result = s.Serial, s.Done, s.Stdout, s.Result
	}
	if s == nil || !s.Done || !there || again {
		if err := e.run(ctx, r, w, &next, s != nil); err != nil {
			return executor.Result{}, err
		}
	} else if len(fields) > 0 {
		next.Serial++
		if err := save(ctx, r, next); err != nil {
			return executor.Result{}, err
		}
	}
	return executor.Result{Done: true, Outputs: outputs(&next, w), Made: []string{"command " + w.run.Argv[0]}}, nil
}

// run runs the command between two notes of it.
func (e Executor) run(ctx context.Context, r executor.Resource, w wanted, next *state, before bool) error {
	if before {
		next.Serial++
	}
	next.Done = false
	if err := save(ctx, r, *next); err != nil {
		return err
	}
	fmt.Fprintf(r.Log, "$ %s\n", w.run.Argv[0])
	out, err := e.start(ctx, r, w.run, w.secrets)
	if err != nil {
		return err
	}
	if out.Exit != 0 {
		return out.Failed(w.run.Argv[0])
	}
	next.Done, next.Stdout, next.Result = true, out.Stdout, nil
	if out.Result != nil {
		if next.Result, err = json.Marshal(out.Result); err != nil {
			return err
		}
	}
	return save(ctx, r, *next)
}

func save(ctx context.Context, r executor.Resource, s state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if r.Save == nil {
		return fault.New(fault.Internal, "there is nowhere to remember %s", r.Address)
	}
	return r.Save(ctx, data)
}

// Observe implements executor.Executor.
func (e Executor) Observe(ctx context.Context, r executor.Resource) (executor.Observation, error) {
	s, err := load(r)
	if err != nil || s == nil {
		return executor.Observation{Mark: mark(s, false)}, err
	}
	w, err := read(r)
	if err != nil {
		return executor.Observation{}, err
	}
	w.check, w.checksKnown = s.Check, true // as it was applied
	there, err := e.there(ctx, r, s, w)
	if err != nil {
		return executor.Observation{}, err
	}
	return executor.Observation{Exists: there, Mark: mark(s, there)}, nil
}

// Destroy implements executor.Executor. What was begun and not ended may have
// made something too.
func (e Executor) Destroy(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if err := ctx.Err(); err != nil {
		return executor.Result{}, err
	}
	s, err := load(r)
	if err != nil || s == nil {
		return executor.Result{Done: err == nil}, err
	}
	w := wanted{check: s.Check, checksKnown: true, secrets: secretsOf(r.Inputs)}
	for name, value := range s.Remove.Env {
		if p, ok := s.Pieces["env."+name]; !ok || p.Shown == executor.Hidden {
			w.secrets = append(w.secrets, value)
		}
	}
	if len(s.Check.Argv) > 0 {
		there, err := e.there(ctx, r, s, w)
		if err != nil {
			return executor.Result{}, err
		}
		if !there && s.Done {
			return executor.Result{Done: true}, r.Save(ctx, nil)
		}
	}
	if len(s.Remove.Argv) > 0 {
		out, err := e.start(ctx, r, s.Remove, w.secrets)
		if err != nil {
			return executor.Result{}, err
		}
		if out.Exit != 0 {
			return executor.Result{}, out.Failed(s.Remove.Argv[0])
		}
	}
	return executor.Result{Done: true}, r.Save(ctx, nil)
}
