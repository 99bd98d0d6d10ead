package cluster

import (
	"context"

	"github.com/droverhq/drover/internal/ledger"
)

// shut is counted as in use on a cluster from when there is no way back: more
// than any cluster holds. Whoever looked before, and only now comes to place an
// instance there, is refused by the bound of the very counter that it takes its
// units from, however long it took. So it stays when the cluster is gone, until
// another one has its id.
const shut = 1 << 50

// InUse is what the value of a CapacityCounter says of instances.
func InUse(counter int64) int64 { return counter % shut }

// closing counts a cluster as full. The commit is refused while anything is in
// use there.
func closing(id string) ledger.Count {
	return ledger.Count{Name: CapacityCounter(id), Delta: shut, Max: shut}
}

// opening takes that back for one that is made in the place of what is gone.
func (s *Service) opening(ctx context.Context, id string, gone int64) ([]ledger.Count, error) {
	if gone == 0 {
		return nil, nil
	}
	n, err := s.store.Counter(ctx, CapacityCounter(id))
	if err != nil || n < shut {
		return nil, err
	}
	return []ledger.Count{{Name: CapacityCounter(id), Delta: -shut}}, nil
}
