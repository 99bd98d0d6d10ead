package instance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// note is what an environment keeps for the executor.
type note struct {
	ID       string `json:"id"` // of the instance; written before it is ordered
	Offering string `json:"offering"`
	Plan     string `json:"plan,omitempty"` // mark of the plan that was begun last
}

func recall(r executor.Resource) (m note, err error) {
	if len(r.State) > 0 && json.Unmarshal(r.State, &m) != nil {
		return m, fault.New(fault.Internal, "what is remembered of %s cannot be read", r.Address)
	}
	return m, nil
}

// wish is what one resource asks for, beside what there is.
type wish struct {
	memory note
	off    *offering.Offering // nil: not known yet
	name   string             // empty: not known yet
	create Create
	given  map[string]executor.Input
	// parameters as the offering fills them in; keys that are not known are in later.
	parameters map[string]any
	later      []string // paths that are not known
	in         *Instance
	spent      bool // the id was one of an instance that is gone
}

func (e *Executor) open(ctx context.Context, r executor.Resource) (*wish, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &wish{given: map[string]executor.Input{}}
	var err error
	if w.memory, err = recall(r); err != nil {
		return nil, err
	}
	if err := w.read(r); err != nil {
		return nil, err
	}
	if in := w.given["offering"]; in.Known {
		off, ok := e.service.Offerings.Get(in.Text())
		if !ok {
			return nil, fault.New(fault.Invalid, "there is no offering %q: `drover get offerings` lists them", in.Text()).Because("offering")
		}
		w.off = off
		if err := w.check(); err != nil {
			return nil, err
		}
	}
	if w.memory.ID != "" {
		if w.in, w.spent, err = e.find(ctx, r, w.memory.ID); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// find returns an instance by its id; nil: there is none, or no more.
func (e *Executor) find(ctx context.Context, r executor.Resource, id string) (in *Instance, spent bool, err error) {
	o, err := e.service.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: id})
	if fault.Is(err, fault.NotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if !o.Deleted.IsZero() {
		return nil, true, nil
	}
	if o.Org != r.Org {
		return nil, false, fault.New(fault.Denied, "the instance %s is of another organisation by now", o.Name)
	}
	found, err := Decode(o)
	return &found, false, err
}

// read takes the inputs apart.
func (w *wish) read(r executor.Resource) error {
	for _, name := range []string{"offering", "name", "type", "size", "provider", "region", "multi_az", "version", "billing"} {
		in := r.Input(name)
		if err := in.Open(); err != nil {
			return err
		}
		if !in.Given {
			continue
		}
		w.given[name] = in
		if !in.Known {
			w.later = append(w.later, name)
		}
	}
	text := func(name string) string { return w.given[name].Text() }
	w.create = Create{Provider: text("provider"), Region: text("region"), Version: text("version"), Billing: Billing{Model: text("billing")}}
	if yes, ok := w.given["multi_az"].Value.(bool); ok {
		w.create.MultiAZ = &yes
	}
	if text("size") != "" && text("type") == "" && w.given["type"].Known == w.given["type"].Given {
		return fault.New(fault.Invalid, "a size needs its type beside it").Because("plan")
	}
	if w.create.Plan = text("type"); text("size") != "" {
		w.create.Plan += "." + text("size")
	}
	if w.given["name"].Known {
		w.name = text("name")
	} else if !w.given["name"].Given {
		w.name = nameOf(r.Environment, r.Address)
	}
	w.create.Parameters = map[string]any{}
	given := r.Input("parameters")
	parameters, ok := r.Inputs["parameters"].(map[string]any)
	if given.Given && !ok {
		if err := given.Open(); err != nil {
			return err
		}
		w.later = append(w.later, "parameters")
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		in := executor.NewInput("parameters."+name, parameters[name], true)
		if err := in.Open(); err != nil {
			return err
		}
		if !in.Known {
			w.later = append(w.later, in.Name)
			continue
		}
		w.create.Parameters[name] = in.Value
	}
	return nil
}

// check holds the wish against the offering, so that a plan finds mistakes.
func (w *wish) check() error {
	if w.name != "" {
		if err := ValidateName(w.name); err != nil {
			return err
		}
	}
	if w.known("provider") && w.known("region") {
		if _, _, err := w.off.Place(w.create.Provider, w.create.Region); err != nil {
			return err
		}
	}
	if t, ok := w.off.TypeOf(w.create.Plan); ok && len(t.Sizes) > 0 {
		w.create.Plan += "." + t.Sizes[0].Name
	}
	if w.create.Plan != "" && w.known("type") && w.known("size") {
		if _, _, err := w.off.Plan(w.create.Plan); err != nil {
			return err
		}
	}
	if w.known("version") {
		if _, err := versionsOf(w.off, w.create.Version); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(w.later, func(p string) bool { return strings.HasPrefix(p, "parameters") }) {
		// Rules over several of them cannot be held against some.
		w.parameters = w.create.Parameters
		return nil
	}
	var err error
	w.parameters, err = w.off.ValidateOrder(w.create.Parameters)
	return err
}

func (w *wish) known(name string) bool { return !slices.Contains(w.later, name) }

// fields are how the instance differs from the wish. What the wish leaves open is
// right as it is.
func (w *wish) fields() []executor.Field {
	var out []executor.Field
	is := map[string]any{}
	if in := w.in; in != nil {
		is = map[string]any{
			"offering": in.Spec.Offering, "name": in.Name, "type": in.Spec.Type, "size": in.Spec.Size, "provider": in.Spec.Provider,
			"region": in.Spec.Region, "multi_az": in.Spec.MultiAZ, "billing": in.Spec.Billing.Model, "version": in.Fields["version"],
		}
	}
	for _, name := range []string{"offering", "name", "type", "size", "provider", "region", "multi_az", "billing", "version"} {
		in, given := w.given[name]
		f := executor.Field{Path: name, Before: is[name], After: in.Show()}
		if name == "name" && !given && w.name != "" {
			given, f.After = true, w.name
		}
		if !given || reflect.DeepEqual(f.Before, f.After) {
			continue
		}
		f.Forces = w.in != nil && (name != "version" || w.off == nil || !w.off.Changeable(w.off.Spec.Components[0].Name))
		if !in.Known && in.Given {
			f.Forces = false // it may turn out to be the same
		}
		out = append(out, f)
	}
	for _, name := range slices.Sorted(maps.Keys(w.parameters)) {
		f := executor.Field{Path: "parameters." + name, After: w.parameters[name]}
		if w.in != nil {
			f.Before = w.in.Spec.Parameters[name]
		}
		if !same(f.Before, f.After) {
			out = append(out, f)
		}
	}
	for _, path := range w.later {
		if strings.HasPrefix(path, "parameters") {
			f := executor.Field{Path: path, After: executor.Unknown{}}
			if name, ok := strings.CutPrefix(path, "parameters."); ok && w.in != nil {
				f.Before = w.in.Spec.Parameters[name]
			}
			out = append(out, f)
		}
	}
	return out
}

// same compares values of which one has been through JSON.
func same(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, err := json.Marshal(a)
	y, other := json.Marshal(b)
	return err == nil && other == nil && string(x) == string(y)
}

// update is what to change in place.
func (w *wish) update() Update {
	u := Update{Parameters: map[string]any{}}
	for _, f := range w.fields() {
		if name, ok := strings.CutPrefix(f.Path, "parameters."); ok {
			u.Parameters[name] = w.parameters[name]
		}
		if f.Path == "version" {
			version := w.create.Version
			u.Version = &version
		}
	}
	return u
}

// free refuses a name that another instance has.
func (e *Executor) free(ctx context.Context, r executor.Resource, w *wish) error {
	if w.off == nil || w.name == "" {
		return nil
	}
	as := access.With(ctx, access.Principal{User: r.Owner, Org: r.Org})
	o, err := e.service.byName(as, access.From(as), w.off.Metadata.Name, w.name)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	case o.ID != w.memory.ID:
		return executor.NotOurs("the instance " + w.label())
	}
	return nil
}

// mark of what there is: wishes move it, what is reported does not.
func (w *wish) mark() string {
	if w.in == nil {
		return executor.Mark("none")
	}
	return executor.Mark(w.in.ID, w.in.Generation)
}

func (w *wish) label() string {
	if w.off == nil {
		return w.name
	}
	return w.off.Metadata.Name + " " + w.name
}

func (w *wish) remember(ctx context.Context, r executor.Resource, m note) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if string(data) == string(r.State) {
		return ctx.Err()
	}
	if r.Save == nil {
		return fault.New(fault.Internal, "there is nowhere to remember %s", r.Address)
	}
	if err := r.Save(ctx, data); err != nil {
		return err
	}
	w.memory = m
	return ctx.Err()
}

// nameOf makes a name of an environment's and a resource's: "shop", "web[0]" is
// "shop-web-0". One that is too long ends with a digest of it all.
func nameOf(environment, address string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(environment + "-" + address) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-")
	if name == "" || name[0] < 'a' {
		name = "e-" + name
	}
	if len(name) > maxName {
		sum := sha256.Sum256([]byte(environment + "/" + address))
		name = strings.TrimRight(name[:maxName-9], "-") + "-" + hex.EncodeToString(sum[:4])
	}
	return strings.TrimRight(name, "-")
}
