package instance

import (
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/offering"
)

// wants is what the instance needs of a cluster.
func (in *Instance) wants(off *offering.Offering) cluster.Wanted {
	return cluster.Wanted{
		Provider: in.Spec.Provider, Region: in.Spec.Region, Offering: in.Spec.Offering, Type: in.Spec.Type,
		MultiAZ: in.Spec.MultiAZ, Org: in.Org, Cluster: in.Spec.Cluster, Rules: off.Spec.Placement,
	}
}

// order is what is to be placed. Clusters that had no room after all are not
// asked at once again.
func (f *Facts) order(in Instance, waited time.Duration) cluster.Order {
	o := cluster.Order{Wanted: cluster.Wanted{Cluster: in.Spec.Cluster, Rules: f.Rules}, Units: f.Units}
	if waited < rejectedFor {
		o.Rejected = in.Status.Rejected
	}
	return o
}

// verdict chooses among the candidates those that offer what is to run there.
func (f *Facts) verdict(in Instance, waited time.Duration) cluster.Verdict {
	if f.Unsold != "" {
		return cluster.Verdict{}
	}
	order := f.order(in, waited)
	if len(f.Open) > 0 {
		for _, c := range f.Candidates {
			if _, offered := f.Offers[c.ID]; !offered {
				order.Lacking = append(order.Lacking, c.ID)
			}
		}
	}
	return cluster.Choose(order, f.Candidates)
}
