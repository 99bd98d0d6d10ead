package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
)

// memory is what Save keeps.
type memory struct {
	Inventory []string `json:"inventory"` // what may be there
	// Hidden are the fields that held a secret, as "<id> <path>": what is there now
	// may be it, though the inputs do not say so any more.
	Hidden []string `json:"hidden,omitempty"`
	Plan   string   `json:"plan,omitempty"` // mark of the plan that was begun last
}

func remembered(r executor.Resource) (m memory, err error) {
	if len(r.State) > 0 && json.Unmarshal(r.State, &m) != nil {
		return m, fault.New(fault.Internal, "what is remembered of %s cannot be read", r.Address)
	}
	return m, nil
}

// work is one call for one resource.
type work struct {
	r      executor.Resource
	client *manifest.Client
	memory memory
	set    manifest.Set
	ready  string
	hidden []string
	// later are the fields that are not known, by object; "": those of objects of
	// which not even the name is.
	later map[string][]string
}

func (e *Executor) open(ctx context.Context, r executor.Resource) (*work, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &work{r: r, later: map[string][]string{}}
	var err error
	if w.memory, err = remembered(r); err != nil {
		return nil, err
	}
	if w.client, err = e.pool.Get(r.Connection); err != nil {
		return nil, err
	}
	w.set = manifest.Set{Owner: r.ID, Namespace: r.Input("namespace").Text(), Force: true}
	if w.set.Namespace == "" {
		w.set.Namespace = "default"
	}
	for _, name := range []string{"namespace", "ready"} {
		if err := r.Input(name).Open(); err != nil {
			return nil, err
		}
	}
	if w.ready = r.Input("ready").Text(); w.ready != "" {
		if _, err := manifest.CompileReady(w.ready); err != nil {
			return nil, err
		}
	}
	if !r.Input("namespace").Known {
		w.later[""] = append(w.later[""], "namespace")
		return w, nil
	}
	manifests, ok := r.Inputs["manifests"].([]any)
	if !ok { // as a whole it is secret, or not known
		in := r.Input("manifests")
		if !in.Known {
			w.later[""] = append(w.later[""], "manifests")
			return w, nil
		}
		whole, _ := in.Value.([]any)
		for _, m := range whole {
			manifests = append(manifests, veil(m))
		}
	}
	for i, m := range manifests {
		if err := w.add(fmt.Sprintf("manifests[%d]", i), m); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// veil makes a secret of everything in an object but what names it.
func veil(m any) any {
	o, ok := m.(map[string]any)
	if !ok {
		return m
	}
	out := map[string]any{}
	for k, v := range o {
		switch k {
		case "apiVersion", "kind", "metadata":
			out[k] = v
		default:
			out[k] = executor.NewSecret(v)
		}
	}
	return out
}

// add takes one manifest apart: lists, secrets, and what is not known.
func (w *work) add(at string, m any) error {
	if s, ok := m.(executor.Secret); ok {
		m = veil(executor.Reveal(s))
	}
	o, ok := m.(map[string]any)
	if !ok {
		if !executor.Whole(m) {
			w.later[""] = append(w.later[""], at)
			return nil
		}
		return fault.New(fault.Invalid, "%s is no object", at)
	}
	if items, ok := o["items"].([]any); ok && o["kind"] == "List" {
		for i, item := range items {
			if err := w.add(fmt.Sprintf("%s.items[%d]", at, i), item); err != nil {
				return err
			}
		}
		return nil
	}
	meta, _ := o["metadata"].(map[string]any)
	for _, part := range []any{o["apiVersion"], o["kind"], meta["name"], meta["namespace"]} {
		in := executor.NewInput(at+".metadata.name", part, true)
		if err := in.Open(); err != nil {
			return err
		}
		if !in.Known {
			w.later[""] = append(w.later[""], at+".metadata.name")
			return nil
		}
	}
	id := w.idOf(o, meta)
	var known any = o
	if !executor.Whole(o) {
		w.later[id] = unknownPaths("", o)
		known = without(o)
	}
	for _, path := range secretPaths("", o) {
		w.hidden = append(w.hidden, id+" "+path)
	}
	w.set.Objects = append(w.set.Objects, executor.Reveal(known).(map[string]any))
	return nil
}

// idOf names an object before the cluster was asked whether it is in a namespace.
func (w *work) idOf(o, meta map[string]any) string {
	text := func(v any) string { s, _ := v.(string); return s }
	group, _, ok := strings.Cut(text(o["apiVersion"]), "/")
	if !ok {
		group = ""
	}
	return group + "/" + text(o["kind"]) + "/" + text(meta["name"])
}

// loose is an ID in the form of idOf. Two objects of one name in two namespaces
// share it: what is hidden in one is hidden in both.
func loose(id manifest.ID) string { return id.Group + "/" + id.Kind + "/" + id.Name }

func unknownPaths(at string, v any) []string {
	out := paths(at, v, func(v any) bool { _, ok := v.(executor.Unknown); return ok || isSecret(v) && !executor.Whole(v) })
	slices.Sort(out) // a plan tells them, and must come out the same again
	return out
}

func secretPaths(at string, v any) []string { return paths(at, v, isSecret) }

func isSecret(v any) bool { _, ok := v.(executor.Secret); return ok }

// paths of the values in a tree that are so.
func paths(at string, v any, so func(any) bool) []string {
	if so(v) {
		return []string{at}
	}
	var out []string
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			out = append(out, paths(join(at, k), e, so)...)
		}
	case []any:
		for i, e := range x {
			out = append(out, paths(fmt.Sprintf("%s[%d]", at, i), e, so)...)
		}
	}
	return out
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

// without is a tree without what is not known. A list goes as a whole: its
// members would be others.
func without(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range x {
			if l, ok := e.([]any); ok && !executor.Whole(l) {
				continue
			}
			if _, ok := e.(executor.Unknown); ok || isSecret(e) && !executor.Whole(e) {
				continue
			}
			out[k] = without(e)
		}
		return out
	}
	return v
}

func (w *work) save(ctx context.Context, m memory) error {
	m.Inventory, m.Hidden = manifest.Union(m.Inventory), manifest.Union(m.Hidden)
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if string(data) == string(w.r.State) {
		return ctx.Err()
	}
	if w.r.Save == nil {
		return fault.New(fault.Internal, "there is nowhere to remember %s", w.r.Address)
	}
	if err := w.r.Save(ctx, data); err != nil {
		return err
	}
	w.memory, w.r.State = m, data
	return ctx.Err()
}

func (w *work) log(verb, id string) { fmt.Fprintf(w.r.Log, "%s %s\n", verb, words(id)) }
