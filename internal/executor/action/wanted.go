package action

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// piece of a resource's inputs, as it is compared and shown.
type piece struct {
	Digest string `json:"digest"` // of a secret too: it is kept sealed
	Shown  any    `json:"shown"`
	known  bool
}

// stored is a command as it is remembered: what takes something away must be
// known when the template does not have it any more.
type stored struct {
	Argv  []string          `json:"argv,omitempty"`
	App   App               `json:"app,omitzero"`
	Env   map[string]string `json:"env,omitempty"`
	Files map[string]string `json:"files,omitempty"`
}

// state is what Save keeps.
type state struct {
	// Serial counts what was begun: a plan that has seen another is out of date.
	Serial int64            `json:"serial"`
	Done   bool             `json:"done"` // the command has ended with 0
	Pieces map[string]piece `json:"pieces"`
	Check  stored           `json:"check,omitzero"`
	Remove stored           `json:"remove,omitzero"`
	Stdout string           `json:"stdout,omitempty"`
	Result json.RawMessage  `json:"result,omitempty"`
}

func load(r executor.Resource) (*state, error) {
	if len(r.State) == 0 {
		return nil, nil
	}
	s := &state{}
	if err := json.Unmarshal(r.State, s); err != nil {
		return nil, fault.New(fault.Internal, "what is remembered of %s cannot be read", r.Address)
	}
	return s, nil
}

// wanted is what the inputs ask for.
type wanted struct {
	pieces                map[string]piece
	run, check, remove    stored
	secrets               []string
	runKnown, checksKnown bool
}

func read(r executor.Resource) (wanted, error) {
	w := wanted{pieces: map[string]piece{}, secrets: secretsOf(r.Inputs), runKnown: true, checksKnown: true}
	shared := stored{Env: map[string]string{}, Files: map[string]string{}}
	for _, name := range []string{"app", "command", "destroy", "check"} {
		in := r.Input(name)
		if err := in.Open(); err != nil {
			return w, err // others on the machine can list arguments
		}
		if !in.Given {
			continue
		}
		w.add(name, in)
		if !in.Known {
			w.runKnown = w.runKnown && name != "app" && name != "command"
			w.checksKnown = w.checksKnown && name != "app" && name != "check"
			continue
		}
		switch name {
		case "app":
			app, _ := in.Value.(map[string]any)
			shared.App.Name, _ = app["name"].(string)
			shared.App.URL, _ = app["url"].(string)
			shared.App.SHA256, _ = app["sha256"].(string)
		case "command":
			w.run.Argv = words(in.Value)
		case "destroy":
			w.remove.Argv = words(in.Value)
		case "check":
			w.check.Argv = words(in.Value)
		}
	}
	for name, into := range map[string]map[string]string{"env": shared.Env, "files": shared.Files} {
		given, _ := r.Inputs[name].(map[string]any)
		if in := r.Input(name); in.Given && given == nil { // a whole map that is secret, or not known
			w.add(name, in)
			if given, _ = in.Value.(map[string]any); !in.Known {
				w.runKnown, w.checksKnown = false, false
			}
		}
		for key, v := range given {
			in := executor.NewInput(name+"."+key, v, true)
			w.add(name+"."+key, in)
			if !in.Known {
				w.runKnown, w.checksKnown = false, false
				continue
			}
			into[key] = in.Text()
		}
	}
	if in := r.Input("triggers"); in.Given {
		w.add("triggers", in)
	}
	for _, c := range []*stored{&w.run, &w.check, &w.remove} {
		c.App, c.Env, c.Files = shared.App, shared.Env, shared.Files
	}
	return w, nil
}

func (w *wanted) add(path string, in executor.Input) {
	w.pieces[path] = piece{Digest: in.Digest(), Shown: in.Show(), known: in.Known}
}

func words(v any) []string {
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			continue // the schema has seen to it
		}
		out = append(out, s)
	}
	return out
}

// reruns reports whether a piece is one that the command depends on.
func reruns(path string) bool { return path != "check" && path != "destroy" }

// differ lists what differs from what was run last, and whether the command must
// be run for it.
func (w wanted) differ(s *state) (fields []executor.Field, again bool) {
	var before map[string]piece
	if s != nil {
		before = s.Pieces
	}
	paths := slices.Sorted(maps.Keys(w.pieces))
	for path := range before {
		if _, ok := w.pieces[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		old, was := before[path]
		now, is := w.pieces[path]
		if was && is && now.known && old.Digest == now.Digest {
			continue
		}
		f := executor.Field{Path: path}
		if was {
			f.Before = old.Shown
		}
		if is {
			f.After = now.Shown
			if !now.known && f.After != executor.Hidden {
				f.After = executor.Unknown{}
			}
		}
		fields = append(fields, f)
		again = again || reruns(path)
	}
	return fields, again
}

func why(fields []executor.Field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Path)
	}
	if len(names) > 3 {
		names = append(names[:3], "...")
	}
	return strings.Join(names, ", ") + " differs from what was run last"
}
