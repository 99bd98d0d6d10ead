package cluster

import (
	"context"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// Losing is told that clusters are lost. Those who host on them and know
// implement it.
type Losing interface {
	// Lose marks everything on a cluster as lost. It can be done again.
	Lose(ctx context.Context, clusterID, why string) error
}

const maxReason = 512

// Abandon gives a cluster up for good: its agent will not come back. It hosts
// nothing from then on, and what ran there is lost. Its maker is asked to take
// away what is left of it only where destroy says so. That is what an operator
// says of this one cluster, so no breaker is asked. The operation ends when
// everything on it is marked. Faults: Invalid, reason "field"; Conflict, reasons
// "connected", "deleted".
func (s *Service) Abandon(ctx context.Context, id, why string, destroy bool) (ledger.Object, error) {
	if why = strings.TrimRight(strings.TrimSpace(why), "."); why == "" || len(why) > maxReason || !plainText(why) {
		return ledger.Object{}, fault.New(fault.Invalid, "say why the cluster is given up, in one line of at most %d bytes: owners of what ran there will read it", maxReason).Because("field")
	}
	for range attempts {
		o, err := s.Get(ctx, id)
		if err != nil {
			return o, err
		}
		c, err := load(o)
		if err != nil {
			return o, err
		}
		if c.Spec.Abandoned != "" && c.Phase == Abandoned && (c.Spec.Destroy || !destroy) {
			return o, nil
		}
		if err := c.lost(); err != nil {
			return o, err
		}
		used, err := s.store.Counter(ctx, CapacityCounter(id))
		if err != nil {
			return o, err
		}
		set := ledger.Set{Actor: access.From(ctx).Actor(), Cause: ledger.CauseOf(ctx), Wakes: []ledger.Wake{{Ref: o.Ref, Org: o.Org}}}
		if used < shut { // whoever comes to place something there only now is refused
			set.Counts = []ledger.Count{{Name: CapacityCounter(id), Delta: shut, Max: -1}}
		}
		puts, err := s.succeed(ctx, &c, "abandon")
		if err != nil {
			return o, err
		}
		c.Spec.Abandoned, c.Spec.Destroy, c.Spec.Unschedulable = why, destroy, true
		if c.Phase != Abandoned {
			c.Status.Since = s.now().UTC()
		}
		c.Phase, c.Status.Reason, c.Status.Message = Abandoned, "It was given up as lost: "+why+".", ""
		c.Status.Steps, c.Status.Strays = nil, nil
		put, err := c.put("abandon")
		if err != nil {
			return o, err
		}
		set.Puts = append([]ledger.Put{put}, puts...)
		r, err := s.store.Commit(ctx, set)
		if err == nil {
			return r.Objects[0], nil
		}
		if fault.Reason(err) != "version" {
			return o, err
		}
	}
	return ledger.Object{}, fault.New(fault.Unavailable, "cluster %q changes all the time; try again", id)
}

// lost refuses to give up a cluster that is not.
func (c Cluster) lost() error {
	switch {
	case c.Phase == Ready || c.Status.Session != "":
		return fault.New(fault.Conflict, "the agent of cluster %s is connected: it is not lost. Drain it, or stop its agent and wait until the cluster is not ready any more.", c.ID).Because("connected")
	case c.Phase == Cleanup || c.Phase == Deprovisioning:
		return fault.New(fault.Conflict, "cluster %s is being taken away already", c.ID).Because("deleted")
	}
	return nil
}

func plainText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' })
}

// Returned is what an agent is told that comes back to a cluster that was given
// up, once there is nothing left for it to remove.
func Returned(id, why string) error {
	return fault.New(fault.Conflict, "cluster %s was given up as lost (%s): its agent is not listened to, and nothing is told to it. "+
		"Remove the agent and what it runs, or register the data plane under another name.", id, why).Because("abandoned")
}

// planAbandoned marks what was lost, and takes away what is left of the cluster
// where that is wanted.
func planAbandoned(c Cluster, f Facts) []Action {
	switch {
	case f.Verb == "abandon":
		return []Action{Lose{}, Finish{Phase: operation.Succeeded}}
	case c.Spec.Destroy && c.Status.Maker != nil:
		return []Action{Move{To: Deprovisioning, Reason: c.Status.Reason}}
	}
	return nil
}

// lose marks everything that ran on the cluster.
func (r *run) lose(ctx context.Context) error {
	if l, ok := r.Tenants.(Losing); ok {
		return l.Lose(ledger.WithCause(ctx, ledger.ByChange(r.c.Ref, r.c.Version)), r.c.ID, r.c.Spec.Abandoned)
	}
	return nil
}
