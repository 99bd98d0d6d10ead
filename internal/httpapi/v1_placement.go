package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
)

func (o *own) routesPlacement() {
	tags := []string{"placement"}
	huma.Register(o.api, huma.Operation{
		OperationID: "get-placement", Method: http.MethodGet, Path: "/api/v1/{resource}/{id}/placement", Tags: tags,
		Summary:     "Why an instance is on its cluster, and where it would go if it were placed now",
		Description: "Operators read of every cluster why the instance would not go there; tenants read the reasons of their region, without names.",
	}, o.placement)
	huma.Register(o.api, huma.Operation{
		OperationID: "explain-placement", Method: http.MethodPost, Path: "/api/v1/placement/explain", Tags: tags,
		Summary: "Where orders would go, and why not elsewhere; nothing is written", DefaultStatus: http.StatusOK, MaxBodyBytes: -1,
		Description: "Operators may think clusters away (without) and think of more (with). Quota is not looked at: whether a tenant may order at all is told by the order.",
	}, o.explainPlacement)
	huma.Register(o.api, huma.Operation{
		OperationID: "get-capacity", Method: http.MethodGet, Path: "/api/v1/capacity", Tags: []string{"operator"},
		Summary: "What every region has of each instance type, how full every cluster is, and what scaling says; operators only",
	}, o.capacity)
}

func (o *own) placement(ctx context.Context, in *ObjectPath) (*body[v1.Placement], error) {
	r, err := o.resource(in.Resource)
	if err != nil {
		return nil, err
	}
	if r.Kind != instance.Kind.Name {
		return nil, fault.New(fault.NotFound, "%s are not placed; instances are", r.Name)
	}
	found, err := o.find(ctx, r, in.ID)
	if err != nil {
		return nil, err
	}
	if !found.Deleted.IsZero() {
		return nil, absent(r, in.ID)
	}
	placed, err := instance.Decode(found)
	if err != nil {
		return nil, err
	}
	off, ok := o.Offerings.Get(placed.Spec.Offering)
	if !ok {
		return nil, fault.New(fault.Unavailable, "offering %q is not loaded", placed.Spec.Offering)
	}
	e, err := o.Instances.ExplainPlaced(ctx, off, placed)
	if err != nil {
		return nil, err
	}
	out := v1.Placement{Cluster: placed.Status.Cluster, Placed: placed.Status.Placed, Explanation: explained(e, access.From(ctx).Admin, false)}
	if placed.Status.Cluster == "" {
		out.Waiting = placed.Status.Message
	}
	return &body[v1.Placement]{out}, nil
}

func (o *own) explainPlacement(ctx context.Context, in *body[v1.AskPlacement]) (*body[v1.Explanation], error) {
	who, ask := access.From(ctx), in.Body
	if who.Cluster != "" && !who.Admin {
		return nil, fault.New(fault.Denied, "an agent sees its cluster's desired state and nothing else")
	}
	if !who.Admin {
		if len(ask.Without) > 0 || len(ask.With) > 0 || ask.Org != "" && ask.Org != who.Org {
			return nil, fault.New(fault.Denied, "only an operator may ask for other organisations or another fleet")
		}
		ask.Org = who.Org
	}
	off, ok := o.Offerings.Get(ask.Offering)
	if !ok {
		return nil, fault.New(fault.NotFound, "there is no offering %.64q", ask.Offering)
	}
	if ask.Count > instance.MaxOrders {
		return nil, fault.New(fault.Invalid, "count is at most %d", instance.MaxOrders).Because("field")
	}
	q := instance.Question{
		Provider: ask.Provider, Region: ask.Region, Type: ask.Type, Size: ask.Size, MultiAZ: ask.MultiAZ,
		Org: ask.Org, Cluster: ask.Cluster, Count: ask.Count, Without: ask.Without,
	}
	for _, extra := range ask.With {
		q.With = append(q.With, cluster.Extra{Units: extra.Units, Spec: cluster.Spec{
			Provider: extra.Provider, Region: extra.Region, Labels: extra.Labels, Taints: extra.Taints,
			Types: extra.Types, Offering: extra.Offering, MultiAZ: extra.MultiAZ,
		}})
	}
	e, err := o.Instances.Explain(ctx, off, q)
	if err != nil {
		return nil, err
	}
	return &body[v1.Explanation]{explained(e, who.Admin, true)}, nil
}

// explained is an explanation as the caller may read it. New orders are bound
// by the region's limit too, those that were taken are counted in it already.
func explained(e instance.Explanation, operator, fresh bool) v1.Explanation {
	out := v1.Explanation{Provider: e.Provider, Region: e.Region, Plan: e.Plan, Units: e.Units, Orders: make([]v1.Verdict, 0, len(e.Verdicts))}
	taken := e.Taken
	if e.Limited && operator {
		out.Limit = &v1.RegionLimit{Units: e.Limit, Taken: e.Taken}
	}
	for _, v := range e.Verdicts {
		one := v1.Verdict{Fits: v.Cluster != "", Reason: v.Why, Others: whyNot(v.Others, operator)}
		if operator {
			one.Cluster = v.Cluster
		}
		if !one.Fits {
			one.Reason = "no cluster of the region can take it"
		}
		if taken += e.Units; e.Limited && fresh && taken > e.Limit {
			one.Fits, one.Cluster, one.Reason = false, "", "the region's limit for this instance type is reached: the order would be refused"
		}
		out.Orders = append(out.Orders, one)
	}
	return out
}

// whyNot are the reasons: all of them for operators, those of the region for
// tenants, who need not know which clusters there are.
func whyNot(others []cluster.Judgement, operator bool) []v1.WhyNot {
	out := make([]v1.WhyNot, 0, len(others))
	for _, j := range others {
		if operator {
			out = append(out, v1.WhyNot{Cluster: j.Cluster, Code: string(j.Bar), Reason: j.String()})
			continue
		}
		if j.Bar == cluster.OtherPlace || j.Bar == cluster.OtherTenant {
			continue
		}
		reason := j.Plain()
		if !slices.ContainsFunc(out, func(w v1.WhyNot) bool { return w.Reason == reason }) {
			out = append(out, v1.WhyNot{Code: string(j.Bar), Reason: reason})
		}
	}
	return out
}

func (o *own) capacity(ctx context.Context, _ *struct{}) (*body[v1.Capacities], error) {
	if !access.From(ctx).Admin {
		return nil, fault.New(fault.Denied, "only an operator may see what the fleet has")
	}
	found, err := o.Clusters.Capacities(ctx, o.Offerings.List())
	if err != nil {
		return nil, err
	}
	uses, err := o.Clusters.Uses(ctx)
	if err != nil {
		return nil, err
	}
	out := v1.Capacities{Items: make([]v1.Capacity, 0, len(found)), Clusters: make([]v1.ClusterUse, 0, len(uses)), Scaling: []v1.ScaleNote{}}
	for _, u := range uses {
		out.Clusters = append(out.Clusters, v1.ClusterUse{Cluster: u.Cluster, Used: u.Used, Max: u.Max, Types: u.Types})
	}
	for _, c := range found {
		out.Items = append(out.Items, v1.Capacity{
			Provider: c.Provider, Region: c.Region, Offering: c.Offering, Type: c.Type,
			Max: c.Max, Used: c.Used, Aside: c.Aside, Free: c.Free, Largest: c.Largest, Slack: c.Slack, Clusters: c.Clusters,
		})
	}
	profiles, err := o.Clusters.Profiles(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range profiles {
		for _, s := range cluster.Scalings(p) {
			note := v1.ScaleNote{Profile: p.ID, Place: s.Place, Do: s.Do, Code: s.Code, Reason: s.Reason, Cluster: s.Cluster, DryRun: s.DryRun}
			if !s.At.IsZero() {
				note.At = &s.At
			}
			out.Scaling = append(out.Scaling, note)
		}
	}
	return &body[v1.Capacities]{out}, nil
}
