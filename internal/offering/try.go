package offering

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// try renders made-up instances of every plan and billing model, if they can be
// made up, so that a key that is never there is found now and not when the
// first tenant comes. They are tried as ordered and as placed: what is shown of
// an instance is shown before its agent has said a word. A file with more plans
// than can be tried in time is not refused for it.
func (f file) try(o *Offering) {
	if _, err := o.Validate(nil); err != nil {
		return // something is required, and only tenants know what
	}
	ctx, stop := context.WithTimeout(context.Background(), maxTry)
	defer stop()
	around := sampleSurroundings(o)
	seen := map[string]bool{}
	report := func(part []any, plan [2]string, err error) {
		if key := part[0].(string) + plan[0] + plan[1]; err != nil && !fault.Is(err, fault.Unavailable) && !seen[key] {
			seen[key] = true
			f.At(under([]any{"spec"}, part...), "cannot be made for plan %s.%s: %v", plan[0], plan[1], err)
		}
	}
	for _, plan := range slices.SortedFunc(maps.Keys(o.plans), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		parameters, err := o.Validate(o.plans[plan].size.Parameters)
		if err != nil {
			f.atSize(o, plan, err)
			continue
		}
		for _, model := range o.models(plan[0]) {
			if ctx.Err() != nil {
				return
			}
			ordered := Facts{
				ID: "sample", Name: "sample", Owner: "sample", Org: "sample", Phase: "accepted",
				Provider: o.Spec.Providers[0].Name, Region: o.Spec.Providers[0].Regions[0].Name,
				Type: plan[0], Size: plan[1], Billing: model, Parameters: parameters, Created: time.Unix(0, 0).UTC(),
			}
			placed := ordered
			placed.Phase, placed.Versions, placed.Version = "ready", around.Cluster.Versions, "0"
			placed.Cluster, placed.Namespace, placed.Placement, placed.Host = "sample", "sample", "sample", "sample.example.org"
			placed.Client = "sample"
			_, err := o.render(ctx, o.routes, ordered, Surroundings{}) // whether it is a host name depends on more than samples
			report([]any{"routes"}, plan, err)
			_, err = o.text(ctx, o.rank, ordered, nil)
			report([]any{"api", "rank"}, plan, err)
			for _, facts := range []Facts{ordered, placed} {
				_, err = o.Present(ctx, facts)
				report([]any{"present"}, plan, cause(err))
				_, err = o.PresentAdmin(ctx, facts, Surroundings{})
				report([]any{"admin", "present"}, plan, cause(err))
			}
			for _, certificate := range []string{"", "missing", "ready"} {
				placed.Certificate = certificate
				_, err = o.Desired(ctx, placed, around)
				report([]any{"desired"}, plan, cause(err))
			}
			_, err = o.text(ctx, o.selector, placed, labelValue)
			report([]any{"metrics", "selector"}, plan, err)
		}
	}
	f.tryCluster(o, around)
}

const maxTry = 3 * time.Second

// atSize reports what is wrong with the parameters of a size.
func (f file) atSize(o *Offering, plan [2]string, err error) {
	for i, t := range o.Spec.Types {
		for j, s := range t.Sizes {
			if t.Name == plan[0] && s.Name == plan[1] {
				f.At([]any{"spec", "types", i, "sizes", j, "parameters"}, "%v", err)
			}
		}
	}
}

func (f file) tryCluster(o *Offering, around Surroundings) {
	ctx := context.Background()
	for _, place := range []Surroundings{{}, around} { // an agent may not have reported yet
		for _, p := range o.Spec.Providers {
			for _, r := range p.Regions {
				if _, err := o.ReservedItems(ctx, place, p.Name, r.Name); err != nil {
					f.Missing([]any{"spec", "reserved"}, "cannot be made: %v", cause(err))
				}
			}
		}
		if _, err := o.AgentConfig(ctx, place); err != nil {
			f.Missing([]any{"spec", "agent", "config"}, "cannot be made: %v", cause(err))
		}
		if _, err := o.AgentParameters(ctx, place); err != nil {
			f.Missing([]any{"spec", "agent", "parameters"}, "cannot be made: %v", cause(err))
		}
		if _, err := o.steps.Render(ctx, place); err != nil {
			f.Missing([]any{"spec", "steps"}, "cannot be made: %v", err)
		}
	}
}

// models under which a type can be had; one without a name where there are none.
func (o *Offering) models(typeName string) []string {
	t, _ := o.TypeOf(typeName)
	if len(t.Billing) > 0 {
		return t.Billing
	}
	if len(o.Spec.Billing) == 0 {
		return []string{""}
	}
	out := make([]string, len(o.Spec.Billing))
	for i, b := range o.Spec.Billing {
		out[i] = b.Name
	}
	return out
}

func sampleSurroundings(o *Offering) Surroundings {
	versions := map[string]string{}
	for _, c := range o.Spec.Components {
		versions[c.Name] = "0"
	}
	return Surroundings{Cluster: ClusterFacts{ID: "sample", Domain: "example.org", Client: "sample", Versions: versions, Nodes: map[string]int64{}}}
}

// cause is the mistake without the words that name the offering: the place
// names it already.
func cause(err error) error {
	if inner, ok := err.(interface{ Unwrap() error }); ok && inner.Unwrap() != nil {
		return inner.Unwrap()
	}
	return err
}
