package consul

import (
	"context"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/executor"
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
