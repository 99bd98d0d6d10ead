package consul

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// keys are one key, or several under a prefix.
type keys struct {
	c    *client
	r    executor.Resource
	root executor.Input            // the key or the prefix
	want map[string]executor.Input // by whole key
	open bool                      // some keys are not known
	note note
	have map[string]*api.KVPair // that are ours
}

// note is what is remembered about keys besides their names.
type note struct {
	Secret []string `json:"secret,omitempty"` // keys that have held a secret
}

func newKeys(c *client, r executor.Resource) (*keys, error) {
	k := &keys{c: c, r: r, want: map[string]executor.Input{}}
	_ = json.Unmarshal(r.Memory().Note, &k.note) // there is none yet
	if k.root = r.Input("key"); k.root.Given {
		if k.root.Known {
			k.want[k.root.Text()] = executor.NewInput("value", r.Inputs["value"], true)
		}
	} else {
		k.root = r.Input("prefix")
		all, ok := r.Inputs["keys"].(map[string]any)
		k.open = !ok
		for name, v := range all {
			if k.root.Known {
				k.want[strings.TrimSuffix(k.root.Text(), "/")+"/"+name] = executor.NewInput("keys."+name, v, true)
			}
		}
		if s, ok := r.Inputs["keys"].(executor.Secret); ok && k.root.Known {
			all, _ := executor.Reveal(s).(map[string]any)
			k.open = false
			for name, v := range all {
				k.want[strings.TrimSuffix(k.root.Text(), "/")+"/"+name] = executor.NewInput("keys."+name, executor.NewSecret(v), true)
			}
		}
	}
	k.open = k.open || !k.root.Known
	if err := k.root.Open(); err != nil {
		return nil, err
	}
	for key, in := range k.want {
		if key == "" || strings.HasPrefix(key, "/") {
			return nil, fault.New(fault.Invalid, "%q cannot be a key; keys begin without a /", key)
		}
		if _, ok := in.Value.(string); in.Known && !ok {
			return nil, fault.New(fault.Invalid, "%s is no text; write string(...) around it", in.Name)
		}
	}
	if len(k.want) > atOnce {
		return nil, fault.New(fault.Invalid, "a resource has at most %d keys, because they change together; use several", atOnce)
	}
	return k, nil
}

func (k *keys) name() string {
	if !k.root.Known {
		return "key"
	}
	if k.root.Name == "key" {
		return "key " + k.root.Text()
	}
	return "keys under " + k.root.Text()
}

// all are the keys that the resource has or may have.
func (k *keys) all() []string {
	return slices.Compact(slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(k.want)), k.r.Memory().Names...))))
}

// read fills what is there and ours. made are those of the last record: what
// somebody has written over since has lost its flag and is ours all the same.
func (k *keys) read(ctx context.Context) (foreign string, err error) {
	made := texts(k.r.Outputs["keys"])
	k.have = map[string]*api.KVPair{}
	for part := range slices.Chunk(k.all(), atOnce) {
		var ops api.TxnOps
		for _, key := range part {
			ops = append(ops, &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key}})
		}
		results, err := k.c.txn(ctx, ops)
		if err != nil {
			return "", err
		}
		if len(results) != len(part) {
			// Consul leaves out what may not be read, which is not to be taken for gone.
			return "", fault.New(fault.Denied, "%s does not let the connection's token read all of %s; give its policy this right, then retry", k.c.name, strings.Join(part, ", ")).Because("denied")
		}
		for i, res := range results {
			switch key := part[i]; {
			case res.KV == nil || res.KV.CreateIndex == 0: // it is not there
			case res.KV.Flags == flag(k.r.ID) || slices.Contains(made, key):
				k.have[key] = res.KV
			default:
				if _, ok := k.want[key]; ok {
					foreign = key
				}
			}
		}
	}
	return foreign, nil
}

// Look implements executor.Thing.
func (k *keys) Look(ctx context.Context) (executor.View, error) {
	foreign, err := k.read(ctx)
	if err != nil {
		return executor.View{}, err
	}
	if foreign != "" {
		return executor.View{}, executor.NotOurs("the key " + foreign)
	}
	v := executor.View{Name: k.name(), Outputs: k.Outputs()}
	for key := range k.want {
		v.Takes = append(v.Takes, "the key "+key)
	}
	seen := []any{"keys"}
	for _, key := range k.all() {
		pair, want := k.have[key], k.want[key]
		_, wanted := k.want[key]
		if pair != nil {
			seen = append(seen, key, pair.ModifyIndex)
		}
		secret := want.Secret || slices.Contains(k.note.Secret, key)
		switch {
		case wanted:
			v.There = v.There || pair != nil
			f := executor.Field{Path: want.Name, After: want.Show()}
			if secret && want.Known {
				f.After = executor.Hidden
			}
			if pair != nil {
				if want.Known && want.Text() == string(pair.Value) {
					continue
				}
				if f.Before = string(pair.Value); secret {
					f.Before = executor.Hidden
				}
			}
			v.Fields = append(v.Fields, f)
		case pair != nil && k.open && k.root.Known:
			v.There = true // whether it goes is not known
		case pair != nil && (!k.root.Known || !k.inside(key)):
			v.Left = append(v.Left, executor.Field{Path: k.root.Name, Before: key, After: k.root.Show(), Forces: true})
		case pair != nil:
			f := executor.Field{Path: "keys." + strings.TrimPrefix(key, strings.TrimSuffix(k.root.Text(), "/")+"/"), Before: string(pair.Value)}
			if secret {
				f.Before = executor.Hidden
			}
			v.Left = append(v.Left, f)
		}
	}
	if k.open && k.root.Known {
		v.Fields = append(v.Fields, executor.Field{Path: "keys", After: executor.Unknown{}})
	}
	if !v.There {
		v.Fields = append([]executor.Field{{Path: k.root.Name, After: k.root.Show()}}, v.Fields...)
	}
	v.Mark = executor.Mark(seen...)
	return v, nil
}

// inside reports whether a key that is no longer wanted is one of the same prefix.
func (k *keys) inside(key string) bool {
	return k.root.Name == "prefix" && strings.HasPrefix(key, strings.TrimSuffix(k.root.Text(), "/")+"/")
}

// Make implements executor.Thing.
func (k *keys) Make(ctx context.Context) error {
	remember := note{Secret: slices.Clone(k.note.Secret)}
	var ops api.TxnOps
	for _, key := range slices.Sorted(maps.Keys(k.want)) {
		in, pair := k.want[key], k.have[key]
		if in.Secret && !slices.Contains(remember.Secret, key) {
			remember.Secret = append(remember.Secret, key)
		}
		if pair != nil && string(pair.Value) == in.Text() && pair.Flags == flag(k.r.ID) {
			continue
		}
		op := &api.KVTxnOp{Verb: api.KVCAS, Key: key, Value: []byte(in.Text()), Flags: flag(k.r.ID)}
		if pair != nil {
			op.Index = pair.ModifyIndex
		}
		ops = append(ops, &api.TxnOp{KV: op})
	}
	if err := k.r.Remember(ctx, k.all(), remember); err != nil {
		return err
	}
	if len(ops) == 0 {
		return nil
	}
	_, err := k.c.txn(ctx, ops)
	if !errors.Is(err, errStale) {
		return err
	}
	// The answer to a first attempt may have been lost.
	if foreign, err := k.read(ctx); err != nil || foreign != "" {
		if err == nil {
			err = executor.NotOurs("the key " + foreign)
		}
		return err
	}
	for key, in := range k.want {
		if pair := k.have[key]; pair == nil || string(pair.Value) != in.Text() {
			return stale(k.r, "the key "+key)
		}
	}
	return nil
}

// Finish implements executor.Thing.
func (k *keys) Finish(ctx context.Context) error {
	var left []string
	for key := range k.have {
		if _, ok := k.want[key]; !ok {
			left = append(left, key)
		}
	}
	if err := k.drop(ctx, left); err != nil {
		return err
	}
	names := slices.Collect(maps.Keys(k.want))
	if len(k.all()) == len(names) {
		return nil
	}
	var secret []string
	for _, key := range slices.Sorted(maps.Keys(k.want)) {
		if k.want[key].Secret || slices.Contains(k.note.Secret, key) {
			secret = append(secret, key)
		}
	}
	return k.r.Remember(ctx, names, note{Secret: secret})
}

// drop deletes keys that are as they were read.
func (k *keys) drop(ctx context.Context, names []string) error {
	slices.Sort(names)
	for part := range slices.Chunk(names, atOnce) {
		var ops api.TxnOps
		for _, key := range part {
			ops = append(ops, &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVDeleteCAS, Key: key, Index: k.have[key].ModifyIndex}})
		}
		_, err := k.c.txn(ctx, ops)
		if errors.Is(err, errStale) {
			return fault.New(fault.Unavailable, "the key %s changes while it is being removed; it is tried again", part[0]).Because("busy")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove implements executor.Thing.
func (k *keys) Remove(ctx context.Context) error {
	if _, err := k.read(ctx); err != nil {
		return err
	}
	return k.drop(ctx, slices.Collect(maps.Keys(k.have)))
}

// Outputs implements executor.Thing.
func (k *keys) Outputs() map[string]any {
	out := map[string]any{"prefix": k.root.Show(), "keys": any(executor.Unknown{})}
	if !k.open {
		names := []any{}
		for _, key := range slices.Sorted(maps.Keys(k.want)) {
			names = append(names, key)
		}
		out["keys"] = names
	}
	return out
}
