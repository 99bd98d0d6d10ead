package consul

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// Passing tells how many instances of a service pass all their checks, of how many
// there are.
func (e *Executor) Passing(ctx context.Context, conn executor.Connection, service string) (passing, all int, err error) {
	c, err := e.pool.Get(conn)
	if err != nil {
		return 0, 0, err
	}
	err = c.do(ctx, func(q *api.QueryOptions) error {
		found, _, err := c.api.Health().Service(service, "", false, q)
		if err != nil {
			return err
		}
		passing, all = 0, len(found)
		for _, s := range found {
			if s.Checks.AggregatedStatus() == api.HealthPassing {
				passing++
			}
		}
		return nil
	})
	return passing, all, err
}

var _ executor.Follower = (*Executor)(nil)

// Follows implements executor.Follower: services have health, keys have none.
func (*Executor) Follows(inputs map[string]any) bool {
	_, ok := inputs["service"]
	return ok
}

const followed = "consul://"

// Followed implements executor.Follower.
func (*Executor) Followed(outputs map[string]any) string {
	service, _ := outputs["service"].(string)
	node, _ := outputs["node"].(string)
	id, _ := outputs["id"].(string)
	if service == "" || node == "" || id == "" {
		return ""
	}
	return followed + service + "/" + node + "/" + id // none of them has a slash
}

// Health implements executor.Follower. What Consul says of the resource's own instance
// counts; others may be registered under the same name.
func (e *Executor) Health(ctx context.Context, conn executor.Connection, at string) (why string, err error) {
	part := strings.Split(strings.TrimPrefix(at, followed), "/")
	if len(part) != 3 {
		return "", fault.New(fault.Internal, "%q is no registered service", at)
	}
	c, err := e.pool.Get(conn)
	if err != nil {
		return "", err
	}
	err = c.do(ctx, func(q *api.QueryOptions) error {
		why, q.Filter = "", fmt.Sprintf("Service.ID == %q and Node.Node == %q", part[2], part[1])
		found, _, err := c.api.Health().Service(part[0], "", false, q)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fault.New(fault.NotFound, "%s does not know service %s on node %s", c.name, part[2], part[1])
		}
		for _, check := range found[0].Checks {
			if check.Status == api.HealthCritical { // what the check has seen is not for everybody
				why = fmt.Sprintf("check %q is critical", check.Name)
			}
		}
		return nil
	})
	return why, err
}
