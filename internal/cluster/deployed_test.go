package cluster_test

import (
	"context"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/fault"
)

// gitDeployments are what is deployed to every cluster from Git.
type gitDeployments []string

func (g gitDeployments) On(_ context.Context, _ string, limit int) ([]string, int64, error) {
	return g[:min(limit, len(g))], int64(len(g)), nil
}

// What tenants have deployed would be gone with the cluster.
func TestClustersWithDeploymentsStay(t *testing.T) {
	f := newFleet(t)
	if _, err := f.Register(byOps(), "edge", local); err != nil {
		t.Fatal(err)
	}
	f.Deployed = gitDeployments{"shop", "till"}
	if _, err := f.Delete(byOps(), "edge"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "2 deployments (shop, till)") {
		t.Errorf("it is deleted: %v", err)
	}
	f.Deployed = gitDeployments{}
	if _, err := f.Delete(byOps(), "edge"); err != nil {
		t.Errorf("an empty one is not deleted: %v", err)
	}
}
