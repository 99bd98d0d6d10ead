package manifest

import (
	"context"

	"github.com/droverhq/drover/internal/fault"
)

// Foreseen is one object of a set as it is, as Apply would make it, and as it is
// wanted. Err is why the cluster does not let it be made so.
type Foreseen struct {
	Compared
	Wanted map[string]any
	Err    error
}

// Difference is what Apply would change, as lines.
func (f Foreseen) Difference(limit int) string {
	if f.Would == nil {
		return Difference(f.There, f.Wanted, limit)
	}
	return Difference(f.There, f.Would, limit)
}

// Foresee tries each object of a set out on its own and writes nothing. Unlike with
// Compare, one that cannot be applied does not stand in the way of the others; an
// error is about all of them.
func (c *Client) Foresee(ctx context.Context, set Set) ([]Foreseen, error) {
	var all []Foreseen
	err := c.eachForeseen(ctx, set, func(a *attempt, one Compared, err error) error {
		if fault.Is(err, fault.Unavailable) && fault.Reason(err) == "unreachable" {
			return err
		}
		if a.there != nil {
			one.There = a.there.Object
		}
		all = append(all, Foreseen{Compared: one, Wanted: a.object.Object, Err: err})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
