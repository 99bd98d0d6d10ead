package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func (o *own) routesEnvironmentRead() {
	if o.Environments == nil {
		return
	}
	tags := []string{"environments"}
	read := func(id, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: "/api/v1" + path, Tags: tags, Summary: summary}
	}
	huma.Register(o.api, read("get-plan", "/plans/{id}/changes", "A plan with what it does to each resource, by id or hash"),
		func(ctx context.Context, in *struct {
			ID string `path:"id" doc:"Id of the plan, or at least 8 digits of its hash" maxLength:"256"`
		}) (*body[v1.Plan], error) {
			p, err := o.Environments.PlanOf(ctx, "", in.ID)
			if err != nil {
				return nil, err
			}
			return o.wirePlan(ctx, p)
		})
	outputs := read("get-outputs", "/environments/{id}/outputs", "What an environment gives: entry points, addresses, and to those who may apply its secrets")
	outputs.Middlewares = huma.Middlewares{o.revealed}
	huma.Register(o.api, outputs,
		func(ctx context.Context, in *struct {
			ID     string `path:"id" doc:"Name or id of the environment" maxLength:"256"`
			Reveal bool   `query:"reveal" doc:"Secret ones too; that is put on record"`
		}) (*body[v1.Outputs], error) {
			return o.outputs(ctx, in.ID, in.Reveal)
		})
	huma.Register(o.api, read("get-graph", "/environments/{id}/graph", "The resources of an environment and what each needs"),
		func(ctx context.Context, in *environmentPath) (*body[v1.Graph], error) {
			g, err := o.graph(ctx, in.ID)
			return &body[v1.Graph]{g}, err
		})
	o.raw(huma.Operation{
		OperationID: "draw-graph", Method: http.MethodGet, Path: "/api/v1/environments/{id}/graph.svg", Tags: tags,
		Summary: "The graph of an environment as a drawing", Parameters: []*huma.Param{pathParam("id", "Name or id of the environment")},
		Responses: map[string]*huma.Response{"200": {Description: "The drawing", Content: map[string]*huma.MediaType{"image/svg+xml": {Schema: &huma.Schema{Type: "string"}}}}},
	}, o.drawing)
	huma.Register(o.api, read("get-why", "/environments/{id}/why", "What a resource depends on and what depends on it, transitively and across environments"),
		func(ctx context.Context, in *struct {
			ID      string `path:"id" doc:"Name or id of the environment" maxLength:"256"`
			Address string `query:"address" maxLength:"256" doc:"Of a resource; default: the environment itself"`
		}) (*body[v1.Why], error) {
			return o.why(ctx, in.ID, in.Address)
		})
	huma.Register(o.api, read("get-log", "/environments/{id}/log", "What the executor of a resource says, live while it runs"),
		func(ctx context.Context, in *struct {
			ID      string `path:"id" doc:"Name or id of the environment" maxLength:"256"`
			Address string `query:"address" required:"true" maxLength:"256" doc:"Of the resource"`
			After   int64  `query:"after" minimum:"0" doc:"What was read before"`
		}) (*body[v1.Log], error) {
			t, err := o.Environments.Log(ctx, in.ID, in.Address, in.After)
			if err != nil {
				return nil, err
			}
			return &body[v1.Log]{v1.Log{Text: strings.ToValidUTF8(string(t.Text), "\uFFFD"), Next: t.Next, Done: !t.Running, Cut: t.From > in.After}}, nil
		})
}

// wirePlan shows a plan with its changes.
func (o *own) wirePlan(ctx context.Context, made ledger.Object) (*body[v1.Plan], error) {
	p, err := environment.DecodePlan(made)
	if err != nil {
		return nil, err
	}
	changes, err := o.Environments.Changes(ctx, made)
	if err != nil {
		return nil, err
	}
	out := v1.Plan{
		ID: made.ID, Hash: p.Status.Hash, Environment: p.Spec.Environment, Template: p.Spec.Template, Version: p.Spec.Version, Phase: made.Phase,
		Message: p.Status.Message, Approval: p.Status.Approval, Destroy: p.Spec.Destroy, Made: p.Status.Made,
		Creates: p.Status.Creates, Updates: p.Status.Updates, Replaces: p.Status.Replaces, Destroys: p.Status.Destroys, Same: p.Status.Same,
		Resources: make([]v1.PlannedChange, 0, len(changes)),
	}
	for _, c := range changes {
		w := v1.PlannedChange{Address: c.Address, Executor: c.Executor, Action: string(c.Action), Why: c.Why, Tags: c.Tags, Group: c.Group, Needs: c.Needs, Unknown: c.Unknown}
		for _, f := range c.Fields {
			d := v1.Difference{Path: f.Path, Forces: f.Forces}
			if d.Before, err = rawValue(f.Before); err == nil {
				d.After, err = rawValue(f.After)
			}
			if err != nil {
				return nil, err
			}
			w.Fields = append(w.Fields, d)
		}
		out.Resources = append(out.Resources, w)
	}
	for _, v := range p.Status.Verdicts {
		out.Verdicts = append(out.Verdicts, v1.PolicyVerdict{Policy: v.Policy, Address: v.Address, Effect: v.Effect, Message: v.Message})
	}
	return &body[v1.Plan]{out}, nil
}

func rawValue(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}

// revealed puts on record who has asked for secrets, whatever came of it.
func (o *own) revealed(ctx huma.Context, next func(huma.Context)) {
	if asked := ctx.Query("reveal"); asked == "" || asked == "false" {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	o.audited(w, r, false, func(w http.ResponseWriter, r *http.Request) { next(humago.NewContext(ctx.Operation(), r, w)) })
}

func (o *own) outputs(ctx context.Context, id string, reveal bool) (*body[v1.Outputs], error) {
	values, err := o.Environments.Outputs(ctx, id, reveal)
	if err != nil {
		return nil, err
	}
	e, err := o.Environments.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	known, err := environment.Decode(e)
	if err != nil {
		return nil, err
	}
	out := v1.Outputs{Items: make([]v1.OutputValue, 0, len(values))}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		_, secret := known.Status.Secrets[name]
		v := v1.OutputValue{Name: name, Secret: secret, Entry: slices.ContainsFunc(known.Status.Entries, func(e environment.Endpoint) bool { return e.Name == name })}
		if !secret || reveal {
			if v.Value, err = rawValue(values[name]); err != nil {
				return nil, err
			}
		}
		out.Items = append(out.Items, v)
	}
	return &body[v1.Outputs]{out}, nil
}

// maxGraph is more than one environment has resources.
const maxGraph = 20_000

func (o *own) graph(ctx context.Context, id string) (v1.Graph, error) {
	e, err := o.Environments.Get(ctx, id)
	if err != nil {
		return v1.Graph{}, err
	}
	q := environment.ResourcesOf(e)
	q.Limit = maxGraph
	found, err := o.Ledger.List(ctx, q)
	if err != nil {
		return v1.Graph{}, err
	}
	out := v1.Graph{Environment: e.Name, Phase: e.Phase, Nodes: make([]v1.GraphNode, 0, len(found))}
	address := make(map[string]string, len(found))
	for _, r := range found {
		address[r.ID] = r.Name
	}
	outside := map[string]bool{}
	for _, each := range found {
		r, err := environment.DecodeResource(each)
		if err != nil {
			return out, err
		}
		n := v1.GraphNode{Address: each.Name, ID: each.ID, Executor: r.Spec.Executor, Group: r.Spec.Group, Phase: each.Phase, Message: r.Status.Message, Drifted: len(r.Status.Drift) > 0}
		for _, need := range r.Spec.Needs {
			if name, ok := address[need]; ok && name != each.Name {
				n.Needs = append(n.Needs, name)
			}
		}
		for _, l := range r.Status.Links {
			n.Links = append(n.Links, v1.Link{Rel: l.Rel, URL: l.URL})
		}
		for _, name := range r.Spec.External {
			n.Needs = append(n.Needs, "external/"+name)
			outside["external/"+name] = true
		}
		slices.Sort(n.Needs)
		n.Needs = slices.Compact(n.Needs)
		out.Nodes = append(out.Nodes, n)
	}
	for _, name := range slices.Sorted(maps.Keys(outside)) {
		out.Nodes = append(out.Nodes, v1.GraphNode{Address: name, External: true})
	}
	slices.SortStableFunc(out.Nodes, func(a, b v1.GraphNode) int { return compareAddress(a.Address, b.Address) })
	out.Nodes = slices.CompactFunc(out.Nodes, func(a, b v1.GraphNode) bool { return a.Address == b.Address })
	return out, nil
}

func (o *own) drawing(w http.ResponseWriter, r *http.Request) {
	g, err := o.graph(r.Context(), r.PathValue("id"))
	if err == nil && len(g.Nodes) > 2_000 {
		err = fault.New(fault.Invalid, "a drawing of %d resources could not be read: ask for the graph as JSON", len(g.Nodes))
	}
	var drawn []byte
	if err == nil {
		drawn, err = drawGraph(g)
	}
	if err != nil {
		o.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Write(drawn)
}

func (o *own) why(ctx context.Context, id, address string) (*body[v1.Why], error) {
	found, err := o.Environments.Why(ctx, id, address)
	if err != nil {
		return nil, err
	}
	related := func(rs []ledger.Reached) []v1.Related {
		out := make([]v1.Related, 0, len(rs))
		for _, r := range rs {
			w := v1.Related{End: r.End, Via: r.Via, Depth: r.Depth}
			if x := r.Object; x != nil {
				if !visible(access.From(ctx), x) {
					continue
				}
				w.Name, w.Kind, w.Phase = x.Name, x.Kind, x.Phase
				w.Environment, _ = x.Fields["environment"].(string)
			}
			out = append(out, w)
		}
		return out
	}
	return &body[v1.Why]{v1.Why{Of: found.Of.Ref.String(), Needs: related(found.DependsOn), NeededBy: related(found.UsedBy)}}, nil
}

// compareAddress sorts web[2] before web[10].
func compareAddress(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == "" || y == "" {
			if c := cmp.Compare(a[0], b[0]); c != 0 {
				return c
			}
			a, b = a[1:], b[1:]
			continue
		}
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[len(x):], b[len(y):]
	}
	return cmp.Compare(len(a), len(b))
}

// digits that a text begins with.
func digits(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))] }
