package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// inTheWay is how many of the instances on a cluster are named.
const inTheWay = 10

// Movers move what is hosted on clusters. Those who host and can implement it.
type Movers interface {
	// Stuck names some of what cannot be moved off a cluster, with the reason, for
	// people, and counts all of it.
	Stuck(ctx context.Context, clusterID string, limit int) (names []string, total int64, err error)
	// Evacuate begins to move what can be, at most so many at a time, and goes on
	// each time that it is called.
	Evacuate(ctx context.Context, clusterID string, most int) error
}

// movesAtOnce is how many instances of one cluster are on their way at a time.
const movesAtOnce = 5

// Drain lets a cluster take no new orders, and waits until it is empty. What can
// move is made anew elsewhere and removed here once that is ready, a few at a
// time. It is refused while something runs there that cannot, unless the caller
// insists: then that ends where it is. The operation ends when the cluster is
// empty. Faults: Conflict, reason "not-empty".
func (s *Service) Drain(ctx context.Context, id string, force bool) (ledger.Object, error) {
	o, err := s.Get(ctx, id)
	if err != nil {
		return o, err
	}
	c, err := load(o)
	if err != nil || c.Spec.Draining {
		return o, err // it is on its way
	}
	if !force {
		what, err := s.stuck(ctx, c)
		if err != nil {
			return o, err
		}
		if what != "" {
			return o, fault.New(fault.Conflict, "cluster %s hosts %s. "+
				"Delete them or let them end, or drain it with force: it takes no new orders from then on, and is empty once the last of them has ended.", id, what).Because("not-empty")
		}
	}
	return s.want(ctx, id, "drain", func(c *Cluster) error {
		c.Spec.Unschedulable, c.Spec.Draining = true, true
		return nil
	}, "drain")
}

// stuck says what runs on a cluster and cannot be moved, for people; "" if
// nothing does.
func (s *Service) stuck(ctx context.Context, c Cluster) (string, error) {
	movers, ok := s.Tenants.(Movers)
	if !ok || c.Status.Installation == outside { // such an agent is not told what to remove
		what, err := s.occupied(ctx, c.ID)
		if what != "" {
			what += ", which cannot be moved to another cluster"
		}
		return what, err
	}
	names, total, err := movers.Stuck(ctx, c.ID, inTheWay)
	switch {
	case err != nil || total == 0:
		return "", err
	case total > int64(len(names)):
		return fmt.Sprintf("%d instances that cannot be moved to another cluster (%s; and %d more)", total, strings.Join(names, "; "), total-int64(len(names))), nil
	case total == 1:
		return "1 instance that cannot be moved to another cluster (" + names[0] + ")", nil
	}
	return fmt.Sprintf("%d instances that cannot be moved to another cluster (%s)", total, strings.Join(names, "; ")), nil
}

// evacuate goes on with moving what can be moved.
func (r *run) evacuate(ctx context.Context) error {
	r.next = &Come{drainRetry, fmt.Sprintf("%d units are still in use", r.facts.Used)}
	if movers, ok := r.Tenants.(Movers); ok && r.c.Status.Installation != outside {
		return movers.Evacuate(ledger.WithCause(ctx, ledger.ByChange(r.c.Ref, r.c.Version)), r.c.ID, movesAtOnce)
	}
	return nil
}

// Lost reports whether a cluster was given up, or is gone.
func (s *Service) Lost(ctx context.Context, id string) (bool, error) {
	o, err := s.Get(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	spec, _, err := Decode(o)
	return spec.Abandoned != "", err
}

// Undrain lets a cluster take orders again.
func (s *Service) Undrain(ctx context.Context, id string) (ledger.Object, error) {
	o, err := s.Get(ctx, id)
	if err != nil {
		return o, err
	}
	if c, err := load(o); err != nil || !c.Spec.Draining && !c.Spec.Unschedulable {
		return o, err
	}
	return s.want(ctx, id, "undrain", func(c *Cluster) error {
		c.Spec.Unschedulable, c.Spec.Draining = false, false
		return nil
	})
}

// occupied says what runs on a cluster, for people; "" if nothing does. Units
// that are in use count, whoever can name what uses them.
func (s *Service) occupied(ctx context.Context, id string) (string, error) {
	used, err := s.store.Counter(ctx, CapacityCounter(id))
	if err != nil {
		return "", err
	}
	used = InUse(used)
	var names []string
	var total int64
	if s.Hosted != nil {
		if names, total, err = s.Hosted.On(ctx, id, inTheWay); err != nil {
			return "", err
		}
	}
	switch {
	case total > int64(len(names)):
		return fmt.Sprintf("%d instances (%s and %d more)", total, strings.Join(names, ", "), total-int64(len(names))), nil
	case total == 1:
		return "1 instance (" + names[0] + ")", nil
	case total > 0:
		return fmt.Sprintf("%d instances (%s)", total, strings.Join(names, ", ")), nil
	case used > 0:
		return fmt.Sprintf("instances that use %d units", used), nil
	}
	return "", nil
}

// deployed says what was deployed to a cluster from Git, for people; "" if nothing
// was: it would be gone with the cluster.
func (s *Service) deployed(ctx context.Context, id string) (string, error) {
	if s.Deployed == nil {
		return "", nil
	}
	names, total, err := s.Deployed.On(ctx, id, inTheWay)
	if err != nil || total == 0 {
		return "", err
	}
	more := ""
	if rest := total - int64(len(names)); rest > 0 {
		more = fmt.Sprintf(" and %d more", rest)
	}
	return fmt.Sprintf("%d deployments (%s%s)", total, strings.Join(names, ", "), more), nil
}

// Delete takes a cluster away that hosts nothing: its maker removes it, or it
// only leaves the fleet where it was there before. The operation ends when it is
// gone. Faults: Conflict, reason "not-empty".
func (s *Service) Delete(ctx context.Context, id string) (ledger.Object, error) {
	for range attempts {
		o, err := s.Get(ctx, id)
		if err != nil {
			return o, err
		}
		c, err := load(o)
		if err != nil || c.Spec.Deleted {
			return o, err
		}
		what, err := s.occupied(ctx, id)
		if err != nil {
			return o, err
		}
		if what == "" {
			if what, err = s.deployed(ctx, id); err != nil {
				return o, err
			}
		}
		if what != "" && c.Spec.Abandoned != "" {
			return o, fault.New(fault.Conflict, "%s were lost with cluster %s: delete them first, so that its agent can be told to remove them if it returns", what, id).Because("not-empty")
		}
		if what != "" {
			return o, fault.New(fault.Conflict, "cluster %s hosts %s: delete them first, or drain the cluster with force and wait until they have ended", id, what).Because("not-empty")
		}
		puts, err := s.succeed(ctx, &c, "delete")
		if err != nil {
			return o, err
		}
		o, err = s.depart(ctx, c, puts...)
		if fault.Reason(err) != "version" {
			return o, err
		}
	}
	return ledger.Object{}, fault.New(fault.Unavailable, "cluster %q changes all the time; try again", id)
}
