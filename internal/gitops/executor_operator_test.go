package gitops_test

import (
	"context"
	"io"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// What operators make reaches where they do, also as a part of an environment, and
// what others make does not.
func TestOperatorsEnvironmentsDeployAnywhere(t *testing.T) {
	for _, c := range []struct {
		reason   string
		operator bool
	}{
		{"an operator's environment has no organisation, and deploys all the same", true},
		{"anybody else reaches what a workspace does", false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			p := newPlant(t)
			var state []byte
			r := executor.Resource{
				ID: "r1", Address: "web", Environment: "all", Owner: "root", Operator: c.operator, Log: io.Discard,
				Inputs: map[string]any{"repository": "https://h/acme/shop", "path": "k8s", "cluster": "hub", "namespace": "kube-public", "name": "web"},
				Save:   func(_ context.Context, data []byte) error { state = data; return nil },
			}
			apply := func() (executor.Result, error) {
				r.State = state
				return p.x.Apply(t.Context(), r)
			}
			if !c.operator {
				if _, err := apply(); !fault.Is(err, fault.Denied) && !fault.Is(err, fault.NotFound) {
					t.Fatalf("it is answered %v", err)
				}
				return
			}
			p.await(t, "deployed", func() bool {
				done, err := apply()
				if err != nil {
					t.Fatal(err)
				}
				return done.Done
			})
		})
	}
}
