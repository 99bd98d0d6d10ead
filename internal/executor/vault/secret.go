package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/vault"
)

// owner is the name under which a secret's metadata says whose it is.
const owner = "drover-resource"

// secret is a secret with versions.
type secret struct {
	c      *vault.Client
	r      executor.Resource
	at     place // empty: not known
	where  executor.Input
	given  map[string]executor.Input
	rules  map[string]rule
	open   bool // some names are not known
	note   note
	have   map[place]*kept // that are ours
	values map[string]string
	// version of the values, as they are there.
	version int
}

// place of a secret.
type place struct{ mount, path string }

func (p place) String() string { return p.mount + "/" + p.path }

// data is where the values are, and what policies name.
func (p place) data() string { return p.mount + "/data/" + p.path }

// name is what is remembered; mounts have no bars.
func (p place) name() string { return p.mount + "|" + p.path }

func named(name string) place {
	mount, path, _ := strings.Cut(name, "|")
	return place{mount, path}
}

// kept is what the server has at a place.
type kept struct {
	Current int               `json:"current_version"`
	Custom  map[string]string `json:"custom_metadata"`
	// Versions has the current one, unless it was pruned.
	Versions map[string]struct {
		Deleted   string `json:"deletion_time"`
		Destroyed bool   `json:"destroyed"`
	} `json:"versions"`
	data map[string]any // nil: not read
}

func (k *kept) there() bool {
	v, ok := k.Versions[fmt.Sprint(k.Current)]
	return k.Current > 0 && ok && v.Deleted == "" && !v.Destroyed
}

func newSecret(c *vault.Client, r executor.Resource) (*secret, error) {
	s := &secret{c: c, r: r, where: r.Input("path"), given: map[string]executor.Input{}, rules: map[string]rule{}}
	_ = json.Unmarshal(r.Memory().Note, &s.note) // there is none yet
	mount := r.Input("mount")
	if err := errors.Join(s.where.Open(), mount.Open()); err != nil {
		return nil, err
	}
	if s.where.Known && mount.Known {
		s.at = place{"secret", strings.Trim(s.where.Text(), "/")}
		if mount.Given {
			s.at.mount = strings.Trim(mount.Text(), "/")
		}
		for _, part := range strings.Split(s.at.String(), "/") {
			if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "|?#%*+ \x00") {
				return nil, fault.New(fault.Invalid, "%q cannot be the path of a secret", s.at)
			}
		}
	}
	for _, name := range []string{"data", "generate"} {
		if !r.Input(name).Given {
			continue
		}
		whole := r.Inputs[name]
		if hidden, ok := whole.(executor.Secret); ok { // the whole map is one
			m, _ := executor.Reveal(hidden).(map[string]any)
			out := map[string]any{}
			for k, v := range m {
				out[k] = executor.NewSecret(v)
			}
			whole = out
		}
		m, ok := whole.(map[string]any)
		s.open = s.open || !ok
		for key, v := range m {
			in := executor.NewInput(name+"."+key, v, true)
			if name == "data" {
				if _, ok := in.Value.(string); in.Known && !ok {
					return nil, fault.New(fault.Invalid, "%s is no text; write string(...) around it", in.Name)
				}
				s.given[key] = in
				continue
			}
			if _, twice := s.given[key]; twice {
				return nil, fault.New(fault.Invalid, "%q is in data and in generate; which is it?", key)
			}
			if !in.Known {
				s.open = true
				continue
			}
			rule, err := readRule(key, in.Value)
			if err != nil {
				return nil, err
			}
			s.rules[key] = rule
		}
	}
	return s, nil
}

func (s *secret) known() bool { return s.at.path != "" }

func (s *secret) places() []string {
	names := s.r.Memory().Names
	if s.known() && !slices.Contains(names, s.at.name()) {
		names = append(names, s.at.name())
	}
	slices.Sort(names)
	return names
}

// read fills what is there and ours.
func (s *secret) read(ctx context.Context) (foreign string, err error) {
	s.have = map[place]*kept{}
	for _, name := range s.places() {
		at := named(name)
		if err := s.c.Versioned(ctx, at.mount); err != nil {
			return "", err
		}
		is := &kept{}
		found, err := s.c.Read(ctx, at.mount+"/metadata/"+at.path, is)
		if err != nil {
			return "", err
		}
		if !found {
			continue
		}
		ours := is.Custom[owner] == s.r.ID || is.Custom[owner] == "" && s.r.Outputs["path"] == at.String()
		// Before it was marked only its content tells that a secret is ours.
		if !ours && is.Custom[owner] == "" && is.there() && s.note.Next.Place == name && s.note.Next.Version == is.Current {
			if err := s.fetch(ctx, at, is); err != nil {
				return "", err
			}
			ours = is.data != nil && s.note.Next.Digest == s.note.all(is.data)
		}
		if ours {
			s.have[at] = is
		} else if at == s.at {
			foreign = at.String()
		}
	}
	return foreign, nil
}

// fetch reads the values of the current version.
func (s *secret) fetch(ctx context.Context, at place, is *kept) error {
	if is.data != nil || !is.there() {
		return nil
	}
	var out struct {
		Data     map[string]any `json:"data"`
		Metadata struct {
			Version int `json:"version"`
		} `json:"metadata"`
	}
	found, err := s.c.Read(ctx, at.data(), &out)
	if err != nil {
		return err
	}
	if !found || out.Metadata.Version != is.Current {
		return fault.New(fault.Unavailable, "the secret %s changes while it is read; it is tried again", at).Because("busy")
	}
	is.data = out.Data
	if is.data == nil {
		is.data = map[string]any{}
	}
	return nil
}

// Look implements executor.Thing.
func (s *secret) Look(ctx context.Context) (executor.View, error) {
	foreign, err := s.read(ctx)
	if err != nil {
		return executor.View{}, err
	}
	if foreign != "" {
		return executor.View{}, executor.NotOurs("the secret " + foreign)
	}
	v := executor.View{Name: "secret " + s.at.String()}
	if v.Takes = []string{"the secret " + s.at.String()}; !s.known() {
		v.Name, v.Takes = "secret", nil
	}
	seen := []any{"secret"}
	for _, name := range s.places() {
		at := named(name)
		is := s.have[at]
		if is == nil || !is.there() {
			continue
		}
		seen = append(seen, name, is.Current)
		if at != s.at {
			f := executor.Field{Path: "path", Before: at.String(), After: executor.Unknown{}, Forces: true}
			if s.known() {
				f.After = s.at.String()
			}
			v.Left = append(v.Left, f)
		}
	}
	v.Mark = executor.Mark(seen...)
	is := s.have[s.at]
	v.There = is != nil && is.there()
	if v.There {
		v.Unfinished = is.Custom[owner] != s.r.ID
		if s.unmoved(is) {
			s.version = is.Current
			v.Outputs = s.Outputs()
			return v, nil
		}
		if err := s.fetch(ctx, s.at, is); err != nil {
			return executor.View{}, err
		}
	}
	fields, err := s.differs(is)
	if err != nil {
		return executor.View{}, err
	}
	v.Fields = fields
	if !v.There {
		v.Fields = append([]executor.Field{{Path: "path", After: s.where.Show()}}, v.Fields...)
	}
	v.Outputs = s.foreseen(v)
	return v, nil
}

// unmoved reports whether the version that was recorded is there, and was made of
// these very inputs: then its values need not be read.
func (s *secret) unmoved(is *kept) bool {
	made := s.note.settled(s.r, nil, is.Current)
	if s.open || is.Custom[owner] != s.r.ID || number(s.r.Outputs["version"]) != is.Current || made.Version != is.Current || made.Place != s.at.name() ||
		len(made.Keys) != len(s.given)+len(s.rules) {
		return false
	}
	values, ok := executor.Reveal(s.r.Outputs["values"]).(map[string]any)
	if !ok {
		return false
	}
	for key, in := range s.given {
		if !in.Known || made.Keys[key] != s.note.one(key, in.Text()) {
			return false
		}
	}
	for key, rule := range s.rules {
		text, _ := values[key].(string)
		if made.Rules[key] != rule.String() || made.Keys[key] != s.note.one(key, text) {
			return false
		}
	}
	s.values = map[string]string{}
	for key, v := range values {
		s.values[key], _ = v.(string)
	}
	return true
}

// differs decides what the values are to be, and tells how they differ from those
// that are there.
func (s *secret) differs(is *kept) (fields []executor.Field, err error) {
	data := map[string]any{}
	if is != nil && is.data != nil {
		data = is.data
		s.version = is.Current
	}
	s.values = map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(s.given)) {
		in := s.given[key]
		f := executor.Field{Path: in.Name, After: executor.Hidden}
		if !in.Known {
			f.After = executor.Unknown{}
		}
		s.values[key] = in.Text()
		old, there := data[key]
		if there {
			f.Before = executor.Hidden
		}
		if !in.Known || !there || old != in.Text() {
			fields = append(fields, f)
		}
	}
	made := s.note.settled(s.r, data, s.version)
	for _, key := range slices.Sorted(maps.Keys(s.rules)) {
		rule := s.rules[key]
		f := executor.Field{Path: "generate." + key, After: rule.String()}
		old, there := data[key]
		if there {
			f.Before = made.Rules[key]
		}
		if s.values[key], err = s.generated(key, rule, made, data); err != nil {
			return nil, err
		}
		if there && f.Before == f.After {
			f.Before, f.After = executor.Hidden, executor.Hidden // somebody has changed the value
		}
		if !there || old != s.values[key] {
			fields = append(fields, f)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if _, ok := s.values[key]; !ok && !s.open {
			fields = append(fields, executor.Field{Path: "data." + key, Before: executor.Hidden})
		}
	}
	if s.open {
		fields = append(fields, executor.Field{Path: "data", After: executor.Unknown{}})
	}
	return fields, nil
}

// generated is the value that was made up by the same rule, wherever it can still
// be found, or else a new one.
func (s *secret) generated(key string, r rule, made version, data map[string]any) (string, error) {
	if made.Rules[key] == r.String() {
		recorded, _ := executor.Reveal(s.r.Outputs["values"]).(map[string]any)
		for _, from := range []map[string]any{recorded, data} {
			if text, ok := from[key].(string); ok && made.Keys[key] == s.note.one(key, text) {
				return text, nil
			}
		}
	}
	return r.generate()
}

// foreseen are the outputs as Apply will have them.
func (s *secret) foreseen(v executor.View) map[string]any {
	if v.There && len(v.Fields) == 0 {
		return s.Outputs()
	}
	out := map[string]any{"path": any(executor.Unknown{}), "dataPath": any(executor.Unknown{}), "version": executor.Unknown{}, "values": executor.Unknown{}}
	if s.known() {
		out["path"], out["dataPath"] = s.at.String(), s.at.data()
	}
	if s.open {
		return out
	}
	values := map[string]any{}
	for key, in := range s.given {
		values[key] = any(executor.Unknown{})
		if in.Known {
			values[key] = executor.NewSecret(in.Text())
		}
	}
	for key := range s.rules {
		values[key] = executor.Unknown{}
	}
	if out["values"] = values; executor.Whole(values) {
		out["values"] = executor.NewSecret(executor.Reveal(values))
	}
	return out
}

// Outputs implements executor.Thing.
func (s *secret) Outputs() map[string]any {
	values := map[string]any{}
	for key, v := range s.values {
		values[key] = v
	}
	return map[string]any{"path": s.at.String(), "dataPath": s.at.data(), "version": int64(s.version), "values": executor.NewSecret(values)}
}
