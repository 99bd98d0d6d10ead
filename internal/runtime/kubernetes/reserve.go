package kubernetes

import (
	"slices"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
)

// system is the namespace of Kubernetes itself.
const system = "kube-system"

// agents is the namespace that agents are installed into unless another is named.
const agents = "drover-system"

// reserve refuses objects of a deployment in the agent's own namespace, which has the
// credentials of all, in the one where another agent most likely is, and in that of
// Kubernetes, unless an operator named it for the
// deployment: a pattern that covers it, or a tenant's namespace of the same name
// elsewhere, is no leave. Lines is what the deployment lists. It is pure.
func reserve(own string, d *deployment, lines []string) error {
	if d == nil {
		return nil
	}
	for _, line := range lines {
		id, err := manifest.Parse(line)
		if err != nil {
			return err
		}
		at := id.Namespace
		if id.Group == "" && id.Kind == "Namespace" {
			at = id.Name
		}
		if (at == own || at == agents || at == system) && !slices.Contains(d.Named, at) {
			return fault.New(fault.Invalid, "%s %s is for the namespace %s, which nobody deploys into unless an operator names it for the workspace", id.Kind, id.Name, at).Because("reserved")
		}
	}
	return nil
}
