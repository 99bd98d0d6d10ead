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

// Drain lets a cluster take no new orders, and waits until it is empty: no
// offering can move its instances, so they end where they are. It is refused
// while something runs there, unless the caller insists. The operation ends
// when the cluster is empty. Faults: Conflict, reason "not-empty".
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
		if what, err := s.occupied(ctx, id); err != nil || what != "" {
			if err == nil {
				err = fault.New(fault.Conflict, "cluster %s hosts %s, and no offering can move its instances to another cluster. "+
					"Delete them or let them end, or drain it with force: it takes no new orders from then on, and is empty once the last of them has ended.", id, what).Because("not-empty")
			}
			return o, err
		}
	}
	return s.want(ctx, id, "drain", func(c *Cluster) error {
		c.Spec.Unschedulable, c.Spec.Draining = true, true
		return nil
	}, "drain")
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
