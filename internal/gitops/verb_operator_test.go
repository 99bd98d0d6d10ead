package gitops_test

import (
	"context"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
)

// An operator's deployment may go where its organisation may not: whoever could
// choose its revision would choose what goes there.
func TestRevisionsOfOperatorsDeployments(t *testing.T) {
	y := newYard(t)
	y.workspace("acme", "hub", "shop")
	_, _, err := y.s.Create(chief, gitops.Order{Name: "web", Workspace: "acme", Repository: "https://h/r", Path: "k8s", Revision: "main", Manual: true, To: gitops.To{Cluster: "hub", Namespace: "kube-public"}})
	y.must(err)
	y.work(time.Second)
	admin := access.With(context.Background(), access.Principal{User: "anna", Org: "acme", OrgAdmin: true})
	if _, _, err := y.s.Sync(admin, "web", "refs/pull/7/head", false); !fault.Is(err, fault.Denied) && !fault.Is(err, fault.NotFound) {
		t.Errorf("another revision: %v", err)
	}
	if _, _, err := y.s.Sync(chief, "web", "v2", false); err != nil {
		t.Errorf("the operator: %v", err)
	}
}
