package gitops

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// note is what an environment keeps for the executor.
type note struct {
	ID   string `json:"id"`             // of the deployment; written before it is asked for
	Plan string `json:"plan,omitempty"` // mark of the plan that was begun last
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
	order  Order
	given  map[string]executor.Input
	d      *Deployment
	spent  bool // the id was one of a deployment that is gone
	as     context.Context
}

// inputs in the order in which differences are told; those that force come first.
var inputs = []string{"name", "workspace", "selector", "repository", "path", "revision", "cluster", "target", "namespace", "manual", "sync_options"}

func (e *Executor) open(ctx context.Context, r executor.Resource) (*wish, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &wish{given: map[string]executor.Input{}, as: access.With(ctx, access.Principal{User: r.Owner, Org: r.Org, Admin: r.Operator})}
	var err error
	if w.memory, err = recall(r); err != nil {
		return nil, err
	}
	for _, name := range inputs {
		in := r.Input(name)
		if err := in.Open(); err != nil {
			return nil, err
		}
		if in.Given {
			w.given[name] = in
		}
	}
	w.read(r)
	if err := w.check(); err != nil {
		return nil, err
	}
	if w.memory.ID != "" {
		w.d, w.spent, err = e.find(ctx, r, w.memory.ID)
	}
	return w, err
}

// read takes the inputs apart.
func (w *wish) read(r executor.Resource) {
	text := func(name string) string { return w.given[name].Text() }
	w.order = Order{
		Name: text("name"), Workspace: text("workspace"), Repository: text("repository"), Path: text("path"), Revision: text("revision"),
		To: To{Cluster: text("cluster"), Target: text("target"), Namespace: text("namespace")},
	}
	if !w.given["name"].Given {
		w.order.Name = resourceName(r.Environment, r.Address)
	}
	w.order.Manual, _ = w.given["manual"].Value.(bool)
	if labels, ok := w.given["selector"].Value.(map[string]any); ok && len(labels) > 0 {
		w.order.To.Selector = map[string]string{}
		for k, v := range labels {
			w.order.To.Selector[k], _ = v.(string)
		}
	}
	if list, ok := w.given["sync_options"].Value.([]any); ok {
		for _, v := range list {
			s, _ := v.(string)
			w.order.SyncOptions = append(w.order.SyncOptions, s)
		}
	}
}

// check finds mistakes while it is planned.
func (w *wish) check() error {
	for name, why := range map[string]func(string) string{"repository": checkRepository, "path": checkPath, "revision": checkRevision} {
		if in, given := w.given[name]; given && in.Known {
			if bad := why(in.Text()); bad != "" {
				return fault.New(fault.Invalid, "%s", strings.ReplaceAll(bad, "spec.source.path", "the path")).Because("spec")
			}
		}
	}
	if in := w.given["sync_options"]; in.Known && checkOptions(w.order.SyncOptions) != "" {
		return fault.New(fault.Invalid, "%s", checkOptions(w.order.SyncOptions)).Because("spec")
	}
	return nil
}

// find returns a deployment by its id; nil: there is none, or no more.
func (e *Executor) find(ctx context.Context, r executor.Resource, id string) (d *Deployment, spent bool, err error) {
	o, err := e.service.Store.Get(ctx, ledger.Ref{Kind: KindDeployment.Name, ID: id})
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
		return nil, false, fault.New(fault.Denied, "the deployment %s is of another organisation by now", o.Name)
	}
	found, err := sound(ctx, e.service, o, Decode)
	return &found, false, err
}

// as is whoever a deployment belongs to.
func (*Executor) as(ctx context.Context, d *Deployment) context.Context {
	return access.With(ctx, access.Principal{User: d.Owner, Org: d.Org, Admin: d.Spec.Operator})
}

// wanted is what the wish says of an input, and is what there is.
func (w *wish) wanted(name string) any {
	switch name {
	case "name":
		return w.order.Name
	case "manual":
		return w.order.Manual
	case "selector":
		return labelsOf(w.order.To.Selector)
	case "sync_options":
		return listOf(w.order.SyncOptions)
	}
	return w.given[name].Text()
}

func (w *wish) is(name string) any {
	if w.d == nil {
		return nil
	}
	s := &w.d.Spec
	switch name {
	case "name":
		return w.d.Name
	case "workspace":
		return w.wanted(name) // it is looked for there
	case "selector":
		return labelsOf(s.To.Selector)
	case "repository":
		return s.Repository
	case "path":
		return s.Path
	case "revision":
		return s.Revision
	case "cluster":
		return s.To.Cluster
	case "target":
		return s.To.Target
	case "namespace":
		return s.To.Namespace
	case "manual":
		return !s.Automated
	}
	return listOf(s.SyncOptions)
}

func labelsOf(m map[string]string) any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

func listOf(list []string) any {
	out := []any{}
	for _, v := range list {
		out = append(out, v)
	}
	return out
}

// known reports whether an input is not waited for.
func (w *wish) known(name string) bool { in, given := w.given[name]; return !given || in.Known }

// shown is an output that an input decides.
func (w *wish) shown(name string) any {
	if !w.known(name) {
		return executor.Unknown{}
	}
	return w.wanted(name)
}

// fields are how the deployment differs from the wish. What the wish does not name
// has its default.
func (w *wish) fields() (out []executor.Field) {
	for _, name := range inputs {
		f := executor.Field{Path: name, Before: w.is(name), After: w.shown(name)}
		if w.d == nil {
			if _, given := w.given[name]; given || name == "name" {
				out = append(out, f)
			}
			continue
		}
		if reflect.DeepEqual(f.Before, f.After) {
			continue
		}
		many := len(w.d.Spec.To.Selector) > 0
		f.Forces = w.known(name) && (name == "name" || name == "selector" && many != (len(w.order.To.Selector) > 0))
		out = append(out, f)
	}
	return out
}

// change is what to change in place.
func (w *wish) change() Change {
	o := w.order
	return Change{Repository: &o.Repository, Path: &o.Path, Revision: &o.Revision, To: &o.To, Manual: &o.Manual, SyncOptions: &o.SyncOptions}
}

// free refuses a name that another deployment has.
func (e *Executor) free(ctx context.Context, w *wish) error {
	if !w.known("name") || !w.known("workspace") || w.order.Name == "" {
		return nil
	}
	ws, _, _, err := e.service.ownWorkspace(w.as, w.order.Workspace)
	if err != nil {
		return err
	}
	holder, err := e.service.Store.Lookup(ctx, nameOf(ws.ID, w.order.Name))
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	case holder.ID != w.memory.ID:
		return executor.NotOurs(w.label())
	}
	return nil
}

// label names it for people: names are each workspace's own.
func (w *wish) label() string {
	if w.order.Workspace == "" {
		return "the deployment " + w.order.Name
	}
	return "the deployment " + w.order.Name + " of " + w.order.Workspace
}

// mark of what there is: wishes move it, what is reported does not.
func (w *wish) mark() string {
	if w.d == nil {
		return executor.Mark("none")
	}
	return executor.Mark(w.d.ID, w.d.Generation)
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

// resourceName makes a name of an environment's and a resource's: "shop", "web[0]"
// is "shop-web-0". One that is too long ends with a digest of it all.
func resourceName(environment, address string) string {
	parts := strings.FieldsFunc(strings.ToLower(environment+"-"+address), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	name := strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "-")
	if name == "" {
		name = "deployment"
	}
	const most = 63
	if len(name) > most {
		sum := sha256.Sum256([]byte(environment + "/" + address))
		name = strings.TrimRight(name[:most-9], "-") + "-" + hex.EncodeToString(sum[:4])
	}
	return name
}
